// Calls of every operator by name give the result of the plain C++ call, and agree with the operator's
// description.
#include <algorithm>
#include <functional>
#include <message_of.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>

#include "call_sites.h"
#include "samples/operator_samples.h"

using namespace heddle;
using namespace heddle::testing;

namespace {

const OperatorInfo& info_of(const Sample& sample) {
  const OperatorInfo* op = find_operator(sample.name);
  REQUIRE_MESSAGE(op, "no operator is called ", sample.name);
  return *op;
}

// The outcome of a call of a sample: its arguments, of which the call may have changed some, and its results.
struct Made {
  OperatorValues values, results;
};

Made made_by(const Sample& sample, auto&& call) {
  Made made{info_of(sample).in_place ? with_copy_of_first(sample.values) : sample.values, {}};
  restart_generators();
  made.results = call(made.values);
  return made;
}

Made made_plainly(const Sample& sample) {
  return made_by(sample, [&](const OperatorValues& values) {
    OperatorValue result = sample.plain(values);
    return result.is_none() ? OperatorValues() : OperatorValues{std::move(result)};
  });
}

Made made_by_name(const Sample& sample) {
  return made_by(
      sample, [&](const OperatorValues& values) { return call_operator(sample.name, values, sample.named); });
}

// Calls the sample's operator with all arguments as keyword arguments, in reverse order.
Made made_by_keywords(const Sample& sample) {
  const OperatorInfo& op = info_of(sample);
  return made_by(sample, [&](const OperatorValues& values) {
    std::vector<NamedValue> named = sample.named;
    for (std::size_t i = 0; i < values.size(); ++i) named.push_back({op.arguments[i].name, values[i]});
    std::reverse(named.begin(), named.end());
    return call_operator(op, {}, named);
  });
}

void check_same(const Made& a, const Made& b) {
  testing::check_same(a.results, b.results);
  testing::check_same(a.values, b.values);
}

// The first sample of each operator, which is the one without optional arguments.
std::vector<Sample> first_samples() {
  std::vector<Sample> first = operator_samples();
  std::set<std::string> seen;
  std::erase_if(first, [&](const Sample& sample) { return !seen.insert(sample.name).second; });
  return first;
}

// A copy of the argument, whose first array is replaced by a leaf with the same values, and this leaf. The
// leaf is undefined if the argument has no array.
std::pair<OperatorValue, NDArray> with_leaf(const OperatorValue& value) {
  auto list = std::get_if<std::vector<NDArray>>(&value);
  const auto* array = list ? &list->front() : std::get_if<NDArray>(&value);
  if (!array) return {value, {}};
  NDArray leaf = array->copy();
  if (is_floating(leaf.dtype())) set_requires_grad(leaf);
  if (!list) return {leaf, leaf};
  std::vector<NDArray> changed = *list;
  changed.front() = leaf;
  return {changed, leaf};
}

OperatorValue as_dtype(const OperatorValue& value, DType dtype) {
  if (const auto* array = std::get_if<NDArray>(&value)) return array->astype(dtype);
  const auto cast_rows = [&](const RowSparse& x) {
    return RowSparse(x.shape(), x.rows(), x.values().astype(dtype), x.count());
  };
  if (const auto* rows = std::get_if<RowSparse>(&value)) return cast_rows(*rows);
  if (const auto* arrays = std::get_if<std::vector<NDArray>>(&value)) {
    std::vector<NDArray> list;
    for (const NDArray& array : *arrays) list.push_back(array.astype(dtype));
    return list;
  }
  if (const auto* all = std::get_if<std::vector<RowSparse>>(&value)) {
    std::vector<RowSparse> list;
    for (const RowSparse& rows : *all) list.push_back(cast_rows(rows));
    return list;
  }
  return value;
}

DType dtype_in(const OperatorValue& value) {
  if (const auto* rows = std::get_if<RowSparse>(&value)) return rows->dtype();
  if (const auto* arrays = std::get_if<std::vector<NDArray>>(&value)) return arrays->front().dtype();
  if (const auto* all = std::get_if<std::vector<RowSparse>>(&value)) return all->front().dtype();
  return std::get<NDArray>(value).dtype();
}

// The arguments, with the arrays of all those that may have exactly the dtypes `group` cast to `dtype`; empty
// if an argument cannot be cast.
OperatorValues cast_group(const OperatorInfo& op, const OperatorValues& values,
                          const std::vector<DType>& group, DType dtype) {
  OperatorValues result = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ArgumentInfo& argument = op.arguments[i];
    if (argument.dtypes != group) continue;
    const bool rows = std::holds_alternative<RowSparse>(values[i]) ||
                      std::holds_alternative<std::vector<RowSparse>>(values[i]);
    if (rows && !is_floating(dtype)) return {};
    result[i] = as_dtype(values[i], dtype);
  }
  return result;
}

// The dtype that the result must have by the rule in OperatorInfo::result_dtype.
DType expected_dtype(const OperatorInfo& op, const OperatorValues& values) {
  std::string text = op.result_dtype;
  const std::size_t extra = text.find("; ");
  const std::string rule = extra == std::string::npos ? "" : text.substr(extra + 2);
  text = text.substr(0, extra);
  const auto of = [&](const std::string& name) -> const OperatorValue* {
    for (std::size_t i = 0; i < op.arguments.size(); ++i) {
      if (op.arguments[i].name != name) continue;
      return i < values.size() ? &values[i] : &*op.arguments[i].default_value;
    }
    return nullptr;
  };
  DType dtype{};
  if (text == "`dtype`") {
    dtype = std::get<DType>(*of("dtype"));
  } else if (text.starts_with("that of ")) {
    REQUIRE(of(text.substr(8)));
    dtype = dtype_in(*of(text.substr(8)));
  } else if (text.starts_with("common")) {
    dtype = dtype_in(values.back());  // arrays whose dtypes must be equal all have this dtype
  } else {
    return dtype_from_name(text);
  }
  if (rule == "i64 for integers and bool, u64 for unsigned ones") return sum_dtype(dtype);
  if (rule.ends_with(" for integers and bool") && !is_floating(dtype))
    return dtype_from_name(rule.substr(0, 3));
  if (rule.starts_with("wider")) return dtype == DType::boolean ? DType::i64 : dtype;
  return dtype;
}

}  // namespace

TEST_CASE("every operator has samples, with the fewest and with all of its arguments") {
  for (const OperatorInfo& op : operators()) {
    CAPTURE(op.name);
    const auto required = static_cast<std::size_t>(
        std::count_if(op.arguments.begin(), op.arguments.end(),
                      [](const ArgumentInfo& argument) { return argument.required(); }));
    bool fewest = false, all = false;
    for (const Sample& sample : operator_samples()) {
      if (sample.name != op.name) continue;
      fewest |= sample.values.size() == required && sample.named.empty();
      all |= sample.values.size() == op.arguments.size();
    }
    CHECK(fewest);
    CHECK(all);
  }
}

TEST_CASE("an operator called by name gives the bits of the plain call") {
  for (const Sample& sample : operator_samples()) {
    CAPTURE(sample.name);
    const Made plain = made_plainly(sample);
    check_same(made_by_name(sample), plain);
    check_same(made_by_keywords(sample), plain);
    CHECK(plain.results.size() == info_of(sample).results.size());
  }
}

TEST_CASE(
    "an operator takes the dtypes that its description names and no others, and gives the dtype it says") {
  for (const Sample& sample : first_samples()) {
    const OperatorInfo& op = info_of(sample);
    CAPTURE(op.name);
    for (const ArgumentInfo& argument : op.arguments) {
      if (argument.dtypes.empty() || argument.takes_none()) continue;
      for (DType dtype : kAllDTypes) {
        CAPTURE(std::string(name_of(dtype)));
        OperatorValues values = cast_group(op, sample.values, argument.dtypes, dtype);
        if (values.empty()) continue;
        if (op.in_place) values = with_copy_of_first(values);
        bool accepted = true;
        try {
          const OperatorValues results = call_operator(op, values);
          if (!results.empty()) CHECK(dtype_in(results[0]) == expected_dtype(op, values));
        } catch (const InvalidArgument&) {
          accepted = false;
        }
        const auto& named = argument.dtypes;
        CHECK(accepted == (std::find(named.begin(), named.end(), dtype) != named.end()));
      }
    }
  }
}

namespace {

// The gradient of argument i. It is undefined if the operator has no gradient for it; checks that the
// description says so.
NDArray gradient_of(std::size_t i, const Sample& sample,
                    const std::function<OperatorValue(const OperatorValues&)>& call) {
  auto [value, leaf] = with_leaf(sample.values[i]);
  OperatorValues values = sample.values;
  values[i] = value;
  restart_generators();
  const OperatorValue result = call(values);
  const auto* list = std::get_if<std::vector<NDArray>>(&result);
  const auto* y = list ? &list->front() : std::get_if<NDArray>(&result);
  const bool recorded = y && is_floating(y->dtype()) && requires_grad(*y);
  CHECK(recorded == (is_floating(leaf.dtype()) && info_of(sample).arguments[i].differentiable));
  if (!recorded) return {};
  backward(*y, full(y->shape(), 0.5, y->dtype(), y->device()));
  return grad(leaf);
}

}  // namespace

TEST_CASE("gradients reach the arguments that a description names, and are those of the plain call") {
  int compared = 0;
  for (const Sample& sample : first_samples()) {
    const OperatorInfo& op = info_of(sample);
    CAPTURE(op.name);
    for (std::size_t i = 0; i < sample.values.size() && !op.in_place; ++i) {
      CAPTURE(op.arguments[i].name);
      if (!with_leaf(sample.values[i]).second.defined()) continue;
      const NDArray plain = gradient_of(i, sample, sample.plain);
      const NDArray named = gradient_of(i, sample, [&](const OperatorValues& values) {
        return call_operator(op, values, sample.named).at(0);
      });
      REQUIRE(plain.defined() == named.defined());
      if (!plain.defined()) continue;
      testing::check_same(OperatorValue(named), OperatorValue(plain));
      ++compared;
    }
  }
  CHECK(compared > 40);
}

TEST_CASE("values of every kind in every place are taken or refused") {
  Generator generator(1);
  const NDArray x = ones({2, 3});
  const OperatorValues probes = {{},
                                 true,
                                 7,
                                 -1,
                                 0.5,
                                 "f32",
                                 Dims{},
                                 Dims{2, 3},
                                 DType::boolean,
                                 cpu(1),
                                 x,
                                 NDArray(),
                                 zeros({0, 2}, DType::i64),
                                 std::vector<NDArray>{},
                                 std::vector<NDArray>{x, NDArray()},
                                 retain(x, zeros({1}, DType::i64)),
                                 RowSparse(),
                                 std::vector<RowSparse>{},
                                 std::vector<RowSparse>{RowSparse()},
                                 &generator};
  int taken = 0, refused = 0;
  for (const Sample& sample : first_samples()) {
    const OperatorInfo& op = info_of(sample);
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      for (const OperatorValue& probe : probes) {
        OperatorValues values = op.in_place ? with_copy_of_first(sample.values) : sample.values;
        values[i] = probe;
        try {
          call_operator(op, values);
          ++taken;
        } catch (const InvalidArgument& error) {
          CHECK_MESSAGE(error.message().starts_with(op.name + ": "), op.name, " says: ", error.message());
          ++refused;
        }
      }
    }
  }
  test::finish_ops();  // waits for ops of the calls above, which may fail
  CHECK(taken > 200);
  CHECK(refused > 1000);
}

TEST_CASE("errors name the operator as it was called, not the function behind it") {
  const NDArray x = ones({2, 3});
  const auto says = [](const char* op, const OperatorValues& values) {
    return test::message_of<InvalidArgument>([&] { call_operator(op, values); });
  };
  CHECK(says("std", {x, 2}).starts_with("std: axis 2"));
  CHECK(says("add_", {x, ones({4})}).starts_with("add_: "));
  CHECK(says("divide_", {ones({2}, DType::i64), 2}).starts_with("divide_: "));
  CHECK(says("power_", {ones({2}, DType::i64), -1}).starts_with("power_: "));
  CHECK(says("arange", {0, 5, 0}).starts_with("arange: "));
}
