// Errors, traces and reports name the line that called an operator, a layer or an optimizer.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/sequential.h>
#include <heddle/weights.h>

#include "call_sites.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray leaf(Shape shape, double value = 0.5) {
  NDArray x = full(shape, value);
  set_requires_grad(x);
  return x;
}

// Where the op that failed was pushed.
std::string place_of_error(const NDArray& y) {
  try {
    y.wait();
  } catch (const std::exception&) {
  }
  return text_of(y.engine().error_of(y.var()).where);
}

// The ops of a gradient, and where they say that they were pushed; those of backward() itself are at `otherwise`.
void check_gradient_sites(const NDArray& loss, Where forward) {
  const Where here = Where::current();
  const std::vector<OpSite> sites = sites_of_ops([&] { backward(loss, {}, false, here); });
  int of_forward = 0;
  for (const OpSite& site : sites) {
    CAPTURE(site.name);
    const bool from_forward = site.at == text_of(forward);
    of_forward += from_forward;
    CHECK((from_forward || site.at == text_of(here)));
  }
  CHECK(of_forward > 0);
}

class Twice : public Layer {
 public:
  std::string to_string() const override { return "Twice"; }

 private:
  NDArray forward(const NDArray& x) override { return x + x; }
};

}  // namespace

TEST_CASE("an op's error names the line of the call") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = zeros({4}), far = full({2}, 9, DType::i64), minus = full({4}, -1, DType::i64);
    const std::string file = "tests/operators/call_site_test.cc:";
    const int line = __LINE__;
    CHECK(place_of_error(take(x, far)) == file + std::to_string(line + 1));
    CHECK(place_of_error(one_hot(far, 3)) == file + std::to_string(line + 2));
    CHECK(place_of_error(power(minus, minus)) == file + std::to_string(line + 3));
    CHECK(place_of_error(cross_entropy(zeros({2, 3}), far)) == file + std::to_string(line + 4));
    CHECK(place_of_error(embedding(x, far)) == file + std::to_string(line + 5));
    CHECK(place_of_error(retain(x, far).values()) == file + std::to_string(line + 6));
    CHECK(place_of_error(to_dense(row_sparse(far, zeros({2}), {4}))) == file + std::to_string(line + 7));
  });
}

TEST_CASE("products, linear algebra and random distributions name the line of their call") {
  const NDArray x = array<double>({3, 1, 1, 2}, {2, 2}), row = ones({3});
  Generator from(1);
  check_site("block", [&] { block({{x, x}}); });
  check_site("vecdot", [&] { vecdot(x, x); });
  check_site("dot", [&] { dot(x, x); });
  check_site("inner", [&] { inner(x, x); });
  check_site("outer", [&] { outer(x, x); });
  check_site("kron", [&] { kron(x, x); });
  check_site("cross", [&] { cross(row, row); });
  check_site("tensordot", [&] { tensordot(x, x); });
  check_site("einsum", [&] { einsum("ij,jk,kl", {x, x, x}); });
  check_site("solve", [&] { solve(x, x); });
  check_site("solve_triangular", [&] { solve_triangular(x, x); });
  check_site("lstsq", [&] { lstsq(x, x); });
  check_site("inv", [&] { inv(x); });
  check_site("pinv", [&] { pinv(x); });
  check_site("det", [&] { det(x); });
  check_site("slogdet", [&] { slogdet(x); });
  check_site("cholesky", [&] { cholesky(x); });
  check_site("lu", [&] { lu(x); });
  check_site("qr", [&] { qr(x); });
  check_site("svd", [&] { svd(x); });
  check_site("svdvals", [&] { svdvals(x); });
  check_site("eigh", [&] { eigh(x); });
  check_site("eigvalsh", [&] { eigvalsh(x); });
  check_site("matrix_power", [&] { matrix_power(x, 3); });
  check_site("expm", [&] { expm(x); });
  check_site("matrix_rank", [&] { matrix_rank(x); });
  check_site("matrix_norm", [&] { matrix_norm(x, "nuc"); });
  check_site("vector_norm", [&] { vector_norm(x); });
  check_site("cond", [&] { cond(x); });
  check_site("exponential", [&] { exponential({2}); });
  check_site("gamma", [&] { gamma({3}, row); });
  check_site("beta", [&] { beta({2}, 1, 2); });
  check_site("poisson", [&] { poisson({2}, 4); });
  check_site("binomial", [&] { binomial({2}, 4, 0.5); });
  check_site("truncated_normal", [&] { truncated_normal({2}); });
  check_site("categorical", [&] { categorical(row); });
  check_site("multinomial", [&] { multinomial(row, 2); });
  check_site("choice", [&] { choice(row, {2}); });
  check_site("shuffle", [&] { shuffle(row); });
}

TEST_CASE("each operator names the line of its call") {
  NDArray x = full({4, 4}, 0.5), y = full({4, 4}, 0.25), image = ones({1, 1, 6, 6});
  const NDArray odd = ones({4, 8}).slice(1, {.step = 2}), kernel = ones({1, 1, 3, 3}), row = ones({4});
  const NDArray mask = full({4, 4}, true, DType::boolean), index = zeros({2}, DType::i64);
  const NDArray labels = zeros({4}, DType::i64), halves = full({4, 4}, 0.5, DType::f16);
  const std::vector<NDArray> both{x, y};
  const OperatorValues values{x, y};
  Generator generator(1);
  check_site("add", [&] { add(x, row); });
  check_site("subtract", [&] { subtract(x, y); });
  check_site("multiply", [&] { multiply(x, 2); });
  check_site("divide", [&] { divide(x, y); });
  check_site("power", [&] { power(x, 2); });
  check_site("maximum", [&] { maximum(x, y); });
  check_site("minimum", [&] { minimum(x, y); });
  check_site("negative", [&] { negative(x); });
  check_site("abs", [&] { abs(x); });
  check_site("square", [&] { square(x); });
  check_site("relu", [&] { relu(x); });
  check_site("exp", [&] { exp(x); });
  check_site("log", [&] { log(labels); });
  check_site("sqrt", [&] { sqrt(x); });
  check_site("tanh", [&] { tanh(x); });
  check_site("sigmoid", [&] { sigmoid(x); });
  check_site("clip", [&] { clip(x, 0, 1); });
  check_site("equal", [&] { equal(x, y); });
  check_site("not_equal", [&] { not_equal(x, y); });
  check_site("less", [&] { less(x, y); });
  check_site("less_equal", [&] { less_equal(x, y); });
  check_site("greater", [&] { greater(x, y); });
  check_site("greater_equal", [&] { greater_equal(x, y); });
  check_site("logical_not", [&] { logical_not(x); });
  check_site("where", [&] { where(mask, x, labels); });
  check_site("operator+", [&] { (void)(x + y); });
  check_site("operator+", [&] { (void)(1 + x); });
  check_site("operator-", [&] { (void)(x - 0.5); });
  check_site("operator-", [&] { (void)-x; });
  check_site("operator*", [&] { (void)(x * y); });
  check_site("operator/", [&] { (void)(x / y); });
  check_site("operator<", [&] { (void)(x < y); });
  check_site("operator<=", [&] { (void)(x <= y); });
  check_site("operator>", [&] { (void)(x > y); });
  check_site("operator>=", [&] { (void)(x >= y); });
  check_site("Chosen::operator=", [&] { x[index] = 1; });
  check_site("Chosen::operator=", [&] { x[mask] = 2; });
  check_site("Chosen::operator=", [&] { x[mask] = y[mask]; });
  check_site("Chosen::operator+=", [&] { x[index] += y[0]; });
  check_site("Chosen::operator-=", [&] { x[mask] -= 1; });
  check_site("Chosen::operator*=", [&] { x[index] *= 2; });
  check_site("Chosen::operator/=", [&] { x[mask] /= 2; });
  const NDArray whole = labels.copy();
  check_site("Chosen::operator%=", [&] { whole[whole > 0] %= 2; });
  check_site("Chosen::operator&=", [&] { whole[whole > 0] &= 2; });
  check_site("Chosen::operator|=", [&] { whole[whole > 0] |= 2; });
  check_site("Chosen::operator^=", [&] { whole[whole > 0] ^= 2; });
  check_site("Chosen::operator<<=", [&] { whole[whole > -1] <<= 2; });
  check_site("Chosen::operator>>=", [&] { whole[whole > -1] >>= 2; });
  check_site("operator%=", [&] { x %= 2; });
  check_site("operator&=", [&] { whole &= 3; });
  check_site("operator|=", [&] { whole |= 1; });
  check_site("operator^=", [&] { whole ^= 0; });
  check_site("operator<<=", [&] { whole <<= 1; });
  check_site("operator>>=", [&] { whole >>= 1; });
  check_site("floor_divide_", [&] { floor_divide_(x, 1); });
  check_site("power_", [&] { power_(x, 1); });
  check_site("into", [&] { into(x, multiply, y, 2); });
  check_site("max", [&] { max(x, y); });
  check_site("min", [&] { min(x, y); });
  check_site("operator+=", [&] { x[0] += y[0]; });
  check_site("operator-=", [&] { x[0] -= 1; });
  check_site("operator*=", [&] { x[0] *= 2; });
  check_site("operator/=", [&] { x[0] /= 2; });
  check_site("operator+=", [&] { x += y; });
  check_site("operator-=", [&] { x -= 1; });
  check_site("operator*=", [&] { x *= x.permuted({1, 0}); });
  check_site("operator/=", [&] { x /= 2; });
  check_site("matmul", [&] { matmul(x, odd); });
  check_site("matmul", [&] { matmul(halves, labels); });
  check_site("linear", [&] { linear(odd, x, row); });
  check_site("conv2d", [&] { conv2d(image, kernel); });
  check_site("max_pool2d", [&] { max_pool2d(image); });
  check_site("avg_pool2d", [&] { avg_pool2d(image); });
  check_site("dropout", [&] { dropout(x, 0.5, generator, true); });
  check_site("sum", [&] { sum(halves); });
  check_site("mean", [&] { mean(labels); });
  check_site("max", [&] { max(x); });
  check_site("min", [&] { min(x); });
  check_site("argmax", [&] { argmax(halves); });
  check_site("argmin", [&] { argmin(x); });
  check_site("softmax", [&] { softmax(odd); });
  check_site("log_softmax", [&] { log_softmax(x); });
  check_site("cross_entropy", [&] { cross_entropy(x, labels); });
  check_site("reshape", [&] { reshape(odd, {16}); });
  check_site("flatten", [&] { flatten(odd, 0); });
  check_site("concat", [&] { concat(both); });
  check_site("stack", [&] { stack(both); });
  check_site("take", [&] { take(odd, index); });
  check_site("one_hot", [&] { one_hot(index, 3); });
  check_site("embedding", [&] { embedding(odd, index); });
  check_site("cast", [&] { cast(x, DType::f64); });
  check_site("contiguous", [&] { contiguous(odd); });
  check_site("copy", [&] { copy(x); });
  check_site("copy_to", [&] { copy_to(x, cpu(1)); });
  check_site("call_operator", [&] { call_operator("conv2d", {image, kernel}); });
  const OperatorValues of_x{x};
  check_site("call_operator_into", [&] { call_operator_into(*find_operator("exp"), of_x, {}, y.detach()); });
  check_site("call_operator", [&] { call_operator(*find_operator("add_"), values); });
}

TEST_CASE("operators that rearrange name the line of their call") {
  const NDArray x = full({4, 4}, 0.5), odd = ones({4, 8}).slice(1, {.step = 2}),
                index = zeros({2}, DType::i64);
  check_site("linspace", [&] { linspace(0, 1); });
  check_site("logspace", [&] { logspace(0, 1); });
  check_site("full_like", [&] { full_like(x, 1); });
  check_site("ones_like", [&] { ones_like(x); });
  check_site("roll", [&] { roll(x, {1}); });
  check_site("tile", [&] { tile(odd, {2}); });
  check_site("repeat", [&] { repeat(odd, 2); });
  check_site("tril", [&] { tril(x); });
  check_site("triu", [&] { triu(x); });
  check_site("diag", [&] { diag(index); });
  check_site("matrix_trace", [&] { matrix_trace(x); });
  check_site("pad", [&] { pad(x, {1}, {1}); });
}

TEST_CASE("operators that sort, search and scatter name the line of their call") {
  const NDArray x = full({4, 4}, 0.5), odd = ones({4, 8}).slice(1, {.step = 2}),
                places = zeros({4, 2}, DType::i64);
  const NDArray index = zeros({2}, DType::i64), mask = full({4, 4}, true, DType::boolean),
                some = ones({2, 4});
  check_site("sort", [&] { sort(odd, 0); });
  check_site("argsort", [&] { argsort(odd); });
  check_site("topk", [&] { topk(odd, 2, 0); });
  check_site("kthvalue", [&] { kthvalue(odd, 2); });
  check_site("median", [&] { median(odd); });
  check_site("quantile", [&] { quantile(odd, 0.5); });
  check_site("searchsorted", [&] { searchsorted(odd[0], odd); });
  check_site("isin", [&] { isin(odd, x); });
  check_site("histogram", [&] { histogram(places); });
  check_site("unique", [&] { unique(odd); });
  check_site("unique_all", [&] { unique_all(odd); });
  check_site("bincount", [&] { bincount(index, index); });
  check_site("cummax", [&] { cummax(odd); });
  check_site("cummin", [&] { cummin(odd); });
  check_site("take_along_axis", [&] { take_along_axis(x, places); });
  check_site("gather", [&] { gather(x, places); });
  check_site("scatter", [&] { scatter(x, places, 1); });
  check_site("scatter_add", [&] { scatter_add(x, places, 1); });
  check_site("scatter_min", [&] { scatter_min(x, places, 1); });
  check_site("scatter_max", [&] { scatter_max(x, places, 1); });
  check_site("index_add", [&] { index_add(x, index, some); });
  check_site("index_copy", [&] { index_copy(x, index, some); });
  check_site("index_put", [&] { index_put(x, {index}, 1); });
  check_site("put", [&] { put(x, places, 1); });
  check_site("masked_select", [&] { masked_select(odd, mask); });
  check_site("masked_fill", [&] { masked_fill(odd, mask, 1); });
  check_site("masked_scatter", [&] { masked_scatter(odd, mask, ones({16})); });
  check_site("nonzero", [&] { nonzero(odd); });
  check_site("argwhere", [&] { argwhere(odd); });
}

TEST_CASE("functions on row-sparse arrays name the line of their call") {
  const NDArray odd = ones({4, 8}).slice(1, {.step = 2}), index = zeros({2}, DType::i64);
  const NDArray halves = ones({4, 4}, DType::f16), dense = ones({4, 4});
  const RowSparse x = retain(dense, index), half = retain(halves, index);
  check_site("row_sparse", [&] { row_sparse(index, odd.slice(0, {0, 2}), {9, 4}); });
  check_site("row_sparse", [&] { row_sparse(index, halves.slice(0, {0, 2}), {9, 4}); });
  check_site("retain", [&] { retain(odd, index); });
  check_site("retain", [&] { retain(x, index); });
  check_site("sum", [&] { sum({half, half}); });
  check_site("scale", [&] { scale(x, 2); });
  check_site("to_dense", [&] { to_dense(x); });
  check_site("add_rows", [&] { add_rows(dense, x); });
  check_site("RowSparse::trimmed", [&] { static_cast<void>(x.trimmed()); });
}

TEST_CASE("a gradient names the line of its forward call") {
  const NDArray x = leaf({4, 4}), w = leaf({4, 4}), labels = zeros({4}, DType::i64);
  const NDArray image = leaf({1, 1, 6, 6}), kernel = leaf({1, 1, 3, 3});
  const Where line = Where::current();
  check_gradient_sites(cross_entropy(x, labels, line), line);
  check_gradient_sites(sum(matmul(x, w, line), {}, false, line), line);
  check_gradient_sites(sum(linear(x, w, {}, {.relu = true}, line), {}, false, line), line);
  check_gradient_sites(sum(conv2d(image, kernel, {}, {.relu = true}, line), {}, false, line), line);
  check_gradient_sites(sum(max_pool2d(image, {}, line), {}, false, line), line);
  check_gradient_sites(sum(divide(x, w, line), {}, false, line), line);
  check_gradient_sites(sum(take(x, labels, 0, line), {}, false, line), line);
  check_gradient_sites(sum(embedding(x, labels, {}, line), {}, false, line), line);
  check_gradient_sites(sum(embedding(w, labels, {.sparse_grad = true}, line), {}, false, line), line);
  check_gradient_sites(sum(slice(x, 0, {1, 3}, line), {}, false, line), line);
  check_gradient_sites(max(x, {}, false, line), line);
  check_gradient_sites(sum(broadcast_to(leaf({1}), {3, 4}, line)), line);
}

TEST_CASE("a gradient that fails names the line of its forward call") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = leaf({4});
    NDArray y = x.detach().copy();
    const auto fails = [](const NDArray& g) {
      NDArray bad = zeros_like(g);
      array_push("bad_gradient", {g}, {bad}, [] { throw std::runtime_error("no gradient"); });
      return std::vector<NDArray>{bad};
    };
    const Where forward = Where::current();
    record("made", y, {x}, {}, fails, forward);
    backward(sum(y));
    CHECK(place_of_error(grad(x)) == text_of(forward));
  });
}

TEST_CASE("backward names its own line for what it pushes itself") {
  const NDArray x = leaf({4});
  const NDArray loss = sum(x * 2 + x * 3);
  bool found = false;
  const Where here = Where::current();
  for (const OpSite& site : sites_of_ops([&] { backward(loss, {}, false, here); })) {
    found |= site.name == "fill" && site.at == text_of(here);  // the gradient of the loss, 1
  }
  CHECK(found);
  check_site("backward", [&] { backward(x, ones({4})); });
  check_site("grad", [&] { grad({sum(x * 2)}, {x}); });
}

TEST_CASE("layers and what is in them name the line of the call") {
  Generator generator(1);
  const NDArray image = ones({2, 1, 6, 6}), rows = ones({2, 3});
  Sequential net{Conv2d(1, 2, 3, {.relu = true}), MaxPool2d(2), Flatten(), Dense(8, 3), Tanh(), Twice()};
  Sequential others{Relu(), Sigmoid(), Dropout(0.5), Dense(3, 2)};
  AvgPool2d pool(2);
  check_site("load_weights", [&] { load_weights(Dense(3, 2).parameters(), {{"weight", ones({2, 3})}}); });
  check_site("Layer::operator()", [&] { net(image); });
  check_site("Layer::operator()", [&] { others(rows); });
  check_site("Layer::operator()", [&] { pool(image); });
  check_site("Layer::operator()", [&] { Twice()(rows); });
  check_site("Dense::Dense", [&] { Dense(3, 2); });
  check_site("Conv2d::Conv2d", [&] { Conv2d(1, 2, 3); });
  check_site("Embedding::Embedding", [&] { Embedding(3, 2); });
  const NDArray ids = zeros({2}, DType::i64);
  Embedding lookup(3, 2, {.sparse_grad = true});
  check_site("Layer::operator()", [&] { lookup(ids); });
  check_site("init_weight", [&] { init_weight({2, 3}, Init::he, generator); });
}

TEST_CASE("an optimizer names the line of the call") {
  for (const char* name : {"sgd", "adam"}) {
    const auto optimizer = create_optimizer(name);
    const NDArray weight = ones({4}), gradient = ones({4});
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, gradient); });
    const RowSparse rows = retain(gradient, zeros({2}, DType::i64));
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, rows); });
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, gradient); });  // after one of rows
    check_site("Optimizer::set_state", [&] { optimizer->set_state(optimizer->state()); });
    check_site("Optimizer::clear_errors", [&] { optimizer->clear_errors(); });
  }
}

namespace {

// call() throws an InvalidArgument that names the line of this check, on which the call has to stand.
void check_refusal(const std::function<void()>& call, Where where = Where::current()) {
  try {
    call();
    FAIL_CHECK("no error");
  } catch (const InvalidArgument& error) {
    CHECK(text_of(error.where()) == text_of(where));
    CHECK(std::string(error.what()) == error.message() + "; called at " + text_of(where));
  }
}

}  // namespace

TEST_CASE("a bad argument is refused with the line of the call") {
  const NDArray x = leaf({2, 3});
  const NDArray index = zeros({2}, DType::i64);
  const RowSparse rows = retain(x, index);
  Sequential twice{Dense(3, 2), Dense(3, 2)};
  Embedding lookup(3, 2);
  Engine& engine = current_engine();
  check_refusal([&] { zeros({-1}); });
  check_refusal([&] { ones({-1}); });
  check_refusal([&] { full({-1}, 2); });
  check_refusal([&] { zeros_like(NDArray()); });
  check_refusal([&] { x.item<float>(); });
  check_refusal([&] { NDArray().contiguous(); });
  check_refusal([&] { reshape(x, {4}); });
  check_refusal([&] { stack({x}, 7); });  // an operator made of others
  check_refusal([&] { x + ones({4}); });
  check_refusal([&] { call_operator("add", {x, ones({4})}); });
  check_refusal([&] { call_operator("add", {x}); });
  check_refusal([&] { call_operator("no operator", {x}); });
  check_refusal([&] { x.astype(DType::f16).view({-1}, {1}, 0); });
  check_refusal([&] { Dense(3, 2)(ones({2, 4})); });
  check_refusal([&] { twice(x); });
  check_refusal([&] { backward(x); });
  check_refusal([&] { embedding(x, x); });
  check_refusal([&] { embedding(x * 2, index, {.sparse_grad = true}); });
  check_refusal([&] { row_sparse(index, x, {2, 4}); });
  check_refusal([&] { retain(x, x); });
  check_refusal([&] { retain(rows, x); });
  check_refusal([&] { sum(std::vector<RowSparse>()); });
  check_refusal([&] { scale(RowSparse(), 2); });
  check_refusal([&] { to_dense(RowSparse()); });
  check_refusal([&] { add_rows(ones({3, 3}), rows); });
  check_refusal([&] { static_cast<void>(RowSparse().trimmed()); });
  check_refusal([&] { RowSparse({2, 3}, index, ones({2, 4}), index); });
  check_refusal([&] { Embedding(0, 2); });
  check_refusal([&] { lookup(x); });
  check_refusal([&] { create_optimizer("sgd")->update(0, ones({3, 3}), rows); });
  check_refusal([&] { engine.push([] {}, {.read = {Var()}}); });
  check_refusal([&] { engine.push([] {}, {.name = nullptr}); });
  check_refusal([&] { engine.push([] {}, {.priority = 1 << 30}); });
}

TEST_CASE("a bad argument outside of a library call names no line") {
  try {
    throw InvalidArgument("text");
  } catch (const InvalidArgument& error) {
    CHECK(std::string(error.what()) == "text");
    CHECK(error.message() == "text");
    CHECK(error.where().line() == 0);
  }
}

TEST_CASE("each operator of elementwise mathematics names the line of its call") {
  const NDArray x = full({4, 4}, 0.5), y = full({4, 4}, 0.25), labels = zeros({4}, DType::i64);
  const NDArray mask = full({4, 4}, true, DType::boolean);
  check_site("exp2", [&] { exp2(x); });
  check_site("expm1", [&] { expm1(x); });
  check_site("log1p", [&] { log1p(x); });
  check_site("log2", [&] { log2(x); });
  check_site("log10", [&] { log10(x); });
  check_site("rsqrt", [&] { rsqrt(x); });
  check_site("cbrt", [&] { cbrt(x); });
  check_site("reciprocal", [&] { reciprocal(x); });
  check_site("sin", [&] { sin(x); });
  check_site("cos", [&] { cos(x); });
  check_site("tan", [&] { tan(x); });
  check_site("asin", [&] { asin(x); });
  check_site("acos", [&] { acos(x); });
  check_site("atan", [&] { atan(x); });
  check_site("sinh", [&] { sinh(x); });
  check_site("cosh", [&] { cosh(x); });
  check_site("asinh", [&] { asinh(x); });
  check_site("acosh", [&] { acosh(x); });
  check_site("atanh", [&] { atanh(x); });
  check_site("erf", [&] { erf(x); });
  check_site("erfc", [&] { erfc(x); });
  check_site("lgamma", [&] { lgamma(x); });
  check_site("digamma", [&] { digamma(x); });
  check_site("floor", [&] { floor(x); });
  check_site("ceil", [&] { ceil(x); });
  check_site("round", [&] { round(x); });
  check_site("trunc", [&] { trunc(x); });
  check_site("sign", [&] { sign(x); });
  check_site("isnan", [&] { isnan(x); });
  check_site("isinf", [&] { isinf(x); });
  check_site("isfinite", [&] { isfinite(x); });
  check_site("signbit", [&] { signbit(x); });
  check_site("floor_divide", [&] { floor_divide(x, y); });
  check_site("remainder", [&] { remainder(x, y); });
  check_site("fmod", [&] { fmod(x, y); });
  check_site("atan2", [&] { atan2(x, y); });
  check_site("hypot", [&] { hypot(x, y); });
  check_site("logaddexp", [&] { logaddexp(x, y); });
  check_site("copysign", [&] { copysign(x, y); });
  check_site("nextafter", [&] { nextafter(x, y); });
  check_site("logical_and", [&] { logical_and(x, y); });
  check_site("logical_or", [&] { logical_or(x, y); });
  check_site("logical_xor", [&] { logical_xor(x, y); });
  check_site("bitwise_and", [&] { bitwise_and(labels, 1); });
  check_site("bitwise_or", [&] { bitwise_or(labels, 1); });
  check_site("bitwise_xor", [&] { bitwise_xor(labels, 1); });
  check_site("bitwise_left_shift", [&] { bitwise_left_shift(labels, 1); });
  check_site("bitwise_right_shift", [&] { bitwise_right_shift(labels, 1); });
  check_site("nan_to_num", [&] { nan_to_num(x); });
  check_site("bitwise_invert", [&] { bitwise_invert(mask); });
  check_site("operator%", [&] { (void)(x % 2); });
  check_site("operator&", [&] { (void)(mask & mask); });
  check_site("operator|", [&] { (void)(mask | mask); });
  check_site("operator^", [&] { (void)(labels ^ 3); });
  check_site("operator<<", [&] { (void)(labels << 1); });
  check_site("operator>>", [&] { (void)(labels >> 1); });
  check_site("operator~", [&] { (void)(~labels); });
  check_site("operator!", [&] { (void)(!x); });
  check_site("operator&&", [&] { (void)(x && y); });
  check_site("operator||", [&] { (void)(x || y); });
  check_site("operator==", [&] { (void)(x == y); });
  check_site("operator!=", [&] { (void)(x != 0); });
}

TEST_CASE("each operator of statistics and scans names the line of its call") {
  const NDArray x = full({4, 4}, 0.5);
  check_site("prod", [&] { prod(x); });
  check_site("var", [&] { var(x); });
  check_site("stddev", [&] { stddev(x); });
  check_site("logsumexp", [&] { logsumexp(x); });
  check_site("norm", [&] { norm(x); });
  check_site("any", [&] { any(x); });
  check_site("all", [&] { all(x); });
  check_site("count_nonzero", [&] { count_nonzero(x); });
  check_site("nansum", [&] { nansum(x); });
  check_site("nanmean", [&] { nanmean(x); });
  check_site("nanmax", [&] { nanmax(x); });
  check_site("nanmin", [&] { nanmin(x); });
  check_site("cumsum", [&] { cumsum(x); });
  check_site("cumprod", [&] { cumprod(x); });
  check_site("diff", [&] { diff(x); });
}

TEST_CASE("what an op throws about its values names the line in what(), and a report names it once") {
  const auto check = [](const NDArray& y, Where where, const std::string& start) {
    std::string text = "no error";
    try {
      y.wait();
    } catch (const std::exception& error) {
      text = error.what();
    }
    const std::string place = text_of(where);
    CHECK(text.starts_with(start));
    CHECK(text.ends_with("; called at " + place));
    CHECK(without_place(text) ==
          text.substr(0, text.size() - place.size() - std::string("; called at ").size()));
    const ErrorReport report = y.engine().error_of(y.var());
    CHECK(report.message() == without_place(text));
    CHECK(report.to_string().find("called at") == std::string::npos);
    CHECK(report.to_string().find(place) != std::string::npos);
  };
  on_every_scheduler_with_errors([&](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray far = array<std::int64_t>({7});
    const Where index = Where::current();
    check(take(ones({3}), far, 0, index), index, "take: index 7");
    const Where power_of = Where::current();
    check(power(array<std::int64_t>({2}), array<std::int64_t>({-1}), power_of), power_of, "power: ");
    const Where singular = Where::current();
    check(cholesky(zeros({2, 2}), singular), singular, "cholesky: ");
    const Where label = Where::current();
    check(cross_entropy(ones({1, 3}), far, label), label, "cross_entropy: label 7");
  });
}
