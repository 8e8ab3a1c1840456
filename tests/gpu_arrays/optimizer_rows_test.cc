// Updates by row-sparse gradients, and clipping of these, on a GPU are near the CPU's, as in optimizer_test.cc.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/embedding.h>
#include <heddle/gradient_clipping.h>
#include <heddle/optimizer_update.h>
#include <heddle/random.h>
#include <heddle/reduce.h>
#include <heddle/row_sparse.h>

#include "problems.h"
#include "within.h"

using namespace heddle;
using namespace heddle::operators_detail;
using namespace heddle::test;

namespace {

std::shared_ptr<const ParamValues> params_of(const OptimizerRule& rule,
                                             const std::map<std::string, double>& changed) {
  auto values = std::make_shared<ParamValues>();
  for (const OptimizerParam& param : rule.params) {
    const auto found = changed.find(param.name);
    values->push_back(found == changed.end() ? param.value : found->second);
  }
  return values;
}

const std::vector<std::map<std::string, double>> kChanges = {
    {},
    {{"weight_decay", 0.1}, {"momentum", 0.9}, {"amsgrad", 1}, {"lr_decay", 0.1}},
    {{"momentum", 0.5}, {"nesterov", 1}, {"centered", 1}}};

// A gradient with these rows, in arrays with room for `capacity`.
RowSparse rows_on(Device device, const Shape& shape, std::vector<std::int64_t> rows, std::int64_t capacity,
                  const NDArray& values) {
  const NDArray count = full({1}, static_cast<double>(rows.size()), DType::i64);
  rows.resize(static_cast<std::size_t>(capacity), shape[0]);
  return {shape, array(rows, {capacity}).copy_to(device), values.copy_to(device), count.copy_to(device)};
}

struct Case {
  Shape shape;
  std::vector<std::vector<std::int64_t>> steps;  // the rows of each gradient
};
const std::vector<Case> kCases = {{{7, 3}, {{1, 4}, {0, 1, 6}, {}, {1}}},
                                  {{50}, {{0, 49}, {3, 4, 5, 49}}},
                                  {{5, 2, 33}, {{2}, {0, 1, 2, 3, 4}}},
                                  {{4, 0}, {{1, 2}}}};

UpdatedArrays updated(Device device, const OptimizerRule& rule,
                      const std::shared_ptr<const ParamValues>& params, DType dtype, const Case& one) {
  Generator from(1);
  UpdatedArrays arrays{
      from.normal(one.shape, 0, 1, dtype, cpu()).copy_to(device), {}, zeros({1}, DType::i64), {}};
  for (std::size_t i = 0; i < rule.state(*params).size(); ++i)
    arrays.state.push_back(zeros_like(arrays.weight));
  const NDArray whole = from.normal(one.shape, 0, 1, dtype, cpu()).copy_to(device);
  push_update(rule, arrays, whole, UpdateCall{params, 0.1, 1});  // so that rows have earlier updates
  if (rule.counts(*params)) arrays.row_updates = full({one.shape[0]}, -1, DType::i64, device);
  for (const auto& rows : one.steps) {
    const std::int64_t capacity = static_cast<std::int64_t>(rows.size()) + 2;
    Shape values = one.shape;
    values[0] = capacity;
    const RowSparse grad =
        rows_on(device, one.shape, rows, capacity, from.normal(values, 0, 1, dtype, cpu()));
    push_update(rule, arrays, grad, UpdateCall{params, 0.1, 0.5});
  }
  CHECK(arrays.updates.item<std::int64_t>() == static_cast<std::int64_t>(one.steps.size()) + 1);
  return arrays;
}

TEST_CASE("updates of rows of a weight on a GPU are near the CPU's") {
  int compared = 0;
  for (const OptimizerRule& rule : optimizer_rules()) {
    if (!rule.op_of_rows) continue;
    for (const auto& changes : kChanges) {
      const auto params = params_of(rule, changes);
      if (!rule.problem(*params).empty()) continue;
      for (const Case& one : kCases) {
        for (const DType dtype : {DType::f32, DType::f64}) {
          CAPTURE(rule.name);
          CAPTURE(one.shape.to_string());
          const UpdatedArrays here = updated(cpu(), rule, params, dtype, one),
                              there = updated(gpu(0), rule, params, dtype, one);
          const double most = ulps_of(dtype, 64);
          CHECK(within(here.weight, there.weight, most, most));
          for (std::size_t i = 0; i < here.state.size(); ++i)
            CHECK(within(here.state[i], there.state[i], most, most));
          CHECK(here.row_updates.defined() == there.row_updates.defined());
          if (here.row_updates.defined()) CHECK(same_bits(here.row_updates, there.row_updates));
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 100);
  CHECK(problems() == "");
}

std::string error_of(const NDArray& array) {
  try {
    array.wait();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(';'));
  }
  return "";
}

TEST_CASE("wrong rows of a gradient are refused on a GPU in the CPU's words") {
  const OptimizerRule* adam = nullptr;
  for (const OptimizerRule& rule : optimizer_rules())
    if (rule.name == "adam") adam = &rule;
  const auto run = [&](Device device, const std::vector<std::int64_t>& rows, std::int64_t count) {
    const auto params = params_of(*adam, {});
    const Shape shape{6, 2};
    const UpdatedArrays arrays{zeros(shape, DType::f32, device),
                               {zeros(shape, DType::f32, device), zeros(shape, DType::f32, device)},
                               zeros({1}, DType::i64),
                               full({6}, -1, DType::i64, device)};
    const RowSparse grad(shape, array(rows, {3}).copy_to(device), ones({3, 2}, DType::f32, device),
                         full({1}, static_cast<double>(count), DType::i64, device));
    push_update(*adam, arrays, grad, UpdateCall{params, 0.1, 1});
    return error_of(arrays.weight);
  };
  for (const auto& rows : std::vector<std::vector<std::int64_t>>{{0, 6, 7}, {3, 3, 4}, {-1, 0, 1}}) {
    const std::string here = run(cpu(), rows, 3);
    CHECK(here.find("adam_update_rows") != std::string::npos);
    CHECK(run(gpu(0), rows, 3) == here);
  }
  const std::string here = run(cpu(), {0, 1, 2}, 4);
  CHECK(!here.empty());
  CHECK(run(gpu(0), {0, 1, 2}, 4) == here);
  CHECK(problems() == "");
}

// A leaf whose gradient is row-sparse, and one whose gradient is whole.
std::vector<NDArray> leaves_on(Device device) {
  Generator from(3);
  NDArray table = from.normal({40, 5}, 0, 1, DType::f32, cpu()).copy_to(device);
  table.set_requires_grad();
  const NDArray rows = array(std::vector<std::int64_t>{3, 3, 9, 0, 39}, {5}).copy_to(device);
  sum(square(embedding(table, rows, {.sparse_grad = true}))).backward();
  NDArray whole = from.normal({33}, 0, 1, DType::f32, cpu()).copy_to(device);
  whole.set_requires_grad();
  sum(square(whole)).backward();
  return {table, whole};
}

bool same_grads(const std::vector<NDArray>& here, const std::vector<NDArray>& there) {
  const RowSparse a = row_sparse_grad(here[0]).trimmed(), b = row_sparse_grad(there[0]).trimmed();
  const double most = ulps_of(DType::f32, 16);
  return a.capacity() == 4 && same_bits(a.rows(), b.rows()) && within(a.values(), b.values(), most, 0) &&
         within(here[1].grad(), there[1].grad(), most, 0);
}

TEST_CASE("row-sparse gradients on a GPU are clipped and unscaled as on the CPU") {
  const auto here = leaves_on(cpu()), there = leaves_on(gpu(0));
  CHECK(same_grads(here, there));
  CHECK(within(clip_grad_norm(here, 0.5), clip_grad_norm(there, 0.5), 1e-6, 0));
  CHECK(same_grads(here, there));
  clip_grad_value(here, 0.02), clip_grad_value(there, 0.02);
  CHECK(same_grads(here, there));
  for (const bool finite : {true, false}) {
    const auto run = [&](const std::vector<NDArray>& leaves) {
      const LossScaleState state{full({}, 1024, DType::f32), zeros({}, DType::f32), zeros({}, DType::i64),
                                 zeros({}, DType::i64)};
      if (!finite) row_sparse_grad(leaves[0]).values().slice(0, {.end = 1}) *= HUGE_VAL;
      unscale_gradients(leaves, state);
      return state.nonfinite.item<float>();
    };
    CHECK(run(here) == (finite ? 0 : 1));
    CHECK(run(there) == (finite ? 0 : 1));
    CHECK(same_grads(here, there));
  }
  CHECK(problems() == "");
}

}  // namespace
