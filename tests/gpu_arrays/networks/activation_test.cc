// Activations on a GPU are near the CPU's, and so are their gradients.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/activations.h>
#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>

#include "problems.h"
#include "within.h"

using namespace heddle;
using namespace heddle::test;

namespace {

struct Activation {
  std::string name;
  std::function<NDArray(const NDArray&)> call;
};

std::vector<Activation> activations() {
  std::vector<Activation> all;
#define HEDDLE_ADD(name, ...) all.push_back({#name, [](const NDArray& x) { return name(x); }});
  HEDDLE_ACTIVATIONS(HEDDLE_ADD)
#undef HEDDLE_ADD
#define HEDDLE_ADD(name, ...) all.push_back({#name, [](const NDArray& x) { return name(x, 0.75); }});
  HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ADD)
  return all;
}

// The functions of the two libraries have errors of a few units in the last place; far from 0 the exponential of x * x / 2 in gelu has
// the error of its argument.
double tolerance(DType dtype) {
  return ulps_of(is_floating(dtype) ? dtype : DType::f64, is_half(dtype) ? 2 : 100);
}

TEST_CASE("activations on a GPU are near the CPU's") {
  for (const Activation& activation : activations()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8}) {
      for (int seed = 0; seed < 2; ++seed) {
        Random random(static_cast<std::uint64_t>(seed) * 100 + static_cast<std::uint64_t>(dtype));
        CAPTURE(activation.name);
        CAPTURE(name_of(dtype));
        CAPTURE(seed);
        const Pair x = random_pair(random, random_shape(random), dtype);
        const double most = tolerance(dtype);
        CHECK(within(activation.call(x.here), activation.call(x.there), most, most));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("gradients of activations on a GPU are near the CPU's") {
  for (const Activation& activation : activations()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      const auto run = [&](Device device) {
        NDArray x = (arange(-60, 61, 1, DType::f64) / 9).astype(dtype).copy_to(device);
        x.set_requires_grad();
        activation.call(x).backward((arange(121, DType::f64) / 100).astype(dtype).copy_to(device));
        return x.grad();
      };
      CAPTURE(activation.name);
      CAPTURE(name_of(dtype));
      const double most = tolerance(dtype);
      CHECK(within(run(cpu()), run(gpu(0)), most, most));
    }
  }
  CHECK(problems() == "");
}

}  // namespace
