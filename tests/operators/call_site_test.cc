// Errors, traces and reports name the source line that called an operator.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/creation.h>
#include <heddle/operator_registry.h>
#include <heddle/ops.h>

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

// The call site of the op whose failure is the error of y.
std::string place_of_error(const NDArray& y) {
  try {
    y.wait();
  } catch (const std::exception&) {
  }
  return text_of(y.engine().error_of(y.var()).where);
}

// Checks that the ops of the gradient name the line of the forward call or of backward() as their call site.
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

TEST_CASE("what is written otherwise than by an operator's name names the line of its call") {
  NDArray x = full({4, 4}, 0.5), y = full({4, 4}, 0.25), image = ones({1, 1, 6, 6});
  const NDArray kernel = ones({1, 1, 3, 3}), mask = full({4, 4}, true, DType::boolean);
  const NDArray index = zeros({2}, DType::i64), labels = zeros({4}, DType::i64);
  const OperatorValues values{x, y};
  check_site("block", [&] { block({{x, x}}); });
  // One operator of each macro that defines operators; the others are called by name, in their samples.
  check_site("exp2", [&] { exp2(x); });
  check_site("hypot", [&] { hypot(x, y); });
  check_site("max", [&] { max(x, y); });
  check_site("min", [&] { min(x, y); });
  check_site("operator%", [&] { (void)(x % 2); });
  check_site("operator&", [&] { (void)(mask & mask); });
  check_site("operator|", [&] { (void)(mask | mask); });
  check_site("operator^", [&] { (void)(labels ^ 3); });
  check_site("operator<<", [&] { (void)(labels << 1); });
  check_site("operator>>", [&] { (void)(labels >> 1); });
  check_site("operator~", [&] { (void)(~labels); });
  check_site("operator&&", [&] { (void)(x && y); });
  check_site("operator||", [&] { (void)(x || y); });
  check_site("operator==", [&] { (void)(x == y); });
  check_site("operator!=", [&] { (void)(x != 0); });
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
  const NDArray first = zeros({1}, DType::i64);
  check_site("Chosen::item", [&] { static_cast<void>(x(first, 0).item<float>()); });
  check_site("Chosen::item", [&] { static_cast<void>(x(first, 0).item()); });
  check_site("Chosen::to_vector", [&] { x[index].to_vector<float>(); });
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
  check_site("into", [&] { into(x, multiply, y, 2); });
  check_site("pow", [&] { pow(x, y); });
  check_site("pow", [&] { pow(2, x); });
  check_site("allclose", [&] { allclose(x, y); });
  check_site("ArrayMembers::allclose", [&] { x.allclose(y); });
  check_site("ArrayMembers::topk", [&] { x.topk(1); });
  check_site("operator+=", [&] { x[0] += y[0]; });
  check_site("operator-=", [&] { x[0] -= 1; });
  check_site("operator*=", [&] { x[0] *= 2; });
  check_site("operator/=", [&] { x[0] /= 2; });
  check_site("operator+=", [&] { x += y; });
  check_site("operator-=", [&] { x -= 1; });
  check_site("operator*=", [&] { x *= x.permuted({1, 0}); });
  check_site("operator/=", [&] { x /= 2; });
  Generator generator(1);
  check_site("init_weight", [&] { init_weight({2, 3}, Init::he, generator); });
  check_site("call_operator", [&] { call_operator("conv2d", {image, kernel}); });
  const OperatorValues of_x{x};
  check_site("call_operator_into", [&] { call_operator_into(*find_operator("exp"), of_x, {}, y.detach()); });
  check_site("call_operator", [&] { call_operator(*find_operator("add_"), values); });
  const RowSparse rows = retain(y, index);
  check_site("RowSparse::trimmed", [&] { static_cast<void>(rows.trimmed()); });
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
    found |= site.name == "fill" && site.at == text_of(here);  // the op that sets the loss's gradient to 1
  }
  CHECK(found);
  check_site("backward", [&] { backward(x, ones({4})); });
  const auto same =
      recompute([](const NDArray& y) { return y; });  // an op of the function would name its line
  check_site("Recomputed::operator()", [&] { backward(same(x), ones({4})); });
  check_site("Recomputed::run", [&] { backward(same.run({x})[0], ones({4})); });
  check_site("grad", [&] { grad({sum(x * 2)}, {x}); });
  check_site("NDArray::backward", [&] { x.backward(ones({4})); });
  check_site("NDArray::backward", [&] { x.sum().backward(); });
}

namespace {

// Checks that call() throws an InvalidArgument that names the line of this check, on which the call must be.
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
  Engine& engine = current_engine();
  check_refusal([&] { zeros({-1}); });
  check_refusal([&] { ones({-1}); });
  check_refusal([&] { full({-1}, 2); });
  check_refusal([&] { zeros_like(NDArray()); });
  check_refusal([&] { x.item<float>(); });
  check_refusal([&] { NDArray().contiguous(); });
  check_refusal([&] { reshape(x, {4}); });
  check_refusal([&] { stack({x}, 7); });  // stack is an operator that calls other operators
  check_refusal([&] { x + ones({4}); });
  check_refusal([&] { call_operator("add", {x, ones({4})}); });
  check_refusal([&] { call_operator("add", {x}); });
  check_refusal([&] { call_operator("no operator", {x}); });
  check_refusal([&] { x.astype(DType::f16).view({-1}, {1}, 0); });
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
    CHECK(without_call_site(text) ==
          text.substr(0, text.size() - place.size() - std::string("; called at ").size()));
    const ErrorReport report = y.engine().error_of(y.var());
    CHECK(report.message() == without_call_site(text));
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

TEST_CASE("clipping of gradients names its line") {
  const NDArray x = leaf({3});
  backward(sum(x * x));
  check_site("clip_grad_norm", [&] { clip_grad_norm({x}, 1); });
  check_site("clip_grad_value", [&] { clip_grad_value(std::vector<NDArray>{x}, 1); });
}
