// Row-sparse arrays on a GPU have the rows, values and errors of the CPU.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/elementwise.h>
#include <heddle/row_sparse.h>
#include <heddle/shape_ops.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

bool same_rows(const RowSparse& here, const RowSparse& there) {
  const RowSparse a = here.trimmed(), b = there.trimmed();
  return a.capacity() == b.capacity() && same_bits(a.values(), b.values()) &&
         same_bits(here.rows(), there.rows()) && same_bits(here.count(), there.count());
}

NDArray random_rows(Random& random, std::int64_t count, std::int64_t bound) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i)
    rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound)));
  return array(rows, {count});
}
NDArray values_of(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-60);
  return array(values, shape).astype(dtype);
}

TEST_CASE("row-sparse arrays are made, retained, added up and made dense as on the CPU") {
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  for (int seed = 0; seed < 16; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const DType dtype = dtypes[seed % 4];
    const std::int64_t bound = seed % 3 ? 17 : 5000, count = seed % 5 == 0 ? 1300 : 40;
    const std::int64_t width = count > 1000 ? 1 : seed % 5 == 1 ? 0 : 3;
    const Shape shape{bound, width};
    std::vector<RowSparse> here, there;
    for (int k = 0; k < 2; ++k) {
      const NDArray rows = random_rows(random, count, bound),
                    values = values_of(random, {count, width}, dtype);
      here.push_back(row_sparse(rows, values, shape));
      there.push_back(row_sparse(rows.copy_to(gpu(0)), values.copy_to(gpu(0)), shape));
      CHECK(same_rows(here.back(), there.back()));
    }
    CHECK(same_rows(sum(here), sum(there)));
    CHECK(same_bits(to_dense(here[0]), to_dense(there[0])));
    const NDArray chosen = random_rows(random, 30, bound), other = chosen.copy_to(gpu(0));
    CHECK(same_rows(retain(here[0], chosen), retain(there[0], other)));
    const NDArray dense = to_dense(here[1]), copy = dense.copy_to(gpu(0));
    CHECK(same_rows(retain(dense, chosen), retain(copy, other)));
    add_rows(dense, here[0]);
    add_rows(copy, there[0]);
    CHECK(same_bits(dense, copy));
  }
  CHECK(problems() == "");
}

TEST_CASE("rows that begin at any element of an array are retained") {
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    for (const std::int64_t width : {2, 4, 8}) {
      for (const std::int64_t offset : {0, 1, 2, 3}) {
        CAPTURE(width);
        CAPTURE(offset);
        Random random(static_cast<std::uint64_t>(width + offset));
        const std::int64_t bound = 20;
        const NDArray all = values_of(random, {offset + bound * width}, dtype),
                      chosen = random_rows(random, 9, bound);
        const auto part = [&](const NDArray& x) {
          return x.slice(0, {.begin = offset}).view_as({bound, width});
        };
        const NDArray here = part(all), there = part(all.copy_to(gpu(0)));
        CHECK(same_rows(retain(here, chosen), retain(there, chosen.copy_to(gpu(0)))));
        const auto sparse = [&](const NDArray& x) {
          return RowSparse({bound, width}, arange(bound, DType::i64, x.device()), x,
                           full({1}, 20, DType::i64, x.device()));
        };
        CHECK(same_rows(retain(sparse(here), chosen), retain(sparse(there), chosen.copy_to(gpu(0)))));
      }
    }
  }
  CHECK(problems() == "");
}

template <class F> void check_error(const F& call) {
  std::string found[2];
  for (const Device device : {cpu(), gpu(0)}) {
    try {
      call(device);
    } catch (const Error& error) {
      found[device == gpu(0)] = without_call_site(error.what());
    }
  }
  CHECK(!found[0].empty());
  CHECK(found[0] == found[1]);
}

TEST_CASE("wrong parts of row-sparse arrays are the CPU's errors") {
  const auto made = [](std::vector<std::int64_t> rows, std::int64_t count, Device on) {
    const auto capacity = static_cast<std::int64_t>(rows.size());
    return RowSparse({6, 2}, array(rows, {capacity}).copy_to(on), ones({capacity, 2}, DType::f32, on),
                     full({1}, static_cast<double>(count), DType::i64, on));
  };
  const auto list = [](std::vector<std::int64_t> rows, Device on) {
    return array(rows, {static_cast<std::int64_t>(rows.size())}).copy_to(on);
  };
  check_error([&](Device on) { to_dense(made({0, 3, 2}, 3, on)).wait(); });
  check_error([&](Device on) { to_dense(made({0, 3, 9}, 3, on)).wait(); });
  check_error([&](Device on) { to_dense(made({-2, 3, 4}, 3, on)).wait(); });
  check_error([&](Device on) { to_dense(made({0, 3, 9}, 4, on)).wait(); });
  check_error([&](Device on) { to_dense(made({0, 3, 9}, -1, on)).wait(); });
  check_error([&](Device on) { sum(std::vector{made({0, 3, 4}, 3, on), made({1, 1, 9}, 3, on)}).wait(); });
  check_error([&](Device on) { retain(made({0, 3, 4}, 7, on), list({9}, on)).wait(); });
  check_error([&](Device on) { retain(made({0, 3, 4}, 3, on), list({1, 9}, on)).wait(); });
  check_error([&](Device on) { retain(ones({3, 2}, DType::f32, on), list({1, -1}, on)).wait(); });
  check_error([&](Device on) { row_sparse(list({1, 6}, on), ones({2, 2}, DType::f32, on), {6, 2}).wait(); });
  CHECK(problems() == "");
}

}  // namespace
