// Kernels whose operators first ask for a sum or an extreme, which other kernels compute: they are called by themselves here.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/elementwise.h>

#include "../../gpu_arrays/compare.h"
#include "../../gpu_arrays/problems.h"
#include "core/kernel_table.h"
#include "families/indexing/scatter_kernels.h"
#include "families/sorting/kernels.h"

using namespace heddle;
using namespace heddle::test;

namespace {

Pair random_mask(Random& random, const Shape& shape) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i) values.push_back(random() % 3 == 0);
  const NDArray mask = array(values, shape).astype(DType::boolean);
  const NDArray there = mask.copy_to(gpu(0));
  there.wait();  // the ops of selected_of() do not say that they read it
  return {mask, there};
}
std::int64_t count_true(const NDArray& mask) {
  std::int64_t count = 0;
  for (const std::int64_t value : mask.astype(DType::i64).to_vector<std::int64_t>()) count += value;
  return count;
}

// The result of an op that calls a kernel, on the device of x.
template <class Kernel, class Call>
NDArray result_of(const char* name, const NDArray& x, const NDArray& y, const Call& call) {
  auto* kernel = kernels().find<Kernel>(name, x.device().kind);
  array_push("kernel", {x}, {y}, [=](const KernelContext& context) { call(context, kernel, x, y); });
  return y;
}

NDArray nonzero_of(const NDArray& mask, std::int64_t room) {
  const NDArray y = zeros({mask.ndim(), room}, DType::i64, mask.device());
  return result_of<NonzeroKernel>(
      "nonzero", mask, y,
      [](const auto& context, auto* kernel, const NDArray& x, const NDArray& to) { kernel(context, x, to); });
}

NDArray selected_of(const NDArray& mask, const NDArray& x, std::int64_t room) {
  const NDArray y = zeros({room}, x.dtype(), x.device());
  return result_of<MaskedKernel>(
      "masked_select", x, y,
      [mask](const auto& context, auto* kernel, const NDArray& from, const NDArray& to) {
        kernel(context, "test", mask, from, to, true);
      });
}

NDArray counts_of(const NDArray& x, std::int64_t bound) {
  const NDArray y = ones({bound}, DType::i64, x.device());
  return result_of<BincountKernel>(
      "bincount", x, y, [](const auto& context, auto* kernel, const NDArray& from, const NDArray& to) {
        kernel(context, from, to);
      });
}

std::string message_of(const std::function<NDArray()>& call) {
  try {
    call().wait();
  } catch (const Error& error) {
    return without_call_site(error.what());
  }
  return "";
}

TEST_CASE("the places and values of true elements are the CPU's, and so is the error for a wrong number") {
  const Shape shapes[] = {{1}, {33}, {2047}, {2048}, {3, 5, 200}, {70, 100}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
      Random random(static_cast<std::uint64_t>(element_count(shape)));
      CAPTURE(shape.to_string());
      const Pair mask = random_mask(random, shape);
      const NDArray x = random_values(random, shape, dtype), there = x.copy_to(gpu(0));
      const std::int64_t count = count_true(mask.here);
      CHECK(same_bits(selected_of(mask.here, x, count), selected_of(mask.there, there, count)));
      CHECK(same_bits(nonzero_of(mask.here, count), nonzero_of(mask.there, count)));
      const std::string wanted = message_of([&] { return selected_of(mask.here, x, count + 1); });
      CHECK(wanted.starts_with("test: the mask has "));
      CHECK(message_of([&] { return selected_of(mask.there, there, count + 1); }) == wanted);
      CHECK(message_of([&] { return nonzero_of(mask.there, count + 2); }) ==
            message_of([&] { return nonzero_of(mask.here, count + 2); }));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("bincount counts the CPU's numbers, of few bins and of many") {
  for (const std::int64_t bound : {1, 40, 2048, 5000}) {
    std::vector<std::int64_t> values;
    Random random(static_cast<std::uint64_t>(bound));
    for (int i = 0; i < 3000; ++i)
      values.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound)));
    const NDArray x = array(values, {3000}), there = x.copy_to(gpu(0));
    CHECK(same_bits(counts_of(x, bound), counts_of(there, bound)));
    const std::string wanted = message_of([&] { return counts_of(x - bound, bound); });
    CHECK(!wanted.empty());
    CHECK(message_of([&] { return counts_of(there - bound, bound); }) == wanted);
  }
  CHECK(problems() == "");
}

TEST_CASE("a fraction that is refused is the CPU's error") {
  const NDArray x = array(std::vector<double>{0, 1, 0.25, -0.5, 7}, {5}).copy_to(gpu(0));
  const auto checked = [](const NDArray& from) {
    return result_of<CheckedFractionsKernel>(
        "checked_fractions", from, zeros(from.shape(), DType::f64, gpu(0)),
        [](const auto& context, auto* kernel, const NDArray& a, const NDArray& b) { kernel(context, a, b); });
  };
  CHECK(message_of([&] { return checked(x); }) == "quantile: q is -0.5; wanted 0 to 1");
  CHECK(checked(x.slice(0, {0, 3})).to_vector<double>() == std::vector<double>{0, 1, 0.25});
  CHECK(problems() == "");
}

}  // namespace
