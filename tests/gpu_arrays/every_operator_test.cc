// Every operator on a GPU: the samples of tests/operators, with their arrays also as strided views, as other dtypes and as
// empty arrays, give what the CPU gives; so do first gradients. Operators without kernels for GPUs are listed.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/operator_registry.h>
#include <heddle/row_sparse.h>

#include "compare.h"
#include "missing.h"
#include "near_sum.h"
#include "problems.h"
#include "samples/operator_samples.h"
#include "within.h"

using namespace heddle;
using namespace heddle::test;
using namespace heddle::testing;

namespace {

// The kernel that is missing for GPUs, if that is why the call failed; "a CPU op" for one that is pushed on no stream.
std::optional<std::string> missing_kernel(const std::string& error) {
  if (const std::size_t at = error.find(" has no cuda kernel in this build"); at != std::string::npos)
    return error.substr(0, at);
  if (error.find("which the CPU cannot reach") != std::string::npos) return "a CPU op";
  return {};
}

using Change = NDArray (*)(const NDArray&);
NDArray unchanged(const NDArray& x) { return x; }
NDArray as_halves(const NDArray& x) { return is_floating(x.dtype()) ? x.astype(DType::bf16) : x; }
NDArray as_doubles(const NDArray& x) { return is_floating(x.dtype()) ? x.astype(DType::f64) : x; }
NDArray as_integers(const NDArray& x) { return is_floating(x.dtype()) ? x.astype(DType::i32) : x; }

// x in memory of twice the size, as a view with steps and reversed axes; made on `device` by a copy of that memory.
NDArray spread(const NDArray& x, Device device) {
  if (x.ndim() == 0) return x.copy_to(device);
  const int last = x.ndim() - 1;
  Shape wide = x.shape();
  wide[last] *= 2;
  const NDArray memory = zeros(wide, x.dtype());
  memory.slice(last, {.step = 2}).slice(0, {.step = -1}).assign(x.detach());
  return memory.copy_to(device).slice(last, {.step = 2}).slice(0, {.step = -1});
}

// An argument of a call on `device`.
struct Place {
  Device device;
  Change change;
  bool strided;

  NDArray operator()(const NDArray& x) const {
    if (!x.defined()) return x;
    const NDArray changed = change(x.detach());
    return strided ? spread(changed, device) : changed.copy_to(device);
  }
  RowSparse operator()(const RowSparse& x) const {
    if (!x.defined()) return x;
    return {x.shape(), x.rows().copy_to(device), x.values().copy_to(device), x.count().copy_to(device)};
  }
  OperatorValue operator()(const OperatorValue& value) const {
    if (const auto* array = std::get_if<NDArray>(&value)) return (*this)(*array);
    if (const auto* list = std::get_if<std::vector<NDArray>>(&value)) {
      std::vector<NDArray> all;
      for (const NDArray& array : *list) all.push_back((*this)(array));
      return all;
    }
    if (const auto* rows = std::get_if<RowSparse>(&value)) return (*this)(*rows);
    if (const auto* list = std::get_if<std::vector<RowSparse>>(&value)) {
      std::vector<RowSparse> all;
      for (const RowSparse& rows : *list) all.push_back((*this)(rows));
      return all;
    }
    if (std::holds_alternative<Device>(value)) return device;
    return value;
  }
};

std::vector<NDArray> arrays_in(const OperatorValues& values) {
  std::vector<NDArray> all;
  for (const OperatorValue& value : values) {
    if (const auto* rows = std::get_if<RowSparse>(&value); rows && rows->defined()) {
      const RowSparse present = rows->trimmed();
      all.insert(all.end(), {present.rows(), present.values(), present.count()});
    }
    if (const auto* array = std::get_if<NDArray>(&value); array && array->defined()) all.push_back(*array);
    if (const auto* list = std::get_if<std::vector<NDArray>>(&value)) {
      for (const NDArray& array : *list) {
        if (array.defined()) all.push_back(array);
      }
    }
  }
  return all;
}

// What a call gives: its arrays, then the gradients of its arguments; or the message of its error.
struct Outcome {
  std::vector<NDArray> arrays;
  std::size_t results = 0;  // of the arrays
  std::string error;
};

OperatorValues called(const OperatorInfo& op, OperatorValues& values, std::vector<NamedValue> named,
                      const Place& place) {
  const auto is_device = [](const ArgumentInfo& argument) { return argument.name == "device"; };
  const auto device = std::find_if(op.arguments.begin(), op.arguments.end(), is_device);
  if (device != op.arguments.end() &&
      device - op.arguments.begin() >= static_cast<std::ptrdiff_t>(values.size()))
    named.push_back({"device", place.device});
  OperatorValues results = call_operator(op, values, named);
  if (op.in_place) results.push_back(values.at(0));
  return results;
}

Outcome outcome_of(const Sample& sample, const Place& place) {
  const OperatorInfo& op = *find_operator(sample.name);
  restart_generators();
  Outcome outcome;
  try {
    OperatorValues values;
    for (const OperatorValue& value : sample.values) values.push_back(place(value));
    std::vector<NamedValue> named;
    for (const NamedValue& value : sample.named) named.push_back({value.name, place(value.value)});
    OperatorValues dense;
    std::vector<NDArray> inputs;
    if (op.differentiable && !op.in_place) {
      std::copy_if(values.begin(), values.end(), std::back_inserter(dense),
                   [](const OperatorValue& value) { return !std::holds_alternative<RowSparse>(value); });
      for (const NDArray& input : arrays_in(dense)) {
        if (is_floating(input.dtype())) inputs.push_back(input);
      }
      for (NDArray& input : inputs) input.set_requires_grad();
    }
    outcome.arrays = arrays_in(called(op, values, named, place));
    outcome.results = outcome.arrays.size();
    std::vector<NDArray> results;
    for (NDArray& result : outcome.arrays) {
      if (result.requires_grad()) results.push_back(result);
    }
    for (const NDArray& result : results) result.backward(ones(result.shape(), result.dtype(), place.device));
    for (const NDArray& input : inputs) {
      if (input.grad().defined()) outcome.arrays.push_back(input.grad());
    }
    for (NDArray& array : outcome.arrays) {
      array = array.detach();
      array.wait();
    }
  } catch (const InvalidArgument& error) {
    outcome.error = error.message();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

// How `there` has to compare with the CPU.
bool agrees(const std::string& name, const NDArray& here, const NDArray& there) {
  if (operators_with_cancellation().count(name) == 1) return near_sum(here, there, rounding_of(here.dtype()));
  if (operators_with_rare_differences().count(name) == 1) return different(here, there, 0) <= 1;
  return operators_with_near_results().count(name) == 1 ? near(here, there) : same_bits(here, there);
}

void check_outcome(const std::string& name, const Outcome& here, const Outcome& there) {
  CHECK(here.error == there.error);
  REQUIRE(here.arrays.size() == there.arrays.size());
  for (std::size_t i = 0; i < here.arrays.size(); ++i) {
    CAPTURE(i);
    const NDArray &a = here.arrays[i], &b = there.arrays[i];
    CHECK(b.device() == gpu(0));
    CHECK(agrees(name, a, b));
  }
}

// Results without signs, and no gradients.
Outcome without_signs(Outcome outcome) {
  outcome.arrays.resize(outcome.results);
  for (NDArray& array : outcome.arrays) array = abs(array);
  return outcome;
}

}  // namespace

TEST_CASE(
    "every operator on a GPU has the results, the gradients and the errors of the CPU, or is listed as "
    "missing") {
  std::set<std::string> missing;
  std::map<std::string, int> compared;
  for (const Sample& sample : operator_samples()) {
    for (const auto& [change, name] : {std::pair<Change, const char*>(unchanged, "as given"),
                                       {as_halves, "halves"},
                                       {as_doubles, "doubles"},
                                       {as_integers, "integers"}}) {
      for (const bool strided : {false, true}) {
        CAPTURE(sample.name);
        CAPTURE(std::string(name));
        CAPTURE(strided);
        const Outcome there = outcome_of(sample, {gpu(0), change, strided});
        if (const auto kernel = missing_kernel(there.error)) {
          missing.insert(sample.name + ": " + *kernel);
          continue;
        }
        const Outcome here = outcome_of(sample, {cpu(), change, strided});
        if (operators_with_free_signs().count(sample.name))
          check_outcome(sample.name, without_signs(here), without_signs(there));
        else
          check_outcome(sample.name, here, there);
        ++compared[sample.name];
      }
    }
  }
  try {
    current_engine().wait_all();  // reports errors of ops whose results were not looked at
  } catch (const Error&) {
  }
  // A kernel was added or lost: change missing.cc.
  for (const std::string& one : missing) {
    CAPTURE(one);
    CHECK(operators_without_kernels().count(one) == 1);
  }
  for (const std::string& one : operators_without_kernels()) {
    CAPTURE(one);
    CHECK(missing.count(one) == 1);
  }
  CHECK(compared.size() > 100);
  CHECK(problems() == "");
}
