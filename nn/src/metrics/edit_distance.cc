#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/metrics/values.h>
#include <heddle/parallel.h>

#include "metrics/metric_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

// Rows of integers that end at their length, or before the first negative number. i64, contiguous.
struct Rows {
  NDArray values, lengths;
  std::int64_t count, width;

  std::span<const std::int64_t> operator[](std::int64_t i) const {
    const std::int64_t* const row = values.data<const std::int64_t>() + i * width;
    std::int64_t length = lengths.defined() ? lengths.data<const std::int64_t>()[i] : 0;
    if (!lengths.defined())
      length = std::find_if(row, row + width, [](std::int64_t v) { return v < 0; }) - row;
    return {row, static_cast<std::size_t>(std::clamp<std::int64_t>(length, 0, width))};
  }
  void check(const std::string& name, const char* what) const {
    if (!lengths.defined()) return;
    const auto* const all = lengths.data<const std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i)
      if (all[i] < 0 || all[i] > width)
        throw InvalidArgument(name + ": the length of " + what + " " + std::to_string(i) + " is " +
                              std::to_string(all[i]) + "; want 0 to " + std::to_string(width));
  }
};

NDArray checked_integers(const std::string& name, const char* what, const NDArray& array) {
  if (is_floating(array.dtype()) || array.dtype() == DType::boolean)
    throw InvalidArgument(name + ": " + what + " are " + name_of(array.dtype()) + "; want integers");
  return array.astype(DType::i64).contiguous();
}

Rows rows_of(const std::string& name, const char* what, const NDArray& array, const NDArray& lengths) {
  if (array.ndim() != 1 && array.ndim() != 2)
    throw InvalidArgument(name + ": " + what + " are " + array.shape().to_string() + "; want (N, S) or (S)");
  const std::int64_t count = array.ndim() == 2 ? array.shape()[0] : 1;
  Rows rows{checked_integers(name, what, array), {}, count, array.shape()[array.ndim() - 1]};
  if (!lengths.defined()) return rows;
  if (lengths.size() != count || lengths.ndim() > 1)
    throw InvalidArgument(name + ": lengths of " + what + " are " + lengths.shape().to_string() + "; want " +
                          Shape{count}.to_string());
  rows.lengths = checked_integers(name, "lengths", lengths);
  return rows;
}

std::int64_t levenshtein(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  std::vector<std::int64_t> row(b.size() +
                                1);  // distances of the elements of a so far to each beginning of b
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = row[0];
    row[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

EditDistance::EditDistance(bool normalize) : Metric("EditDistance"), normalize_(normalize) {}

void EditDistance::add(const Inputs& inputs) {
  const std::string& name = info().name;
  const Rows found = rows_of(name, "predictions", inputs[0], inputs[2]),
             wanted = rows_of(name, "targets", inputs[1], inputs[3]);
  if (found.count != wanted.count)
    throw InvalidArgument(name + ": there are " + std::to_string(found.count) + " predictions and " +
                          std::to_string(wanted.count) + " targets; want as many");
  std::vector<NDArray> reads{found.values, wanted.values};
  for (const NDArray& lengths : {found.lengths, wanted.lengths})
    if (lengths.defined()) reads.push_back(lengths);
  push(reads, [=](double* sums) {
    found.check(name, "prediction");
    wanted.check(name, "target");
    std::vector<std::int64_t> distances(static_cast<std::size_t>(found.count));
    const std::int64_t cost = std::max<std::int64_t>(1, found.width * wanted.width);
    parallel_for(found.count, std::max<std::int64_t>(1, 16384 / cost),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     distances[static_cast<std::size_t>(i)] = levenshtein(found[i], wanted[i]);
                 });
    for (std::int64_t i = 0; i < found.count; ++i) {
      sums[0] += static_cast<double>(distances[static_cast<std::size_t>(i)]);
      sums[1] += static_cast<double>(wanted[i].size());
    }
    sums[2] += static_cast<double>(found.count);
  });
}

NDArray EditDistance::compute(const NDArray& state) const {
  const auto element = [&](std::int64_t i) { return state.slice(0, {i, i + 1}).view_as({}); };
  return element(0) / element(normalize_ ? 1 : 2);
}

HEDDLE_METRICS(edit_distance) {
  table.add({.name = "EditDistance",
             .documentation =
                 "The edits that turn rows of integers into those of the targets, divided by the "
                 "number of the targets' elements: a word or character error rate. Rows end at their "
                 "length, or before the first negative number.",
             .arguments = {switch_argument("normalize", true)},
             .inputs = {"predictions", "targets"},
             .optional_inputs = {"prediction_lengths", "target_lengths"},
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<EditDistance>(std::get<bool>(v[0]));
             }});
}

}  // namespace heddle
