// Products beyond numpy_cases_products.py: gradients, errors, the order of a chain.
#include <functional>
#include <gradient_check.h>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "call_sites.h"

namespace heddle {

using test::message_of;
using testing::check_gradients;

namespace {

using Arrays = std::vector<NDArray>;

NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -1, 1, DType::f64);
}

}  // namespace

TEST_CASE("gradients of products") {
  const NDArray a = values({2, 3}, 1), b = values({2, 3}, 2), c = values({3, 2}, 3), v = values({3}, 4);
  check_gradients([](const Arrays& in) { return vecdot(in[0], in[1]); }, {a, v});
  check_gradients([](const Arrays& in) { return vecdot(in[0], in[1], 0); }, {a, b});
  check_gradients([](const Arrays& in) { return vecdot(in[0], in[1]); }, {v, v});
  check_gradients([](const Arrays& in) { return dot(in[0], in[1]); }, {values({2, 1, 3}), values({2, 3, 2})});
  check_gradients([](const Arrays& in) { return inner(in[0], in[1]); }, {a, b});
  check_gradients([](const Arrays& in) { return outer(in[0], in[1]); }, {v, c});
  check_gradients([](const Arrays& in) { return kron(in[0], in[1]); }, {v, c});
  check_gradients([](const Arrays& in) { return cross(in[0], in[1]); }, {a, v});
  check_gradients([](const Arrays& in) { return cross(in[0], in[1], 0); }, {c, values({3, 1})});
  check_gradients([](const Arrays& in) { return tensordot(in[0], in[1]); }, {a, b});
  check_gradients([](const Arrays& in) { return tensordot(in[0], in[1], {1}, {0}); }, {a, c});
}

TEST_CASE("gradients of einsum") {
  const auto check = [](const std::string& equation, const Arrays& operands) {
    CAPTURE(equation);
    check_gradients([&](const Arrays& in) { return einsum(equation, in); }, operands);
  };
  const NDArray square = values({3, 3}), a = values({2, 3}, 1), b = values({3, 4}, 2), c = values({4, 2}, 3);
  check("ij->ji", {a});
  check("ij->", {a});
  check("ii->i", {square});
  check("ii", {square});
  check("ij,jk->ik", {a, b});
  check("ij,jk,kl->il", {a, b, c});
  check("ij,jk,ki", {a, b, c});
  check("ij,ij->i", {a, values({2, 3}, 4)});
  check("i,j,i->ij", {values({2}), values({3}, 6), values({2}, 7)});
  check("...ij,...jk->...ik", {values({2, 1, 2, 3}), values({4, 3, 2}, 8)});
  check("bij,bjk->bik", {values({2, 2, 3}), values({1, 3, 2}, 9)});
  check("iij,jk->ik", {values({3, 3, 2}), values({2, 2}, 9)});
  // Here both operands of the product are the same leaf.
  NDArray x = values({3, 3});
  set_requires_grad(x);
  backward(einsum("ij,ij->", {x, x}));
  const std::vector<double> doubled = (x.detach() * 2).to_vector<double>(), got = grad(x).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(doubled[i]));
}

TEST_CASE("einsum takes the diagonal of an array whose elements share memory") {
  const NDArray x = broadcast_to(array<double>({1, 2, 3}), {3, 3});
  CHECK(einsum("ii->i", {x}).to_vector<double>() == std::vector<double>{1, 2, 3});
}

TEST_CASE("einsum of one array of which nothing is summed is a view") {
  const NDArray x = array<float>({1, 2, 3, 4}).view_as({2, 2});
  einsum("ij->ij", {x})(0, 0) = 10;
  einsum("ij->ji", {x})(1, 0) = 20;
  einsum("ii->i", {x})(1) = 40;
  CHECK(x.to_vector<float>() == std::vector<float>{10, 20, 3, 40});
}

TEST_CASE("einsum multiplies a chain in the cheaper order") {
  // The product a b has 300 x 300 elements, b c has 1 x 2. So a result of more than 600 elements shows that
  // the chain was not computed in the order a (b c).
  const NDArray a = ones({300, 1}), b = ones({1, 300}), c = ones({300, 2});
  const NDArray y = einsum("ij,jk,kl->il", {a, b, c});
  CHECK(y.shape() == Shape{300, 2});
  CHECK(sum(y).item<float>() == 300 * 300 * 2);
  int products = 0;
  for (const test::OpSite& op : test::sites_of_ops([&] { einsum("ij,jk,kl->il", {a, b, c}); }))
    products += op.name == "matmul";
  CHECK(products == 2);
}

TEST_CASE("products of nothing are 0") {
  CHECK(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})}).to_vector<float>() == std::vector<float>(6, 0));
  CHECK(tensordot(zeros({2, 0}), zeros({0, 3}), 1).to_vector<float>() == std::vector<float>(6, 0));
  CHECK(vecdot(zeros({2, 0}), zeros({2, 0})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(outer(zeros({0}), zeros({3})).shape() == Shape{0, 3});
  CHECK(kron(zeros({0, 2}), zeros({3})).shape() == Shape{0, 6});
  CHECK(cross(zeros({0, 3}), zeros({3})).shape() == Shape{0, 3});
}

TEST_CASE("errors of products name the function and what is wanted") {
  const NDArray a = ones({2, 3}), b = ones({3, 4}), none;
  const auto says = [](const std::function<void()>& call) { return message_of<InvalidArgument>(call); };
  CHECK(says([&] { vecdot(a, b); }) == "vecdot: axis -1 has sizes 3 and 4");
  CHECK(says([&] { vecdot(ones({}), a); }).starts_with("vecdot: axis -1"));
  CHECK(says([&] { vecdot(ones({2, 3}), ones({4, 3})); }).starts_with("vecdot: shapes"));
  CHECK(says([&] { dot(a, a); }) == "dot: axis 1 of (2, 3) and axis 0 of (2, 3) differ in size");
  CHECK(says([&] { inner(a, b); }) == "inner: axis 1 of (2, 3) and axis 1 of (3, 4) differ in size");
  CHECK(says([&] {
          kron(ones({1, 1, 1, 1, 1}), a);
        }) == "kron: arrays of shapes (1, 1, 1, 1, 1) and (2, 3); wanted at most 4 axes");
  CHECK(says([&] { cross(a, b); }).starts_with("cross: shapes"));
  CHECK(says([&] { cross(a, a, 0); }) == "cross: axis 0 of shapes (2, 3) and (2, 3); wanted size 3 in both");
  CHECK(says([&] { cross(ones({3}, DType::boolean), ones({3}, DType::boolean)); }) ==
        "cross: dtype bool; wanted a number's");
  CHECK(says([&] { tensordot(a, a, 3); }) == "tensordot: axes is 3 for shapes (2, 3) and (2, 3)");
  CHECK(says([&] { tensordot(a, a, {0, 0}, {0, 1}); }) == "tensordot: axis 0 is given twice in (0, 0)");
  CHECK(says([&] { tensordot(a, a, {0}, {0, 1}); }) == "tensordot: 1 axes of a and 2 of b; wanted as many");
  CHECK(says([&] {
          tensordot(ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1}), 0);
        }) == "tensordot: a result of 10 axes; at most 8");
  CHECK(says([&] { einsum("ij,jk", {a}); }) == "einsum: 'ij,jk': 1 operands; wanted 2");
  CHECK(says([&] { einsum("i", {a}); }) == "einsum: 'i': 'i' has 1 letters for an operand of shape (2, 3)");
  CHECK(says([&] { einsum("ii", {a}); }) ==
        "einsum: 'ii': 'i' stands for axes of 2 and 3 in one operand, of shape (2, 3)");
  CHECK(says([&] {
          einsum("ij,ij", {a, b});
        }) == "einsum: 'ij,ij': 'i' has size 2 and, in operand 1, size 3");
  CHECK(says([&] { einsum("ij->k", {a}); }) == "einsum: 'ij->k': no operand has the result's 'k'");
  CHECK(says([&] { einsum("ij->ii", {a}); }) == "einsum: 'ij->ii': the result has 'i' twice");
  CHECK(says([&] { einsum("i...->i", {a}); }) == "einsum: 'i...->i': the result lacks '...'");
  CHECK(says([&] { einsum("i......", {a}); }) == "einsum: 'i......': two '...' in 'i......'");
  CHECK(says([&] { einsum("i1", {a}); }) == "einsum: 'i1': '1' is no letter, ',', '...' or '->'");
  CHECK(says([&] {
          einsum("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})});
        }) == "einsum: 'abcde,fghij->abcdefghij': the result has 10 axes; at most 8");
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { vecdot(none, a); }, [&] { dot(a, none); }, [&] { inner(none, a); }, [&] { outer(a, none); },
           [&] { kron(none, a); }, [&] { cross(none, a); }, [&] { tensordot(none, a); },
           [&] { tensordot(a, none, {0}, {0}); },
           [&] {
             einsum("i,i", {a, none});
           }})
    CHECK(says(call).ends_with(
        ": an array is undefined: made without a shape, moved from, or a gradient before backward()"));
}

}  // namespace heddle
