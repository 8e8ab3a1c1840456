#include <cstdint>
#include <future>
#include <map>
#include <message_of.h>
#include <schedulers.h>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/optimizer.h>
#include <heddle/random.h>
#include <heddle/row_sparse.h>
#include <heddle/shape_ops.h>

namespace heddle {
namespace {

using Rows = std::vector<std::int64_t>;
using Values = std::vector<float>;

NDArray list(const Rows& rows) { return array<std::int64_t>(rows, {static_cast<std::int64_t>(rows.size())}); }

// Checks that x has exactly these rows, with these values.
void check_is(const RowSparse& x, const Rows& rows, const Values& values) {
  const RowSparse present = x.trimmed();
  CHECK(present.rows().to_vector<std::int64_t>() == rows);
  CHECK(present.values().to_vector<float>() == values);
}

// What row_sparse() must give: the sum of the values of each row. `width` is the number of elements of a row.
std::map<std::int64_t, Values> added_up(const Rows& rows, const Values& values, std::size_t width) {
  std::map<std::int64_t, Values> sums;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Values& sum = sums.try_emplace(rows[i], Values(width)).first->second;
    for (std::size_t j = 0; j < width; ++j) sum[j] += values[i * width + j];
  }
  return sums;
}

void check_is(const RowSparse& x, const std::map<std::int64_t, Values>& sums) {
  Rows rows;
  Values values;
  for (const auto& [row, sum] : sums) {
    rows.push_back(row);
    values.insert(values.end(), sum.begin(), sum.end());
  }
  check_is(x, rows, values);
}

}  // namespace

TEST_CASE("row_sparse sorts rows and adds up the values of equal ones") {
  const RowSparse x =
      row_sparse(array<std::int32_t>({4, 1, 4, 0}), array<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}), {5, 2});
  CHECK(x.shape() == Shape{5, 2});
  CHECK(x.dtype() == DType::f32);
  CHECK(x.capacity() == 4);
  CHECK(x.count().item<std::int64_t>() == 3);
  CHECK(x.rows().to_vector<std::int64_t>() == Rows{0, 1, 4, 5});
  check_is(x, {0, 1, 4}, {7, 8, 3, 4, 6, 8});
  CHECK(to_dense(x).to_vector<float>() == Values{7, 8, 3, 4, 0, 0, 0, 0, 6, 8});
}

TEST_CASE("there is room for no more rows than the array has") {
  const RowSparse x = row_sparse(list({1, 0, 1, 0, 1}), ones({5, 1}), {2, 1});
  CHECK(x.capacity() == 2);
  check_is(x, {0, 1}, {2, 3});
}

TEST_CASE("many rows, some of them often, add up in the order in which they come, on every scheduler") {
  for (const auto& [n, width, k] :
       {std::tuple{100'000, 3, 5000}, std::tuple{3000, 130, 4000}, std::tuple{7, 1, 900}}) {
    test::on_every_scheduler([n = n, width = width, k = k](Engine& engine) {
      const EngineScope scope(engine);
      Generator generator(8);
      Rows rows = generator.integers({k}, 0, n).to_vector<std::int64_t>();
      // Every other index is n - 1, so that one row occurs very often.
      for (std::size_t i = 0; i < rows.size(); i += 2) rows[i] = n - 1;
      const NDArray values = generator.normal({k, width}, 0, 1000);
      check_is(row_sparse(list(rows), values, {n, width}),
               added_up(rows, values.to_vector<float>(), static_cast<std::size_t>(width)));
    });
  }
}

TEST_CASE("rows and values may be views") {
  const NDArray rows = list({9, 0, 9, 2, 9, 0}).slice(0, {.begin = 1, .step = 2});
  const NDArray values = transpose(array<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  check_is(row_sparse(rows, values, {3, 2}), {0, 2}, {4, 10, 2, 5});
}

TEST_CASE("row-sparse arrays without rows, elements or present rows") {
  const RowSparse none = row_sparse(list({}), zeros({0, 3}), {4, 3});
  CHECK(none.capacity() == 0);
  check_is(none, {}, {});
  CHECK(to_dense(none).to_vector<float>() == Values(12));
  check_is(sum({none, none}), {}, {});
  check_is(retain(none, list({1})), {}, {});
  check_is(row_sparse(list({}), zeros({0}), {0}), {}, {});
  check_is(row_sparse(list({2, 2}), zeros({2, 0}), {3, 0}), {2}, {});
  check_is(row_sparse(list({1, 1}), ones({2}), {3}), {1}, {2});
  check_is(retain(zeros({2, 2}), list({})), {}, {});
}

TEST_CASE("retain takes rows of a dense array") {
  const NDArray x = arange(0, 8).view_as({4, 2});
  check_is(retain(x, list({3, 1, 3})), {1, 3}, {2, 3, 6, 7});
  check_is(retain(transpose(x), array<std::int32_t>({1})), {1}, {1, 3, 5, 7});
}

TEST_CASE("retain takes the rows that a row-sparse array has") {
  const RowSparse x = row_sparse(list({5, 1, 3}), array<float>({50, 10, 30}, {3, 1}), {7, 1});
  const RowSparse some = retain(x, list({6, 5, 0, 1, 5, 2}));
  CHECK(some.capacity() == 3);
  check_is(some, {1, 5}, {10, 50});
  check_is(retain(x, list({0, 2, 6})), {}, {});
}

TEST_CASE("sum merges rows and adds in the order of the arrays") {
  const RowSparse a = row_sparse(list({0, 2}), array<float>({1e8f, 1}, {2, 1}), {4, 1});
  const RowSparse b = row_sparse(list({3, 0}), array<float>({7, 1}, {2, 1}), {4, 1});
  const RowSparse c = row_sparse(list({0}), array<float>({-1e8f}, {1, 1}), {4, 1});
  check_is(sum({a, b, c}), {0, 2, 3}, {0, 1, 7});  // row 0 is (1e8 + 1) - 1e8, and 1e8 + 1 is 1e8 in f32
  check_is(sum({a, c, b}), {0, 2, 3}, {1, 1, 7});
  check_is(sum({b}), {0, 3}, {1, 7});
  CHECK(sum({a, b, c}).capacity() == 4);
}

TEST_CASE("scale multiplies the values and keeps the rows") {
  const RowSparse x = row_sparse(list({2, 0}), array<float>({1, 2, 3, 4}, {2, 2}), {3, 2});
  check_is(scale(x, 0.5), {0, 2}, {1.5, 2, 0.5, 1});
  check_is(x, {0, 2}, {3, 4, 1, 2});
  CHECK(scale(x, 2).rows().storage() == x.rows().storage());
}

TEST_CASE("add_rows adds in place") {
  const NDArray base = ones({6}), dense = base.slice(0, {1, 5}).view_as({4, 1});
  add_rows(dense, row_sparse(list({3, 1}), array<float>({10, 20}, {2, 1}), {4, 1}));
  CHECK(base.to_vector<float>() == Values{1, 1, 21, 1, 11, 1});
}

TEST_CASE("half types are added up in f32 and rounded once") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const RowSparse x = row_sparse(zeros({4097}, DType::i64), ones({4097, 1}, dtype), {2, 1});
    CHECK(x.dtype() == dtype);
    const float rounded = full({}, 4097.0, dtype).astype(DType::f32).item<float>();
    CHECK(to_dense(x).astype(DType::f32).to_vector<float>() == Values{rounded, 0});
    const RowSparse y = row_sparse(list({1}), full({1, 1}, 1.5, dtype), {2, 1});
    CHECK(to_dense(sum({y, y, y})).astype(DType::f32).to_vector<float>() == Values{0, 4.5});
    CHECK(retain(ones({2, 1}, dtype), list({1})).dtype() == dtype);
  }
}

TEST_CASE("trimmed arrays are made of the same memory") {
  const RowSparse x = row_sparse(list({1, 1, 1}), ones({3, 2}), {4, 2}), exact = x.trimmed();
  CHECK(x.capacity() == 3);
  CHECK(exact.capacity() == 1);
  CHECK(exact.values().storage() == x.values().storage());
  CHECK(to_dense(exact).to_vector<float>() == to_dense(x).to_vector<float>());
}

// The rows come from an op that ends after all calls were made.
TEST_CASE("no call waits for the rows") {
  for (const int workers : {1, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray rows = zeros({3}, DType::i64), weight = ones({4, 2});
    std::promise<Completion> begun;
    engine.push_async([&begun](RunContext&, Completion done) { begun.set_value(std::move(done)); },
                      {.mutate = {rows.var()}});
    Completion late = begun.get_future().get();
    const RowSparse x = row_sparse(rows, ones({3, 2}), {4, 2});
    const RowSparse all = scale(sum({x, retain(weight, rows), retain(x, rows)}), 0.5);
    const NDArray dense = to_dense(all);
    add_rows(dense, x);
    for (const char* name : {"sgd", "adam"}) create_optimizer(name, {{"lr", 1}})->update(0, weight, all);
    CHECK(engine.describe_pending().find("add_rows") != std::string::npos);
    late.done();
    CHECK(dense.to_vector<float>() == Values{6.5, 6.5, 0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("a row out of range is an op error that names it and its position") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray values = ones({2, 1}), dense = ones({4, 1});
    const RowSparse far = row_sparse(list({1, 4}), values, {4, 1});
    CHECK_THROWS_WITH_AS(far.wait(), "row_sparse: index 4 at position 1 is out of range for size 4", Error);
    CHECK_THROWS_AS(far.rows().wait(), Error);
    CHECK_THROWS_AS(far.count().wait(), Error);
    CHECK_THROWS_WITH_AS(to_dense(sum({far, far})).wait(),
                         "row_sparse: index 4 at position 1 is out of range for size 4", Error);
    CHECK_THROWS_WITH_AS(retain(dense, list({-1})).wait(),
                         "retain: index -1 at position 0 is out of range for size 4", Error);
    CHECK_THROWS_WITH_AS(retain(retain(dense, list({0})), list({9})).wait(),
                         "retain: index 9 at position 0 is out of range for size 4", Error);
  });
}

TEST_CASE("parts that contradict each other are errors of the ops that read them") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const auto made = [](const Rows& rows, std::int64_t count) {
      return RowSparse({5, 1}, list(rows), ones({static_cast<std::int64_t>(rows.size()), 1}),
                       array<std::int64_t>({count}));
    };
    const std::string rise = "; wanted are rising ones";
    CHECK(to_dense(made({1, 3, 0}, 2)).to_vector<float>() == Values{0, 1, 0, 1, 0});
    CHECK_THROWS_WITH(to_dense(made({0, 1}, 3)).wait(),
                      doctest::Contains("add_rows: a row-sparse array has 3 rows and room for 2"));
    CHECK_THROWS_WITH(made({0, 1}, -1).trimmed(),
                      doctest::Contains("trimmed: a row-sparse array has -1 rows and room for 2"));
    CHECK_THROWS_WITH(made({0, 1}, 3).trimmed(),
                      doctest::Contains("trimmed: a row-sparse array has 3 rows and room for 2"));
    CHECK_THROWS_WITH(sum({made({0, 1}, -1)}).wait(),
                      doctest::Contains("sum: a row-sparse array has -1 rows and room for 2"));
    CHECK_THROWS_WITH(
        retain(made({2, 2}, 2), list({2})).wait(),
        doctest::Contains(("retain: a row-sparse array of 5 rows has row 2 behind row 2" + rise).c_str()));
    CHECK_THROWS_WITH(
        to_dense(made({0, 5}, 2)).wait(),
        doctest::Contains(("add_rows: a row-sparse array of 5 rows has row 5 behind row 0" + rise).c_str()));
    CHECK_THROWS_WITH(
        to_dense(made({-1}, 1)).wait(),
        doctest::Contains(
            ("add_rows: a row-sparse array of 5 rows has row -1 behind row -1" + rise).c_str()));
    NDArray weight = ones({5, 1});
    for (const char* name : {"sgd", "adam"}) create_optimizer(name)->update(0, weight, made({4, 1}, 2));
    CHECK_THROWS_WITH(
        weight.wait(),
        doctest::Contains(
            ("sgd_update_rows: a row-sparse array of 5 rows has row 1 behind row 4" + rise).c_str()));
  });
}

TEST_CASE("what row-sparse arrays cannot be is refused at the call") {
  const auto refusal = [](auto&& call) { return test::message_of<InvalidArgument>(call); };
  const NDArray rows = list({0, 1}), values = ones({2, 3}), one = ones({1}, DType::i64);
  const RowSparse x = row_sparse(rows, values, {4, 3});
  CHECK(refusal([&] {
          row_sparse(rows, ones({3, 3}), {4, 3});
        }) == "row_sparse: values of shape (3, 3) for 2 rows of an array of shape (4, 3); wanted is (2, 3)");
  CHECK(refusal([&] {
          row_sparse(values, values, {4, 3});
        }) == "row_sparse: rows have dtype f32; wanted integers");
  CHECK(refusal([&] {
          row_sparse(rows.view_as({1, 2}), values, {4, 3});
        }) == "row_sparse: rows have shape (1, 2); wanted is one axis");
  CHECK(refusal([&] {
          row_sparse(rows, rows.view_as({2, 1}), {4, 1});
        }) == "row_sparse: dtype i64; wanted a floating one");
  CHECK(refusal([&] { row_sparse(rows, ones({2}), {}); }) == "row_sparse: an array of shape () has no rows");
  CHECK(refusal([&] { row_sparse(rows, values, {-4, 3}); }).starts_with("row_sparse: "));
  CHECK(refusal([&] { retain(rows.view_as({2, 1}), rows); }) == "retain: dtype i64; wanted a floating one");
  CHECK(refusal([&] { retain(ones({}), rows); }) == "retain: an array of shape () has no rows");
  CHECK(refusal([&] { retain(x, values); }) == "retain: rows have dtype f32; wanted integers");
  CHECK(refusal([&] { sum(std::vector<RowSparse>()); }) == "sum: of no row-sparse arrays");
  CHECK(refusal([&] {
          sum({x, row_sparse(rows, values, {5, 3})});
        }) == "sum: row-sparse arrays of f32(4, 3) and f32(5, 3)");
  CHECK(refusal([&] {
          sum({x, row_sparse(rows, values.astype(DType::f64), {4, 3})});
        }) == "sum: row-sparse arrays of f32(4, 3) and f64(4, 3)");
  CHECK(refusal([&] {
          add_rows(ones({3, 4}), x);
        }) == "add_rows: to f32(3, 4) of strides (4, 1); wanted is a contiguous f32(4, 3)");
  CHECK(refusal([&] {
          add_rows(transpose(ones({3, 4})), x);
        }) == "add_rows: to f32(4, 3) of strides (1, 4); wanted is a contiguous f32(4, 3)");
  CHECK(refusal([&] {
          add_rows(ones({4, 3}, DType::f32, cpu(1)), x);
        }) == "add_rows: arrays on cpu(1) and cpu(0); copy_to() one of them");
  CHECK(refusal([&] {
          RowSparse({4, 3}, rows, ones({2, 4}), one);
        }) ==
        "RowSparse: of shape (4, 3) with rows i64(2,), values f32(2, 4) and count i64(1,); wanted are "
        "contiguous "
        "rows i64(k,), values (k, 3) and count i64(1,)");
  CHECK(refusal([&] {
          RowSparse({4}, rows, ones({2}), ones({2}, DType::i64));
        }).ends_with("values (k,) and count i64(1,)"));
  CHECK(refusal([&] {
          RowSparse({4, 3}, ones({2}, DType::i32), values, one);
        }).starts_with("RowSparse: of shape"));
  CHECK(refusal([&] {
          RowSparse({4, 3}, rows, transpose(ones({3, 2})), one);
        }).starts_with("RowSparse: of shape"));
  CHECK(refusal([&] { RowSparse({-4, 3}, rows, values, one); }).starts_with("RowSparse: "));
}

TEST_CASE("no gradient is lost by a change in place") {
  NDArray leaf = ones({4, 3});
  set_requires_grad(leaf);
  NDArray computed = leaf * 2;
  CHECK_THROWS_AS(add_rows(computed, retain(leaf, list({1}))), Error);
  const NoGrad no_grad;
  add_rows(computed, retain(leaf, list({1})));
  CHECK(computed[1].to_vector<float>() == Values{3, 3, 3});
}

TEST_CASE("arrays of other devices and engines") {
  const NDArray there = arange(0, 4, 1, DType::f32, cpu(1)).view_as({2, 2});
  const RowSparse x = retain(there, ones({1}, DType::i64, cpu(1)));
  CHECK(x.device() == cpu(1));
  CHECK(to_dense(x).device() == cpu(1));
  Engine engine({.scheduler = Scheduler::naive});
  RowSparse y;
  {
    const EngineScope scope(engine);
    y = retain(ones({2, 1}), list({1}));
  }
  const RowSparse z = scale(sum({y, y}), 3);
  CHECK(&z.engine() == &engine);
  CHECK(to_dense(z).to_vector<float>() == Values{0, 6});
}

}  // namespace heddle
