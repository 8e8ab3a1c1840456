// Properties that every operator must have, checked with all sample calls: errors for undefined arrays, and
// the ops that a call pushes.
#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/operator_registry.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "call_sites.h"
#include "samples/operator_samples.h"
#include "undefined.h"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Copies of an operator's argument, in each of which one array is replaced by an undefined one.
std::vector<OperatorValue> with_undefined(const OperatorValue& value) {
  std::vector<OperatorValue> all;
  if (std::holds_alternative<NDArray>(value)) all.push_back(NDArray());
  if (std::holds_alternative<RowSparse>(value)) all.push_back(RowSparse());
  const auto add_lists = [&]<class T>(const std::vector<T>* list) {
    for (std::size_t i = 0; list && i < list->size(); ++i) {
      std::vector<T> changed = *list;
      changed[i] = T();
      all.push_back(changed);
    }
  };
  add_lists(std::get_if<std::vector<NDArray>>(&value));
  add_lists(std::get_if<std::vector<RowSparse>>(&value));
  return all;
}

// A view that has the shape and values of x but is not contiguous.
NDArray strided(const NDArray& x) {
  if (x.ndim() == 0) return x;
  return slice(repeat(x, 2, x.ndim() - 1), x.ndim() - 1, {.step = 2});
}
NDArray halved(const NDArray& x) { return is_floating(x.dtype()) ? x.astype(DType::f16) : x; }
NDArray whole(const NDArray& x) { return is_floating(x.dtype()) ? x.astype(DType::i64) : x; }

OperatorValue changed(const OperatorValue& value, NDArray (*change)(const NDArray&)) {
  if (const auto* array = std::get_if<NDArray>(&value)) return change(*array);
  const auto* list = std::get_if<std::vector<NDArray>>(&value);
  if (!list) return value;
  std::vector<NDArray> all;
  for (const NDArray& array : *list) all.push_back(change(array));
  return all;
}

// Variants of the arguments of a sample: unchanged; as strided views; as halves; as integers; with only the
// first argument as integers.
std::vector<OperatorValues> variants_of(const OperatorValues& values) {
  std::vector<OperatorValues> all{values, {}, {}, {}, values};
  for (const OperatorValue& value : values) {
    all[1].push_back(changed(value, strided));
    all[2].push_back(changed(value, halved));
    all[3].push_back(changed(value, whole));
  }
  if (!values.empty()) all[4][0] = all[3][0];
  return all;
}

// The ops that the plain C++ call of a sample pushes with these arguments; they may fail. If the call refuses
// the arguments, `result` is empty.
std::vector<test::OpSite> sites_of(const Sample& sample, const OperatorValues& values,
                                   OperatorValue& result) {
  return test::sites_of_ops([&] {
    try {
      result = sample.plain(values);
    } catch (const Error&) {
      result = OperatorValue();
    }
  });
}

std::vector<NDArray> arrays_in(const OperatorValue& value) {
  if (const auto* list = std::get_if<std::vector<NDArray>>(&value)) return *list;
  if (const auto* array = std::get_if<NDArray>(&value)) return {*array};
  return {};
}

// Whether all arrays in `result` are views of arrays in `value`.
bool is_view(const OperatorValue& result, const OperatorValue& value) {
  const std::vector<NDArray> views = arrays_in(result), of = arrays_in(value);
  return !views.empty() && std::all_of(views.begin(), views.end(), [&](const NDArray& view) {
    return std::any_of(of.begin(), of.end(), [&](const NDArray& x) { return view.storage() == x.storage(); });
  });
}

}  // namespace

TEST_CASE("every operator refuses an undefined array in each place") {
  int refused = 0, refused_plainly = 0;
  for (const Sample& sample : operator_samples()) {
    const OperatorInfo& op = *find_operator(sample.name);
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      if (op.arguments[i].takes_none()) continue;
      CAPTURE(op.arguments[i].name);
      for (const OperatorValue& undefined : with_undefined(sample.values[i])) {
        OperatorValues values = sample.values;
        values[i] = undefined;
        const auto said = [&](const std::function<void()>& call) {
          return test::message_of<InvalidArgument>(call);
        };
        CHECK(said([&] { call_operator(op, values, sample.named); }) == op.name + test::kSaysUndefined);
        refused_plainly += said([&] { sample.plain(values); }).ends_with(test::kSaysUndefined);
        ++refused;
      }
    }
  }
  CHECK(refused > 300);
  // Two samples are excepted: they have an array where the plain C++ function takes numbers.
  CHECK(refused_plainly >= refused - 2);
}

TEST_CASE("every op of an operator names the line of the call") {
  int found = 0;
  for (const Sample& sample : operator_samples()) {
    const bool in_place = find_operator(sample.name)->in_place;
    const std::vector<OperatorValues> variants = variants_of(sample.values);
    for (const OperatorValues& values : variants) {
      OperatorValue result;
      const std::vector<test::OpSite> sites =
          sites_of(sample, in_place ? with_copy_of_first(values) : values, result);
      CAPTURE(sample.name);
      if (sites.empty() && &values == &variants.front()) CHECK(is_view(result, values.at(0)));
      for (const test::OpSite& site : sites) {
        CAPTURE(site.name);
        CHECK(site.at.starts_with("tests/"));
        CHECK(site.at == sites.front().at);
        ++found;
      }
    }
  }
  CHECK(found > 1000);
}
