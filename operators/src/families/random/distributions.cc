#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <heddle/distributions.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/random/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

RandomDraw drawn_from(Generator& from, const NDArray& y) {
  return from.draw(static_cast<std::uint64_t>(y.size()));
}

const char* wanted(ParameterRange range) {
  switch (range) {
    case ParameterRange::positive:
      return "more than 0";
    case ParameterRange::not_negative:
      return "0 or more";
    case ParameterRange::probability:
      return "0 to 1";
    case ParameterRange::count:
      return "a whole number, 0 or more";
    case ParameterRange::any:
      break;
  }
  return "a number";
}

// The parameter in the form that kernels take; throws InvalidArgument if its value or shape does not fit.
DistributionParameter prepared(const char* op, DistributionParameter parameter, const NDArray& result) {
  if (!parameter.value.is_array) {
    const double value = parameter.value.scalar.real();
    if (fits(parameter.range, value)) return parameter;
    throw InvalidArgument(std::string(op) + ": " + parameter.name + " is " + number_text(value) +
                          "; wanted " + wanted(parameter.range));
  }
  const NDArray array = parameter.value.array.detach();
  check_arrays(op, {&result, &array});
  const Shape shape = broadcast_for(op, array.shape(), result.shape());
  if (!(shape == result.shape())) {
    throw InvalidArgument(std::string(op) + ": " + parameter.name + " has shape " +
                          array.shape().to_string() + "; wanted one that broadcasts to " +
                          result.shape().to_string());
  }
  parameter.value = Operand(cast(array, DType::f64).broadcast_view(shape).contiguous());
  return parameter;
}

NDArray drawn(const char* op, const Shape& shape, DType dtype, Device device, Generator& from,
              const std::vector<DistributionParameter>& parameters) {
  const DType computed = is_half(dtype) ? DType::f32 : dtype;
  const NDArray y = ndarray_detail::in_name_of(op, [&] { return NDArray(shape, computed, device); });
  DistributionCall call{op, {}, {}, y};
  std::vector<NDArray> reads;
  for (const DistributionParameter& parameter : parameters) {
    call.parameters.push_back(prepared(op, parameter, y));
    if (parameter.value.is_array) reads.push_back(call.parameters.back().value.array);
  }
  const RandomDraw draw = drawn_from(from, y);
  auto* kernel = kernel_for<DistributionKernel>(op, y);
  push_op(op, std::span<const NDArray>(reads), {&y, 1},
          [kernel, draw, call = std::move(call)](const KernelContext& context) {
            DistributionCall now = call;
            now.range = draw.blocks();
            kernel(context, now);
          });
  return cast(y, dtype);
}

void check_made_dtype(const char* op, DType dtype) {
  if (is_floating(dtype)) return;
  throw InvalidArgument(std::string(op) + ": makes f32, f64, f16 and bf16, not " + name_of(dtype));
}

// Draws indices into the last axis of x (..., n): shape (..., samples).
NDArray drawn_indices(const char* op, const NDArray& x, std::int64_t samples, bool replacement,
                      Generator& from) {
  if (x.ndim() == 0) throw InvalidArgument(std::string(op) + ": a scalar; wanted at least one axis");
  if (samples < 0) {
    throw InvalidArgument(std::string(op) + ": num_samples is " + std::to_string(samples) +
                          "; wanted 0 or more");
  }
  const std::int64_t n = x.shape()[x.ndim() - 1];
  if (!replacement && samples > n) {
    throw InvalidArgument(std::string(op) + ": num_samples is " + std::to_string(samples) + " for " +
                          std::to_string(n) + " weights without replacement");
  }
  if (n == 0 && samples > 0)
    throw InvalidArgument(std::string(op) + ": nothing to choose from in shape " + x.shape().to_string());
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(x.ndim() - 1)));
  const std::int64_t rows = element_count(shape);
  shape.push_back(samples);
  const NDArray lines = cast(x.detach(), DType::f64).contiguous().view_as({rows, n});
  const NDArray y = make_result(x, {rows, samples}, DType::i64);
  const RandomDraw drawn = drawn_from(from, y);
  auto* kernel = kernel_for<IndexDrawKernel>(op, y);
  array_push(op, {lines}, {y}, [=](const KernelContext& context) {
    kernel(context, op, drawn.blocks(), lines, replacement, y);
  });
  return y.view_as(shape);
}

// The indices, from 0 to n - 1, of the entries that choice() selects.
NDArray chosen(std::int64_t n, const Shape& shape, bool replace, const NDArray& p, Generator& from,
               Device device) {
  const std::int64_t count = element_count(shape);
  if (n < 1 && count > 0) throw InvalidArgument("choice: nothing to choose from");
  if (!replace && count > n) {
    throw InvalidArgument("choice: shape " + shape.to_string() + " of " + std::to_string(n) +
                          " entries without replacement");
  }
  if (p.defined()) {
    if (!(p.shape() == Shape{n})) {
      throw InvalidArgument("choice: p has shape " + p.shape().to_string() + "; wanted " +
                            Shape{n}.to_string());
    }
    return ndarray_detail::in_name_of("choice", [&] { return multinomial(p, count, replace, from); })
        .view_as(shape);
  }
  if (replace)
    return count == 0 ? NDArray(shape, DType::i64, device) : from.integers(shape, 0, n, DType::i64, device);
  return contiguous(slice(from.permutation(n, device), 0, {.end = count})).view_as(shape);
}

}  // namespace

NDArray exponential(Shape shape, const Operand& scale, DType dtype, Device device, Generator& from,
                    Where at) {
  const CallSite site(at);
  check_made_dtype("exponential", dtype);
  return drawn("exponential", shape, dtype, device, from, {{"scale", ParameterRange::not_negative, scale}});
}

NDArray gamma(Shape shape, const Operand& concentration, const Operand& scale, DType dtype, Device device,
              Generator& from, Where at) {
  const CallSite site(at);
  check_made_dtype("gamma", dtype);
  return drawn("gamma", shape, dtype, device, from,
               {{"concentration", ParameterRange::positive, concentration},
                {"scale", ParameterRange::not_negative, scale}});
}

NDArray beta(Shape shape, const Operand& a, const Operand& b, DType dtype, Device device, Generator& from,
             Where at) {
  const CallSite site(at);
  check_made_dtype("beta", dtype);
  return drawn("beta", shape, dtype, device, from,
               {{"a", ParameterRange::positive, a}, {"b", ParameterRange::positive, b}});
}

NDArray poisson(Shape shape, const Operand& rate, DType dtype, Device device, Generator& from, Where at) {
  const CallSite site(at);
  return drawn("poisson", shape, dtype, device, from, {{"rate", ParameterRange::not_negative, rate}});
}

NDArray binomial(Shape shape, const Operand& n, const Operand& p, DType dtype, Device device, Generator& from,
                 Where at) {
  const CallSite site(at);
  return drawn("binomial", shape, dtype, device, from,
               {{"n", ParameterRange::count, n}, {"p", ParameterRange::probability, p}});
}

NDArray truncated_normal(Shape shape, double mean, double stddev, double low, double high, DType dtype,
                         Device device, Generator& from, Where at) {
  const CallSite site(at);
  check_made_dtype("truncated_normal", dtype);
  if (!(low < high)) {
    throw InvalidArgument("truncated_normal: low is " + number_text(low) + " and high " + number_text(high) +
                          "; wanted low < high");
  }
  if (!std::isfinite(mean))
    throw InvalidArgument("truncated_normal: mean is " + number_text(mean) + "; wanted a finite one");
  return drawn("truncated_normal", shape, dtype, device, from,
               {{"mean", ParameterRange::any, mean},
                {"std", ParameterRange::positive, stddev},
                {"low", ParameterRange::any, low},
                {"high", ParameterRange::any, high}});
}

NDArray categorical(const NDArray& logits, std::optional<std::int64_t> num_samples, Generator& from,
                    Where at) {
  const CallSite site(at);
  check_arrays("categorical", {&logits});
  operators_detail::check_floating("categorical", logits);
  const NDArray y = drawn_indices("categorical", logits, num_samples.value_or(1), true, from);
  return num_samples ? y : squeeze(y, {-1});
}

NDArray multinomial(const NDArray& weights, std::int64_t num_samples, bool replacement, Generator& from,
                    Where at) {
  const CallSite site(at);
  check_arrays("multinomial", {&weights});
  return drawn_indices("multinomial", weights, num_samples, replacement, from);
}

NDArray choice(const Operand& x, Shape shape, bool replace, const NDArray& p, Generator& from, Where at) {
  const CallSite site(at);
  if (x.is_array) {
    check_arrays("choice", {&x.array});
    if (x.array.ndim() == 0) throw InvalidArgument("choice: a scalar; wanted an axis to choose along");
    const NDArray indices = chosen(x.array.shape()[0], shape, replace, p, from, x.array.device());
    return take(x.array.detach(), indices, 0);
  }
  if (!x.scalar.is_integral() || x.scalar.is_boolean())
    throw InvalidArgument("choice: x is " + number_text(x.scalar.real()) +
                          "; wanted a whole number or an array");
  return chosen(x.scalar.as<std::int64_t>(), shape, replace, p, from, p.defined() ? p.device() : cpu());
}

NDArray shuffle(const NDArray& x, int given, Generator& from, Where at) {
  const CallSite site(at);
  check_arrays("shuffle", {&x});
  const int axis = ndarray_detail::axis_of("shuffle", given, x.shape());
  return take(x, from.permutation(x.shape()[axis], x.device()), axis);
}

HEDDLE_OPERATORS(distributions) {
  table.family("Random numbers");
  const Argument dtype = {"dtype", DType::f32}, device = {"device", cpu()}, generator = {"generator", kNone};
  const Argument count_dtype = {"dtype", DType::i64};
  const std::string drawn = " Drawn from `generator`, or for None from the thread's own.";
  const std::string broadcast = " Parameters are numbers, or arrays that broadcast to `shape`." + drawn;
  table.add("exponential", exponential,
            {.documentation = "Exponential numbers with the mean `scale`." + broadcast,
             .arguments = {"shape", {"scale", 1.0}, dtype, device, generator},
             .result = "`dtype`"});
  table.add(
      "gamma", gamma,
      {.documentation = "Numbers of the gamma distribution with the mean concentration * scale." + broadcast,
       .arguments = {"shape", "concentration", {"scale", 1.0}, dtype, device, generator},
       .result = "`dtype`"});
  table.add("beta", beta,
            {.documentation = "Numbers of the beta distribution with the mean a / (a + b)." + broadcast,
             .arguments = {"shape", "a", "b", dtype, device, generator},
             .result = "`dtype`"});
  table.add("poisson", poisson,
            {.documentation = "How many events happen if `rate` are expected." + broadcast,
             .arguments = {"shape", "rate", count_dtype, device, generator},
             .result = "`dtype`"});
  table.add("binomial", binomial,
            {.documentation = "How many of n trials succeed, each with probability p." + broadcast,
             .arguments = {"shape", "n", "p", count_dtype, device, generator},
             .result = "`dtype`"});
  table.add(
      "truncated_normal", truncated_normal,
      {.documentation = "Normal numbers that lie between low and high." + drawn,
       .arguments =
           {"shape", {"mean", 0.0}, {"std", 1.0}, {"low", -2.0}, {"high", 2.0}, dtype, device, generator},
       .result = "`dtype`"});
  table.add(
      "categorical", categorical,
      {.documentation =
           "Indices into the last axis of logits (..., n), in proportion to exp(logits): shape (...), or "
           "(..., num_samples)." +
           drawn,
       .arguments = {{"logits", DTypes::floating}, {"num_samples", kNone}, generator},
       .result = "i64"});
  table.add(
      "multinomial", multinomial,
      {.documentation = "Indices into the last axis of weights (..., n), in proportion to them: shape (..., "
                        "num_samples)." +
                        drawn,
       .arguments = {"weights", "num_samples", {"replacement", false}, generator},
       .result = "i64"});
  table.add(
      "choice", choice,
      {.documentation =
           "Entries of x along axis 0, or numbers below a whole number x, with equal probabilities or in "
           "proportion to p." +
           drawn,
       .arguments = {"x", "shape", {"replace", true}, {"p", kNone}, generator},
       .result = "that of x; i64 for a number"});
  table.add("shuffle", shuffle,
            {.documentation = "A copy of x with its entries along `axis` in random order." + drawn,
             .arguments = {"x", {"axis", 0}, generator},
             .result = "that of x",
             .differentiable = true});
}

}  // namespace heddle
