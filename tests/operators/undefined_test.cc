// Every public function that takes an array refuses an undefined one, in each place, in the same words.
#include <functional>
#include <message_of.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/sequential.h>

namespace heddle {
namespace {

using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

void check_refused(const Calls& calls) {
  for (const auto& [name, call] : calls) {
    CHECK(test::message_of<InvalidArgument>(call) ==
          name +
              ": an array is undefined: made without a shape, moved from, or a gradient before backward()");
  }
}

const NDArray kNone;
NDArray some() { return ones({2, 2}); }

}  // namespace

TEST_CASE("elementwise operators refuse undefined arrays") {
  using Unary = NDArray (*)(const NDArray&, Where);
  const std::vector<std::pair<std::string, Unary>> unary = {
      {"negative", negative},
      {"abs", abs},
      {"square", square},
      {"relu", relu},
      {"exp", exp},
      {"log", log},
      {"sqrt", sqrt},
      {"tanh", tanh},
      {"sigmoid", sigmoid},
      {"negative", [](const NDArray& x, Where) { return -x; }},
      {"logical_not", logical_not}};
  Calls calls;
  for (const auto& [name, f] : unary) calls.emplace_back(name, [f = f] { f(kNone, Where::current()); });
  using Binary = NDArray (*)(const Operand&, const Operand&, Where);
  const std::vector<std::pair<std::string, Binary>> binary = {
      {"add", add},
      {"subtract", subtract},
      {"multiply", multiply},
      {"divide", divide},
      {"power", power},
      {"maximum", maximum},
      {"minimum", minimum},
      {"equal", equal},
      {"not_equal", not_equal},
      {"less", less},
      {"less_equal", less_equal},
      {"greater", greater},
      {"greater_equal", greater_equal},
      {"add", [](const Operand& a, const Operand& b, Where) { return a + b; }},
      {"multiply", [](const Operand& a, const Operand& b, Where) { return a * b; }},
      {"divide", [](const Operand& a, const Operand& b, Where) { return a / b; }},
      {"less", [](const Operand& a, const Operand& b, Where) { return a < b; }},
      {"greater", [](const Operand& a, const Operand& b, Where) { return a > b; }}};
  for (const auto& [name, f] : binary) {
    calls.emplace_back(name, [f = f] { f(kNone, some(), Where::current()); });
    calls.emplace_back(name, [f = f] { f(some(), kNone, Where::current()); });
    calls.emplace_back(name, [f = f] { f(kNone, kNone, Where::current()); });
    calls.emplace_back(name, [f = f] { f(kNone, 2, Where::current()); });
    calls.emplace_back(name, [f = f] { f(2.5, kNone, Where::current()); });
  }
  check_refused(calls);
}

TEST_CASE("updates in place refuse undefined arrays") {
  NDArray none, x = some();
  check_refused({
      {"add_", [&] { none += some(); }},
      {"add_", [&] { x += none; }},
      {"subtract_", [&] { none -= 1; }},
      {"subtract_", [&] { x -= none; }},
      {"multiply_", [&] { none *= 2.5; }},
      {"multiply_", [&] { x *= none; }},
      {"divide_", [&] { none /= some(); }},
      {"divide_", [&] { x /= none; }},
  });
}

TEST_CASE("operators that select, reduce and multiply refuse undefined arrays") {
  const NDArray labels = zeros({2}, DType::i64), yes = ones({2, 2}, DType::boolean);
  Generator generator;
  check_refused({
      {"clip", [] { clip(kNone, 0, 1); }},
      {"where", [] { where(kNone, some(), some()); }},
      {"where", [=] { where(yes, kNone, some()); }},
      {"where", [=] { where(yes, 1, kNone); }},
      {"sum", [] { sum(kNone); }},
      {"mean", [] { mean(kNone); }},
      {"max", [] { max(kNone); }},
      {"min", [] { min(kNone); }},
      {"argmax", [] { argmax(kNone); }},
      {"argmin", [] { argmin(kNone); }},
      {"matmul", [] { matmul(kNone, some()); }},
      {"matmul", [] { matmul(some(), kNone); }},
      {"linear", [] { linear(kNone, some()); }},
      {"linear", [] { linear(some(), kNone); }},
      {"conv2d",
       [] {
         conv2d(kNone, ones({1, 1, 1, 1}));
       }},
      {"conv2d",
       [] {
         conv2d(ones({1, 1, 1, 1}), kNone);
       }},
      {"max_pool2d", [] { max_pool2d(kNone); }},
      {"avg_pool2d", [] { avg_pool2d(kNone); }},
      {"softmax", [] { softmax(kNone); }},
      {"log_softmax", [] { log_softmax(kNone); }},
      {"cross_entropy", [=] { cross_entropy(kNone, labels); }},
      {"cross_entropy", [] { cross_entropy(some(), kNone); }},
      {"dropout", [&] { dropout(kNone, 0.5, generator, true); }},
  });
}

TEST_CASE("operators that rearrange refuse undefined arrays") {
  const NDArray labels = zeros({2}, DType::i64);
  check_refused({
      {"reshape", [] { reshape(kNone, {1}); }},
      {"flatten", [] { flatten(kNone); }},
      {"transpose", [] { transpose(kNone); }},
      {"transpose", [] { transpose(kNone, {0}); }},
      {"broadcast_to", [] { broadcast_to(kNone, {2}); }},
      {"expand_dims", [] { expand_dims(kNone, 0); }},
      {"squeeze", [] { squeeze(kNone); }},
      {"slice", [] { slice(kNone, 0, {}); }},
      {"concat",
       [] {
         concat({kNone, some()});
       }},
      {"concat",
       [] {
         concat({some(), kNone});
       }},
      {"stack", [] { stack({kNone}); }},
      {"take", [=] { take(kNone, labels); }},
      {"take", [] { take(some(), kNone); }},
      {"one_hot", [] { one_hot(kNone, 3); }},
      {"cast", [] { cast(kNone, DType::f64); }},
      {"contiguous", [] { contiguous(kNone); }},
      {"copy", [] { copy(kNone); }},
      {"copy_to", [] { copy_to(kNone, cpu()); }},
  });
}

TEST_CASE("operators that sort, search and scatter refuse undefined arrays") {
  const NDArray places = zeros({2, 2}, DType::i64), yes = ones({2, 2}, DType::boolean);
  check_refused({
      {"split", [] { split(kNone, 2); }},
      {"unstack", [] { unstack(kNone); }},
      {"moveaxis", [] { moveaxis(kNone, {0}, {1}); }},
      {"flip", [] { flip(kNone); }},
      {"roll", [] { roll(kNone, {1}); }},
      {"tile", [] { tile(kNone, {2}); }},
      {"repeat", [] { repeat(kNone, 2); }},
      {"pad", [] { pad(kNone, {1}, {1}); }},
      {"tril", [] { tril(kNone); }},
      {"diag", [] { diag(kNone); }},
      {"diagonal", [] { diagonal(kNone); }},
      {"matrix_trace", [] { matrix_trace(kNone); }},
      {"broadcast_arrays",
       [] {
         broadcast_arrays({some(), kNone});
       }},
      {"block",
       [] {
         block({{some(), kNone}});
       }},
      {"meshgrid", [] { meshgrid({kNone}); }},
      {"ones_like", [] { ones_like(kNone); }},
      {"sort", [] { sort(kNone); }},
      {"argsort", [] { argsort(kNone, {}); }},
      {"topk", [] { topk(kNone, 1); }},
      {"kthvalue", [] { kthvalue(kNone, 1); }},
      {"median", [] { median(kNone); }},
      {"quantile", [] { quantile(some(), kNone); }},
      {"searchsorted", [] { searchsorted(ones({2}), kNone); }},
      {"isin", [] { isin(some(), kNone); }},
      {"histogram", [] { histogram(kNone); }},
      {"unique", [] { unique(kNone); }},
      {"unique_all", [] { unique_all(kNone); }},
      {"bincount", [] { bincount(kNone); }},
      {"cummax", [] { cummax(kNone); }},
      {"gather", [=] { gather(kNone, places); }},
      {"take_along_axis", [] { take_along_axis(some(), kNone); }},
      {"scatter", [=] { scatter(some(), places, kNone); }},
      {"scatter_add", [] { scatter_add(some(), kNone, 1); }},
      {"index_add", [] { index_add(some(), zeros({2}, DType::i64), kNone); }},
      {"index_put", [] { index_put(some(), {kNone}, 1); }},
      {"put", [=] { put(some(), places, kNone); }},
      {"masked_select", [] { masked_select(some(), kNone); }},
      {"masked_fill", [=] { masked_fill(kNone, yes, 1); }},
      {"masked_scatter", [=] { masked_scatter(some(), yes, kNone); }},
      {"nonzero", [] { nonzero(kNone); }},
      {"argwhere", [] { argwhere(kNone); }},
  });
}

TEST_CASE("functions on row-sparse arrays refuse undefined ones") {
  const NDArray rows = zeros({1}, DType::i64), count = ones({1}, DType::i64);
  const RowSparse none, x = retain(some(), rows);
  check_refused({
      {"embedding", [=] { embedding(kNone, rows); }},
      {"embedding", [] { embedding(some(), kNone); }},
      {"row_sparse",
       [] {
         row_sparse(kNone, some(), {2, 2});
       }},
      {"row_sparse",
       [=] {
         row_sparse(rows, kNone, {2, 2});
       }},
      {"retain", [=] { retain(kNone, rows); }},
      {"retain", [] { retain(some(), kNone); }},
      {"retain", [=] { retain(none, rows); }},
      {"retain", [=] { retain(x, kNone); }},
      {"sum", [=] { sum({none}); }},
      {"sum",
       [=] {
         sum({x, none});
       }},
      {"scale", [=] { scale(none, 2); }},
      {"to_dense", [=] { to_dense(none); }},
      {"add_rows", [=] { add_rows(kNone, x); }},
      {"add_rows", [=] { add_rows(some(), none); }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, kNone, some(), count);
       }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, rows, kNone, count);
       }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, rows, some(), kNone);
       }},
      {"shape", [=] { none.shape(); }},
      {"dtype", [=] { none.dtype(); }},
      {"device", [=] { none.device(); }},
      {"engine", [=] { none.engine(); }},
      {"capacity", [=] { none.capacity(); }},
      {"rows", [=] { none.rows(); }},
      {"values", [=] { none.values(); }},
      {"count", [=] { none.count(); }},
      {"wait", [=] { none.wait(); }},
      {"trimmed", [=] { static_cast<void>(none.trimmed()); }},
  });
  CHECK_FALSE(none.defined());
}

TEST_CASE("the tape refuses undefined arrays") {
  NDArray none, leaf = some();
  set_requires_grad(leaf);
  check_refused({
      {"set_requires_grad", [&] { set_requires_grad(none); }},
      {"requires_grad", [] { requires_grad(kNone); }},
      {"grad", [] { grad(kNone); }},
      {"row_sparse_grad", [] { row_sparse_grad(kNone); }},
      {"clear_grad", [] { clear_grad(kNone); }},
      {"lend_gradient_memory", [] { lend_gradient_memory(kNone, some()); }},
      {"backward", [] { backward(kNone); }},
      {"record", [&] { record("f", none, {leaf}, {}, {}); }},
      {"record", [&] { record("f", leaf, {kNone}, {}, {}); }},
      {"record", [&] { record("f", leaf, {leaf}, {kNone}, {}); }},
      {"record_part", [&] { record_part("f", none, leaf, {}, {}); }},
      {"record_part", [&] { record_part("f", leaf, kNone, {}, {}); }},
      {"record_rows", [&] { record_rows("f", none, leaf, {}, {}); }},
      {"record_rows", [&] { record_rows("f", leaf, kNone, {}, {}); }},
      {"make_gradient", [] { make_gradient(0, kNone); }},
  });
  CHECK_FALSE(recording({&kNone}));
}

TEST_CASE("layers and optimizers refuse undefined arrays") {
  const auto sgd = create_optimizer("sgd");
  check_refused({
      {"Dense(3, 4)", [] { Dense(3, 4)(kNone); }},
      {"Conv2d(1, 2, 3)", [] { Conv2d(1, 2, 3)(kNone); }},
      {"MaxPool2d(2)", [] { MaxPool2d(2)(kNone); }},
      {"AvgPool2d(2)", [] { AvgPool2d(2)(kNone); }},
      {"Relu", [] { Relu()(kNone); }},
      {"Tanh", [] { Tanh()(kNone); }},
      {"Sigmoid", [] { Sigmoid()(kNone); }},
      {"Flatten", [] { Flatten()(kNone); }},
      {"Embedding(3, 2)", [] { Embedding(3, 2)(kNone); }},
      {"Dropout(0.5)", [] { Dropout(0.5)(kNone); }},
      {"layer 0: Relu",
       [] {
         Sequential{Relu(), Tanh()}(kNone);
       }},
      {"Sequential", [] { Sequential()(kNone); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, kNone, some()); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, some(), kNone); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, some(), RowSparse()); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, kNone, retain(some(), zeros({1}, DType::i64))); }},
      {"optimizer sgd: '3.updates'",
       [&] {
         sgd->set_state({{"3.updates", kNone}});
       }},
  });
}

}  // namespace heddle
