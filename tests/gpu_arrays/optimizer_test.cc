// Updates of optimizers, also those of rows, clipping, loss scaling and averages on a GPU are near the CPU's: the CPU may round products and sums at once, and
// norms are added up in another order.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/embedding.h>
#include <heddle/gradient_clipping.h>
#include <heddle/ndarray.h>
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

UpdatedArrays arrays_of(const OptimizerRule& rule, const ParamValues& params, const NDArray& weight) {
  UpdatedArrays arrays{weight, {}, zeros({1}, DType::i64), {}};
  for (std::size_t i = 0; i < rule.state(params).size(); ++i) arrays.state.push_back(zeros_like(weight));
  return arrays;
}

const std::vector<std::map<std::string, double>> kChanges = {
    {},
    {{"weight_decay", 0.1},
     {"momentum", 0.9},
     {"amsgrad", 1},
     {"decoupled_weight_decay", 1},
     {"lr_decay", 0.1}},
    {{"momentum", 0.5}, {"nesterov", 1}, {"centered", 1}},
    {{"centered", 1}}};

TEST_CASE("updates of a weight on a GPU are near the CPU's") {
  for (const OptimizerRule& rule : optimizer_rules()) {
    for (const auto& changes : kChanges) {
      for (const DType dtype : {DType::f32, DType::f64}) {
        const auto params = params_of(rule, changes);
        if (!rule.problem(*params).empty()) continue;
        for (const std::int64_t size : {0, 1, 33, 17000}) {
          if (size > 1000 && (!changes.empty() || dtype == DType::f64)) continue;
          CAPTURE(rule.name);
          CAPTURE(name_of(dtype));
          CAPTURE(size);
          const auto run = [&](Device device) {
            Generator from(1);
            UpdatedArrays arrays = arrays_of(rule, *params, from.normal({size}, 0, 1, dtype, device));
            for (int step = 0; step < 3; ++step)
              push_update(rule, arrays, from.normal({size}, 0, 1, dtype, device),
                          UpdateCall{params, 0.1, 0.5});
            CHECK(arrays.updates.item<std::int64_t>() == 3);
            return arrays;
          };
          const UpdatedArrays here = run(cpu()), there = run(gpu(0));
          const double most = ulps_of(dtype, 64);
          CHECK(within(here.weight, there.weight, most, most));
          for (std::size_t i = 0; i < here.state.size(); ++i)
            CHECK(within(here.state[i], there.state[i], most, most));
        }
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("one op updates many weights on a GPU") {
  for (const OptimizerRule& rule : optimizer_rules()) {
    CAPTURE(rule.name);
    const auto params = params_of(rule, {});
    const int count = rule.name == "sgd" ? 70 : 12;  // 70: more than the weights of one launch
    const auto run = [&](Device device) {
      Generator from(2);
      auto list = std::make_shared<UpdateList>();
      std::vector<NDArray> grads;
      for (int i = 0; i < count; ++i) {
        const DType dtype = i % 5 == 4 ? DType::f64 : DType::f32;
        const NDArray weight = from.normal({1 + i * 5}, 0, 1, dtype, device);
        list->arrays.push_back(arrays_of(rule, *params, weight));
        grads.push_back(from.normal({1 + i * 5}, 0, 1, dtype, device));
        if (i == 5) push_update(rule, list->arrays.back(), grads.back(), UpdateCall{params, 0.1, 1});
        const UpdatedArrays& arrays = list->arrays.back();
        list->changed.push_back(arrays.weight), list->changed.push_back(arrays.updates);
        for (const NDArray& array : arrays.state) list->changed.push_back(array);
      }
      for (int step = 0; step < 2; ++step) push_update(rule, list, grads, UpdateCall{params, 0.1, 1});
      CHECK(list->arrays[5].updates.item<std::int64_t>() == 3);
      return list;
    };
    const auto here = run(cpu()), there = run(gpu(0));
    for (std::size_t i = 0; i < here->arrays.size(); ++i) {
      const double most = ulps_of(here->arrays[i].weight.dtype(), 64);
      CHECK(within(here->arrays[i].weight, there->arrays[i].weight, most, most));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("one op updates weights on a GPU that have more elements than its threads") {
  const OptimizerRule* rule = nullptr;
  for (const OptimizerRule& one : optimizer_rules())
    if (one.name == "sgd") rule = &one;
  REQUIRE(rule);
  const auto params = params_of(*rule, {});
  const auto run = [&](Device device) {
    auto list = std::make_shared<UpdateList>();
    std::vector<NDArray> grads;
    for (const std::int64_t size : {5, 270000}) {
      list->arrays.push_back(arrays_of(*rule, *params, arange(size, DType::f32, device)));
      grads.push_back(full({size}, 0.5, DType::f32, device));
      list->changed.push_back(list->arrays.back().weight);
      list->changed.push_back(list->arrays.back().updates);
    }
    push_update(*rule, list, grads, UpdateCall{params, 0.1, 1});
    return list;
  };
  const auto here = run(cpu()), there = run(gpu(0));
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(within(here->arrays[i].weight, there->arrays[i].weight, ulps_of(DType::f32, 64), 0));
  CHECK(problems() == "");
}

// Leaves with gradients, of which number `odd` is f64.
std::vector<NDArray> leaves_on(Device device, double scale = 1) {
  Generator from(3);
  std::vector<NDArray> leaves;
  for (const std::int64_t size : {5, 1, 20000, 64, 333}) {
    const DType dtype = size == 64 ? DType::f64 : DType::f32;
    NDArray leaf = zeros({size}, dtype, device);
    leaf.set_requires_grad();
    (leaf * from.normal({size}, 0, scale, dtype, device)).backward(ones({size}, dtype, device));
    leaves.push_back(leaf);
  }
  return leaves;
}

bool same_grads(const std::vector<NDArray>& here, const std::vector<NDArray>& there, double ulps) {
  for (std::size_t i = 0; i < here.size(); ++i)
    if (!within(here[i].grad(), there[i].grad(), ulps_of(here[i].dtype(), ulps), 0)) return false;
  return true;
}

TEST_CASE("gradients on a GPU are clipped as on the CPU") {
  for (const double most : {0.5, 1e9, 0.0}) {
    const auto here = leaves_on(cpu()), there = leaves_on(gpu(0));
    CHECK(same_grads(here, there, 0));
    CHECK(within(clip_grad_norm(here, most), clip_grad_norm(there, most), 1e-12, 0));
    CHECK(same_grads(here, there, 16));
    clip_grad_value(here, 0.003), clip_grad_value(there, 0.003);
    CHECK(same_grads(here, there, 16));
  }
  // More than the arrays of one launch.
  std::vector<NDArray> many;
  for (int i = 0; i < 200; ++i) {
    NDArray leaf = zeros({1 + i % 5}, DType::f64, gpu(0));
    leaf.set_requires_grad();
    (leaf * i).backward(ones(leaf.shape(), DType::f64, gpu(0)));
    many.push_back(leaf);
  }
  CHECK(clip_grad_norm(many, 1).item<double>() > 1);
  CHECK(std::abs(clip_grad_norm(many, 1).item<double>() - 1) < 1e-6);
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

TEST_CASE("a norm that is not finite is refused on a GPU in the CPU's words") {
  for (const double scale : {HUGE_VAL, 1e300}) {
    const auto run = [&](Device device) {
      NDArray leaf = zeros({40}, DType::f64, device);
      leaf.set_requires_grad();
      (leaf * full({40}, scale, DType::f64, device)).backward(ones({40}, DType::f64, device));
      return error_of(clip_grad_norm({leaf}, 1, {.refuse_nonfinite = true}));
    };
    const std::string here = run(cpu());
    CHECK(here.find("clip_grad_norm: the norm of the gradients is") != std::string::npos);
    CHECK(run(gpu(0)) == here);
  }
  CHECK(problems() == "");
}

TEST_CASE("gradients on a GPU are unscaled, and steps without finite ones are skipped") {
  const OptimizerRule* sgd = nullptr;
  for (const OptimizerRule& rule : optimizer_rules())
    if (rule.name == "sgd") sgd = &rule;
  for (const double scale : {1.0, 1e30}) {  // the second one gives infinite gradients
    const auto run = [&](Device device) {
      const LossScaleState state{full({}, 1024, DType::f32), zeros({}, DType::f32), zeros({}, DType::i64),
                                 zeros({}, DType::i64)};
      auto leaves = leaves_on(device, scale);
      if (scale > 1) leaves[2].grad().detach() *= 1e30;
      unscale_gradients(leaves, state);
      const auto params = params_of(*sgd, {});
      const UpdatedArrays arrays = arrays_of(*sgd, *params, ones({20000}, DType::f32, device));
      {
        const SkippedUpdates skipped(state.nonfinite);
        push_update(*sgd, arrays, leaves[2].grad().detach(), UpdateCall{params, 1, 1});
      }
      update_loss_scale(state, 2, 0.5, 2000);
      CHECK(state.scale.item<float>() == (scale > 1 ? 512 : 1024));
      CHECK(arrays.updates.item<std::int64_t>() == (scale > 1 ? 0 : 1));
      return std::pair(leaves, arrays.weight);
    };
    const auto [here, weight] = run(cpu());
    const auto [there, weight_there] = run(gpu(0));
    CHECK(same_grads(here, there, 0));
    CHECK(within(weight, weight_there, 1e-6, 0));
  }
  CHECK(problems() == "");
}

TEST_CASE("averages of weights on a GPU are near the CPU's, and are swapped") {
  const auto run = [](Device device) {
    Generator from(4);
    std::vector<NDArray> averages, weights;
    for (const std::int64_t size : {1, 100, 16385, 0}) {
      averages.push_back(from.normal({size}, 0, 1, DType::f32, device));
      weights.push_back(from.normal({size}, 0, 1, DType::f32, device));
    }
    const NDArray updates = zeros({1}, DType::i64);
    average_update(averages, weights, updates, 0.9, true),
        average_update(averages, weights, updates, 0.9, false);
    swap_values(averages, weights);
    CHECK(updates.item<std::int64_t>() == 2);
    averages.insert(averages.end(), weights.begin(), weights.end());
    return averages;
  };
  const auto here = run(cpu()), there = run(gpu(0));
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(within(here[i], there[i], 1e-6, 1e-6));
  CHECK(problems() == "");
}

TEST_CASE("a training step on a GPU: gradients, clipping and adamw") {
  const auto run = [](Device device) {
    const OptimizerRule* adamw = nullptr;
    for (const OptimizerRule& rule : optimizer_rules())
      if (rule.name == "adamw") adamw = &rule;
    Generator from(5);
    NDArray scale = from.normal({64}, 0, 1, DType::f32, device), bias = zeros({64}, DType::f32, device);
    const NDArray x = from.normal({64}, 0, 1, DType::f32, device),
                  wanted = from.normal({64}, 0, 1, DType::f32, device);
    const auto params = params_of(*adamw, {});
    const std::vector<UpdatedArrays> arrays = {arrays_of(*adamw, *params, scale),
                                               arrays_of(*adamw, *params, bias)};
    for (int step = 0; step < 20; ++step) {
      NDArray w = scale.detach(), b = bias.detach();
      w.set_requires_grad(), b.set_requires_grad();
      square(tanh(x * w + b) - wanted).backward(ones({64}, DType::f32, device));
      clip_grad_norm({w, b}, 1);
      push_update(*adamw, arrays[0], w.grad().detach(), UpdateCall{params, 0.05, 1});
      push_update(*adamw, arrays[1], b.grad().detach(), UpdateCall{params, 0.05, 1});
    }
    return std::vector{scale, bias};
  };
  const auto here = run(cpu()), there = run(gpu(0));
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(within(here[i], there[i], 1e-4, 1e-4));
  CHECK(problems() == "");
}

// A gradient with these rows, in arrays with room for `capacity`.
RowSparse rows_on(Device device, const Shape& shape, std::vector<std::int64_t> rows, std::int64_t capacity,
                  const NDArray& values) {
  const NDArray count = full({1}, static_cast<double>(rows.size()), DType::i64);
  rows.resize(static_cast<std::size_t>(capacity), shape[0]);
  return {shape, array(rows, {capacity}).copy_to(device), values.copy_to(device), count.copy_to(device)};
}

struct RowCase {
  Shape shape;
  std::vector<std::vector<std::int64_t>> steps;  // the rows of each gradient
};
const std::vector<RowCase> kRowCases = {{{7, 3}, {{1, 4}, {0, 1, 6}, {}, {1}}},
                                        {{50}, {{0, 49}, {3, 4, 5, 49}}},
                                        {{5, 2, 33}, {{2}, {0, 1, 2, 3, 4}}},
                                        {{4, 0}, {{1, 2}}}};

UpdatedArrays updated(Device device, const OptimizerRule& rule,
                      const std::shared_ptr<const ParamValues>& params, DType dtype, const RowCase& one) {
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
      for (const RowCase& one : kRowCases) {
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
std::vector<NDArray> sparse_leaves_on(Device device) {
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

bool same_sparse_grads(const std::vector<NDArray>& here, const std::vector<NDArray>& there) {
  const RowSparse a = row_sparse_grad(here[0]).trimmed(), b = row_sparse_grad(there[0]).trimmed();
  const double most = ulps_of(DType::f32, 16);
  return a.capacity() == 4 && same_bits(a.rows(), b.rows()) && within(a.values(), b.values(), most, 0) &&
         within(here[1].grad(), there[1].grad(), most, 0);
}

TEST_CASE("row-sparse gradients on a GPU are clipped and unscaled as on the CPU") {
  const auto here = sparse_leaves_on(cpu()), there = sparse_leaves_on(gpu(0));
  CHECK(same_sparse_grads(here, there));
  CHECK(within(clip_grad_norm(here, 0.5), clip_grad_norm(there, 0.5), 1e-6, 0));
  CHECK(same_sparse_grads(here, there));
  clip_grad_value(here, 0.02), clip_grad_value(there, 0.02);
  CHECK(same_sparse_grads(here, there));
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
    CHECK(same_sparse_grads(here, there));
  }
  CHECK(problems() == "");
}

TEST_CASE("a kernel on a GPU refuses an array of another device") {
  const OptimizerRule& sgd = *std::find_if(optimizer_rules().begin(), optimizer_rules().end(),
                                           [](const OptimizerRule& rule) { return rule.name == "sgd"; });
  const auto params = params_of(sgd, {});
  for (const Device other : {cpu(), gpu(gpu_count() - 1)}) {
    if (other == gpu(0)) continue;
    const UpdatedArrays arrays = arrays_of(sgd, *params, ones({40}, DType::f32, gpu(0)));
    push_update(sgd, arrays, ones({40}, DType::f32, other), UpdateCall{params, 0.1, 1});
    CHECK(error_of(arrays.weight)
              .find("a kernel on gpu(0) got an array of f32 (40,) on " + other.to_string() +
                    ": this is a bug in Heddle") != std::string::npos);
  }
  CHECK(problems() == "");
}

TEST_CASE("clipping refuses a gradient that is not on the device of its leaf") {
  NDArray leaf = ones({4}, DType::f32, gpu(0));
  leaf.set_requires_grad();
  sum(leaf * 2).backward();
  leaf.grad().wait();
  leaf.grad().storage()->exchange_memory(*NDArray({4}, DType::f32).storage());
  CHECK_THROWS_WITH_AS(
      clip_grad_norm({leaf}, 1),
      doctest::Contains("clip_grad_norm: the gradient of leaf 0 is on cpu(0), the leaf on gpu(0)"),
      InvalidArgument);
  CHECK(problems() == "");
}

}  // namespace
