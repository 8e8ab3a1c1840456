// Error messages of arrays name the called function, the value that was given and the value that is wanted.
#include <message_of.h>
#include <string>

#include <doctest/doctest.h>

#include <heddle/random.h>

using namespace heddle;

namespace {

std::string refusal(auto&& call) { return test::message_of<InvalidArgument>(call); }
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

}  // namespace

TEST_CASE("errors of views name the member and the shape") {
  const NDArray a = zeros({2, 3});
  CHECK(refusal([&] { zeros({})[0]; }) == "operator[]: an array of shape () has no axis to index");
  CHECK(refusal([&] { a[2]; }) ==
        "operator[]: index 2 is out of range for axis 0 of size 2, in shape (2, 3)");
  CHECK(refusal([&] { a.slice(2, {}); }) ==
        "slice: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { a.slice(0, {.step = 0}); }) == "slice: the step must not be 0");
  CHECK(refusal([&] { a.view_as({4}); }) == "view_as: shape (2, 3) has 6 elements, (4,) does not");
  CHECK(refusal([&] { a.view_as({-2, 3}); }) == "view_as: shape (2, 3) does not fit (-2, 3)");
  CHECK(refusal([&] { a.view_as({kHuge, kHuge}); }).starts_with("view_as: shape ("));
  CHECK(refusal([&] { a.permuted({0}); }) ==
        "permuted: axes (0,) for shape (2, 3); wanted each of its 2 axes once");
  CHECK(refusal([&] { a.permuted({0, 0}); }) == "permuted: axes (0, 0) for shape (2, 3) name axis 0 twice");
  CHECK(refusal([&] {
          a.permuted({0, 5});
        }) == "permuted: axis 5 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { a.broadcast_view({3}); }) == "broadcast_view: (2, 3) does not broadcast to (3,)");
  CHECK(refusal([&] { a.broadcast_view({-1, 3}); }) == "broadcast_view: shape (-1, 3) has a negative number");
  CHECK(refusal([&] { a.view({-1}, {1}, 0); }) == "view: shape (-1,) has a negative number");
  CHECK(refusal([&] { a.view({2}, {1}, 5); }) ==
        "view: shape (2,), strides (1,) and offset 5 reach outside a storage of 6 elements");
}

TEST_CASE("errors of assignments and reads name the member and the direction") {
  const NDArray a = zeros({2, 3});
  CHECK(refusal([&] { a.assign(zeros({2})); }) ==
        "assign: a source of shape (2,) does not broadcast to a target of shape (2, 3)");
  CHECK(refusal([&] {
          zeros({1}).broadcast_view({4}).assign(a[0]);
        }).starts_with("assign: elements of a view of shape (4,)"));
  CHECK(refusal([&] { a.item<float>(); }) == "item: wants an array with one element, not of shape (2, 3)");
  CHECK(refusal([&] { a.to_vector<double>(); }) == "to_vector: an array of f32 was read as f64");
  CHECK(refusal([&] { a.item<double>(); }) == "item: an array of f32 was read as f64");
  CHECK(refusal([&] { a.data<std::int32_t>(); }) == "data: an array of f32 was read as i32");
}

TEST_CASE("errors of creations name the function") {
  Generator generator;
  const Shape bad{-1};
  CHECK(refusal([&] { NDArray{bad}; }) == "NDArray: shape (-1,) has a negative number");
  CHECK(refusal([&] { zeros(bad); }) == "zeros: shape (-1,) has a negative number");
  CHECK(refusal([&] { ones(bad); }) == "ones: shape (-1,) has a negative number");
  CHECK(refusal([&] { full(bad, 1); }) == "full: shape (-1,) has a negative number");
  CHECK(refusal([&] { full(bad, 1.5); }) == "full: shape (-1,) has a negative number");
  CHECK(refusal([&] { eye(-1); }) == "eye: n is -1; wanted 0 or more");
  CHECK(refusal([&] { array(std::vector<float>{}, bad); }) == "array: shape (-1,) has a negative number");
  CHECK(refusal([&] { generator.uniform(bad); }) == "uniform: shape (-1,) has a negative number");
  CHECK(refusal([&] { generator.normal(bad); }) == "normal: shape (-1,) has a negative number");
  CHECK(refusal([&] { generator.bernoulli(bad, 0.5); }) == "bernoulli: shape (-1,) has a negative number");
  CHECK(refusal([&] { generator.integers(bad, 0, 2); }) == "integers: shape (-1,) has a negative number");
  CHECK(refusal([&] { generator.permutation(-1); }) == "permutation: n is -1; wanted 0 or more");
  CHECK(refusal([&] {
          zeros({std::int64_t{1} << 61});
        }).starts_with("zeros: shape (2305843009213693952,) of f32 has more bytes"));
  CHECK(refusal([&] {
          zeros({1}, DType::f32, gpu(gpu_count()));
        }).starts_with("zeros: Heddle takes no memory on "));
}
