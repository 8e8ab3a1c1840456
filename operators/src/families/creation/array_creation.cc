// Registers the operators that make new arrays, and random ones.
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

#include "core/operator_table.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray range(Scalar start, std::optional<Scalar> stop, Scalar step, DType dtype, Device device,
              Where where) {
  return stop ? arange(start, *stop, step, dtype, device, where)
              : arange(0, start, step, dtype, device, where);
}

}  // namespace

HEDDLE_OPERATORS(array_creation) {
  table.family("Creation");
  const Argument dtype = {"dtype", DType::f32}, device = {"device", cpu()};
  table.add("full", full,
            {.documentation = "An array of `fill_value`, which saturates at the ends of an integer dtype.",
             .arguments = {"shape", "fill_value", dtype, device},
             .result = "`dtype`"});
  table.add(
      "zeros",
      +[](const Shape& shape, DType type, Device on, Where where) { return zeros(shape, type, on, where); },
      {.documentation = "An array of 0.", .arguments = {"shape", dtype, device}, .result = "`dtype`"});
  table.add(
      "ones",
      +[](const Shape& shape, DType type, Device on, Where where) { return ones(shape, type, on, where); },
      {.documentation = "An array of 1.", .arguments = {"shape", dtype, device}, .result = "`dtype`"});
  table.add("zeros_like", zeros_like,
            {.documentation = "An array of 0 with the shape, dtype and device of x.",
             .arguments = {"x"},
             .result = "that of x"});
  table.add(
      "arange", range,
      {.documentation = "The numbers start, start + step, ... before stop. With one number, those from 0 "
                        "before it.",
       .arguments = {"start", {"stop", kNone}, {"step", 1}, dtype, device},
       .result = "`dtype`"});
  table.add("eye", eye,
            {.documentation = "The n by n identity matrix.",
             .arguments = {"n", dtype, device},
             .result = "`dtype`"});
}

HEDDLE_OPERATORS(random) {
  table.family("Random numbers");
  const Argument dtype = {"dtype", DType::f32}, device = {"device", cpu()}, generator = {"generator", kNone};
  const std::string drawn = " Drawn from `generator`, or for None from the thread's own.";
  table.add("uniform",
            +[](const Shape& shape, double low, double high, DType type, Device on, Generator& from,
                Where where) { return from.uniform(shape, low, high, type, on, where); },
            {.documentation = "Floating numbers that are uniform in [low, high)." + drawn,
             .arguments = {"shape", {"low", 0.0}, {"high", 1.0}, dtype, device, generator},
             .result = "`dtype`"});
  table.add("normal",
            +[](const Shape& shape, double mean, double stddev, DType type, Device on, Generator& from,
                Where where) { return from.normal(shape, mean, stddev, type, on, where); },
            {.documentation = "Normal numbers with this mean and standard deviation." + drawn,
             .arguments = {"shape", {"mean", 0.0}, {"std", 1.0}, dtype, device, generator},
             .result = "`dtype`"});
  table.add("bernoulli",
            +[](const Shape& shape, double p, DType type, Device on, Generator& from, Where where) {
              return from.bernoulli(shape, p, type, on, where);
            },
            {.documentation = "1 with probability p, else 0." + drawn,
             .arguments = {"shape", "p", dtype, device, generator},
             .result = "`dtype`"});
  table.add("integers",
            +[](const Shape& shape, std::int64_t low, std::int64_t high, DType type, Device on,
                Generator& from, Where where) { return from.integers(shape, low, high, type, on, where); },
            {.documentation = "Integers that are uniform from low to high - 1." + drawn,
             .arguments = {"shape", "low", "high", {"dtype", DType::i64}, device, generator},
             .result = "`dtype`"});
  table.add(
      "permutation",
      +[](std::int64_t n, Device on, Generator& from, Where where) { return from.permutation(n, on, where); },
      {.documentation = "The numbers 0 to n - 1 in random order." + drawn,
       .arguments = {"n", device, generator},
       .result = "i64"});
}

}  // namespace heddle
