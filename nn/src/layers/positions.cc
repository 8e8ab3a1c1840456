#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include <heddle/creation.h>
#include <heddle/elementwise_math.h>
#include <heddle/graph.h>
#include <heddle/layers/positions.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

// (length, features) in f64.
NDArray sinusoids(std::int64_t length, std::int64_t features, double base, Device device) {
  const std::int64_t pairs = (features + 1) / 2;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < pairs; ++i)
    rates.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(features)));
  const NDArray at = arange(length, DType::f64, device);
  const NDArray angles = reshape(at, {length, 1}) * array<double>(rates, {1, pairs}).copy_to(device);
  const NDArray waves = reshape(stack({sin(angles), cos(angles)}, -1), {length, 2 * pairs});
  return waves.slice(1, {0, features});
}

}  // namespace

struct SinusoidalPositions::Table {
  std::mutex mutex;  // guards `rows`; the engine's locks may be taken while it is held
  NDArray rows;
};

SinusoidalPositions::SinusoidalPositions(const LayerCall& call)
    : Layer(call), table_(std::make_shared<Table>()) {
  if (!(real("base") > 0))
    refuse_call(call, "base is " + number_text(real("base")) + "; want a positive number");
}

SinusoidalPositions::SinusoidalPositions(const SinusoidalPositionsOptions& options)
    : SinusoidalPositions(call_of("SinusoidalPositions", {options.base}, CallSite::current())) {}

NDArray SinusoidalPositions::compute(const NDArray& x) {
  const std::int64_t length = x.shape()[x.ndim() - 2], features = x.shape()[x.ndim() - 1];
  const auto made = [&](std::int64_t rows) {
    return cast(sinusoids(rows, features, real("base"), x.device()), x.dtype());
  };
  if (is_capturing()) return x + made(length);  // a table of the graph's would be computed by launches alone
  const std::lock_guard guard(table_->mutex);
  NDArray& rows = table_->rows;
  const bool fits = rows.defined() && &rows.engine() == &x.engine() && rows.device() == x.device() &&
                    rows.dtype() == x.dtype() && rows.shape()[1] == features && rows.shape()[0] >= length;
  if (!fits) rows = made(length);
  return x + rows.slice(0, {0, length});
}

LearnedPositions::LearnedPositions(const LayerCall& call) : Layer(call) {}

LearnedPositions::LearnedPositions(std::int64_t length, std::int64_t features,
                                   const LearnedPositionsOptions& options, Generator& generator, Where where)
    : LearnedPositions(call_of("LearnedPositions",
                               {length, features, options.stddev, options.device, &generator}, where)) {}

NDArray LearnedPositions::compute(const NDArray& x) {
  const std::int64_t steps = x.shape()[x.ndim() - 2];
  if (steps > integer("length")) refuse_input(x, std::to_string(integer("length")) + " steps at most");
  return x + array("weight").slice(0, {0, steps});
}

HEDDLE_LAYERS(positions) {
  table.family("Attention");
  table.add<SinusoidalPositions>(
      {.name = "SinusoidalPositions",
       .documentation = "Adds sines and cosines of positions: sin(p / base^(2 i / features)) to feature 2 i, "
                        "the cosine to 2 i + 1.",
       .arguments = {real_argument("base", 10000.0)},
       .input = "(batch..., length, features)",
       .output = "(batch..., length, features)"});
  table.add<LearnedPositions>(
      {.name = "LearnedPositions",
       .documentation = "Adds the first rows of the weight, one for each step.",
       .arguments = {size_argument("length"), size_argument("features"), real_argument("stddev", 0.02),
                     device_argument(), generator_argument()},
       .arrays = {normal_array("weight", "(length, features)")},
       .input = "(batch..., steps, features)",
       .output = "(batch..., steps, features)"});
}

}  // namespace heddle
