#include "operator_samples.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <heddle/creation.h>
#include <heddle/ops.h>

#include "sample_values.h"

namespace heddle::testing {
namespace {

const RowSparse& rows_at(In values, std::size_t i) { return std::get<RowSparse>(values.at(i)); }

NDArray ones_of_bool(const Shape& shape) { return ones(shape, DType::boolean); }

void add_creation(std::vector<Sample>& to) {
  const Shape shape{2, 3};
  to.insert(
      to.end(),
      {{"full", {shape, 2.5}, {}, [=](In) { return full(shape, 2.5); }},
       {"full", {5, 7, DType::i64, cpu(1)}, {}, [](In) { return full({5}, 7, DType::i64, cpu(1)); }},
       {"full", {shape, true, DType::boolean}, {}, [=](In) { return full(shape, true, DType::boolean); }},
       {"zeros", {shape}, {}, [=](In) { return zeros(shape); }},
       {"zeros", {shape, "f16", cpu(1)}, {}, [=](In) { return zeros(shape, DType::f16, cpu(1)); }},
       {"ones", {shape}, {}, [=](In) { return ones(shape); }},
       {"ones", {Shape{}, DType::u8, cpu(1)}, {}, [](In) { return ones({}, DType::u8, cpu(1)); }},
       {"zeros_like", {small(shape)}, {}, [](In v) { return zeros_like(at(v, 0)); }},
       {"arange", {4}, {}, [](In) { return arange(0, 4); }},
       {"arange",
        {1, 6.5, 0.5, DType::f64, cpu(1)},
        {},
        [](In) { return arange(1, 6.5, 0.5, DType::f64, cpu(1)); }},
       {"eye", {3}, {}, [](In) { return eye(3); }},
       {"eye", {3, DType::i8, cpu(1)}, {}, [](In) { return eye(3, DType::i8, cpu(1)); }}});
}

void add_random(std::vector<Sample>& to) {
  const Shape shape{2, 3};
  Generator* own = &a_generator();
  to.insert(to.end(),
            {{"uniform", {shape}, {}, [=](In) { return default_generator().uniform(shape); }},
             {"uniform",
              {shape, -1, 2.5, DType::f64, cpu(1), own},
              {},
              [=](In) { return own->uniform(shape, -1, 2.5, DType::f64, cpu(1)); }},
             {"normal", {shape}, {}, [=](In) { return default_generator().normal(shape); }},
             {"normal",
              {shape, 1.0, 2.0, DType::f64, cpu(1), own},
              {},
              [=](In) { return own->normal(shape, 1, 2, DType::f64, cpu(1)); }},
             {"bernoulli", {shape, 0.5}, {}, [=](In) { return default_generator().bernoulli(shape, 0.5); }},
             {"bernoulli",
              {shape, 0.25, DType::bf16, cpu(1), own},
              {},
              [=](In) { return own->bernoulli(shape, 0.25, DType::bf16, cpu(1)); }},
             {"integers", {shape, -5, 5}, {}, [=](In) { return default_generator().integers(shape, -5, 5); }},
             {"integers",
              {shape, 0, 9, DType::u8, cpu(1), own},
              {},
              [=](In) { return own->integers(shape, 0, 9, DType::u8, cpu(1)); }},
             {"permutation", {7}, {}, [](In) { return default_generator().permutation(7); }},
             {"permutation", {7, cpu(1), own}, {}, [=](In) { return own->permutation(7, cpu(1)); }},
             {"init_weight",
              {Shape{4, 3}},
              {},
              [](In) {
                return init_weight({4, 3}, Init::he, default_generator());
              }},
             {"init_weight", {Shape{4, 3}, "xavier", cpu(1), own}, {}, [=](In) {
                return init_weight({4, 3}, Init::xavier, *own, cpu(1));
              }}});
}

void add_statistics(std::vector<Sample>& to) {
  using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);
  const NDArray x = small({2, 3, 2});
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Reduction>>{{"prod", prod},
                                                                {"logsumexp", logsumexp},
                                                                {"any", any},
                                                                {"all", all},
                                                                {"count_nonzero", count_nonzero},
                                                                {"nansum", nansum},
                                                                {"nanmean", nanmean},
                                                                {"nanmax", nanmax},
                                                                {"nanmin", nanmin}}) {
    to.push_back({name, {x}, {}, [f = f](In v) { return f(at(v, 0), {}, false, Where::current()); }});
    to.push_back({name, {x, Dims{0, -1}, true}, {}, [f = f](In v) {
                    return f(at(v, 0), {0, -1}, true, Where::current());
                  }});
  }
  to.insert(to.end(),
            {{"var", {x}, {}, [](In v) { return var(at(v, 0)); }},
             {"var", {x, Dims{1}, 1.0, true}, {}, [](In v) { return var(at(v, 0), {1}, 1, true); }},
             {"std", {x}, {}, [](In v) { return stddev(at(v, 0)); }},
             {"std", {x, Dims{1}, 1.0, true}, {}, [](In v) { return stddev(at(v, 0), {1}, 1, true); }},
             {"norm", {x}, {}, [](In v) { return norm(at(v, 0)); }},
             {"norm", {x, 1.0, Dims{1}, true}, {}, [](In v) { return norm(at(v, 0), 1, {1}, true); }},
             {"cumsum", {x}, {}, [](In v) { return cumsum(at(v, 0)); }},
             {"cumsum", {x, 0}, {}, [](In v) { return cumsum(at(v, 0), 0); }},
             {"cumprod", {x}, {}, [](In v) { return cumprod(at(v, 0)); }},
             {"cumprod", {x, 1}, {}, [](In v) { return cumprod(at(v, 0), 1); }},
             {"diff", {x}, {}, [](In v) { return diff(at(v, 0)); }},
             {"diff", {x, 2, 1}, {}, [](In v) { return diff(at(v, 0), 2, 1); }}});
}

void add_elementwise(std::vector<Sample>& to) {
  to.push_back({"nan_to_num", {small({2, 3})}, {}, [](In v) { return nan_to_num(at(v, 0)); }});
  to.push_back(
      {"nan_to_num", {small({2}), 1.0, 2.0, -2.0}, {}, [](In v) { return nan_to_num(at(v, 0), 1, 2, -2); }});
  to.push_back(
      {"greater", {small({2, 3}), small({3})}, {}, [](In v) { return greater(at(v, 0), at(v, 1)); }});
  to.push_back({"greater_equal", {small({2, 3}), small({3})}, {}, [](In v) {
                  return greater_equal(at(v, 0), at(v, 1));
                }});
  const NDArray odd = array<bool>({true, false, true});
  to.push_back({"where", {odd, small({2, 3}), small({3})}, {}, [](In v) {
                  return where(at(v, 0), at(v, 1), at(v, 2));
                }});
  to.push_back({"where", {odd, 2, 0.5}, {}, [](In v) { return where(at(v, 0), 2, 0.5); }});
  to.push_back({"clip", {small({2, 3}), 1, 2}, {}, [](In v) { return clip(at(v, 0), 1, 2); }});
  to.push_back(
      {"clip", {small({2, 3})}, {{"max", 2.5}, {"min", 1.5}}, [](In v) { return clip(at(v, 0), 1.5, 2.5); }});
}

void add_reductions(std::vector<Sample>& to) {
  using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Reduction>>{
           {"sum", sum}, {"mean", mean}, {"max", max}, {"min", min}}) {
    const NDArray x = small({2, 3, 4});
    const Where here = Where::current();
    to.push_back({name, {x}, {}, [f = f, here](In v) { return f(at(v, 0), {}, false, here); }});
    to.push_back(
        {name, {x, OperatorValue(), true}, {}, [f = f, here](In v) { return f(at(v, 0), {}, true, here); }});
    to.push_back({name, {x}, {{"axis", -1}}, [f = f, here](In v) { return f(at(v, 0), {-1}, false, here); }});
    to.push_back({name, {x, Dims{2, 0}, true}, {}, [f = f, here](In v) {
                    return f(at(v, 0), {2, 0}, true, here);
                  }});
  }
  const NDArray x = small({4, 3});
  to.insert(to.end(), {{"argmax", {x}, {}, [](In v) { return argmax(at(v, 0)); }},
                       {"argmax", {x, 0}, {}, [](In v) { return argmax(at(v, 0), 0); }},
                       {"argmin", {x}, {}, [](In v) { return argmin(at(v, 0)); }},
                       {"argmin", {x, 0}, {}, [](In v) { return argmin(at(v, 0), 0); }}});
}

void add_shape_ops(std::vector<Sample>& to) {
  const NDArray x = small({2, 1, 3}), y = small({2, 1, 3}) * 2;
  const std::vector<NDArray> both{x, y};
  const auto list = [](In v) -> const std::vector<NDArray>& {
    return std::get<std::vector<NDArray>>(v.at(0));
  };
  to.insert(to.end(),
            {{"reshape",
              {x, Dims{3, -1}},
              {},
              [](In v) {
                return reshape(at(v, 0), {3, -1});
              }},
             {"flatten", {x}, {}, [](In v) { return flatten(at(v, 0)); }},
             {"flatten", {x, 0}, {}, [](In v) { return flatten(at(v, 0), 0); }},
             {"transpose", {x}, {}, [](In v) { return transpose(at(v, 0)); }},
             {"transpose",
              {x, Dims{1, 2, 0}},
              {},
              [](In v) {
                return transpose(at(v, 0), {1, 2, 0});
              }},
             {"broadcast_to",
              {x, Dims{2, 4, 3}},
              {},
              [](In v) {
                return broadcast_to(at(v, 0), {2, 4, 3});
              }},
             {"expand_dims", {x, -1}, {}, [](In v) { return expand_dims(at(v, 0), -1); }},
             {"squeeze", {x}, {}, [](In v) { return squeeze(at(v, 0)); }},
             {"squeeze", {x, 1}, {}, [](In v) { return squeeze(at(v, 0), {1}); }},
             {"slice", {x, 2}, {}, [](In v) { return slice(at(v, 0), 2, {}); }},
             {"slice",
              {x, 2, -1, 0, -2},
              {},
              [](In v) {
                return slice(at(v, 0), 2, {-1, 0, -2});
              }},
             {"slice", {x, 2}, {{"stop", 2}}, [](In v) { return slice(at(v, 0), 2, {.end = 2}); }},
             {"concat", {both}, {}, [=](In v) { return concat(list(v)); }},
             {"concat", {both, -1}, {}, [=](In v) { return concat(list(v), -1); }},
             {"stack", {both}, {}, [=](In v) { return stack(list(v)); }},
             {"stack", {both, 2}, {}, [=](In v) { return stack(list(v), 2); }},
             {"cast", {x, DType::f64}, {}, [](In v) { return cast(at(v, 0), DType::f64); }},
             {"cast", {x, "i32"}, {}, [](In v) { return cast(at(v, 0), DType::i32); }},
             {"contiguous", {transpose(x)}, {}, [](In v) { return contiguous(at(v, 0)); }},
             {"copy", {x}, {}, [](In v) { return copy(at(v, 0)); }},
             {"copy_to", {x, cpu(1)}, {}, [](In v) { return copy_to(at(v, 0), cpu(1)); }},
             {"take", {x, numbers({1, 0, -1})}, {}, [](In v) { return take(at(v, 0), at(v, 1)); }},
             {"take", {x, numbers({1, 0, 2}), -1}, {}, [](In v) { return take(at(v, 0), at(v, 1), -1); }},
             {"one_hot", {numbers({1, 0, 2}), 4}, {}, [](In v) { return one_hot(at(v, 0), 4); }},
             {"one_hot", {numbers({1, 0, 2}), 4, DType::u8}, {}, [](In v) {
                return one_hot(at(v, 0), 4, DType::u8);
              }}});
}

void add_network(std::vector<Sample>& to) {
  const NDArray x = small({2, 3}), weight = small({4, 3}), bias = small({4}), image = small({1, 2, 5, 6});
  const NDArray kernels = small({4, 2, 3, 3}), halves = small({4, 1, 3, 3}), labels = numbers({2, 0});
  const auto other = Conv2dOptions{{2, 1}, {1, 1}, {1, 2}, 2, true};
  Generator* own = &a_generator();
  to.insert(
      to.end(),
      {{"matmul", {x, transpose(weight)}, {}, [](In v) { return matmul(at(v, 0), at(v, 1)); }},
       {"linear", {x, weight}, {}, [](In v) { return linear(at(v, 0), at(v, 1)); }},
       {"linear",
        {x, weight, bias, true},
        {},
        [](In v) { return linear(at(v, 0), at(v, 1), at(v, 2), {.relu = true}); }},
       {"conv2d", {image, kernels}, {}, [](In v) { return conv2d(at(v, 0), at(v, 1)); }},
       {"conv2d",
        {image, halves, bias, Dims{2, 1}, 1, Dims{1, 2}, 2, true},
        {},
        [=](In v) { return conv2d(at(v, 0), at(v, 1), at(v, 2), other); }},
       {"max_pool2d", {image}, {}, [](In v) { return max_pool2d(at(v, 0)); }},
       {"max_pool2d",
        {image, Dims{3, 2}, 1, Dims{1, 0}},
        {},
        [](In v) {
          return max_pool2d(at(v, 0), {{3, 2}, {1, 1}, {1, 0}});
        }},
       {"avg_pool2d", {image}, {}, [](In v) { return avg_pool2d(at(v, 0)); }},
       {"avg_pool2d",
        {image, 3, Dims{1, 2}, 1, false},
        {},
        [](In v) {
          return avg_pool2d(at(v, 0), {{3, 3}, {1, 2}, {1, 1}, false});
        }},
       {"softmax", {x}, {}, [](In v) { return softmax(at(v, 0)); }},
       {"softmax", {x, 0}, {}, [](In v) { return softmax(at(v, 0), 0); }},
       {"log_softmax", {x}, {}, [](In v) { return log_softmax(at(v, 0)); }},
       {"log_softmax", {x, 0}, {}, [](In v) { return log_softmax(at(v, 0), 0); }},
       {"cross_entropy", {x, labels}, {}, [](In v) { return cross_entropy(at(v, 0), at(v, 1)); }},
       {"dropout", {x}, {}, [](In v) { return dropout(at(v, 0), 0.5, default_generator(), true); }},
       {"dropout", {x, 0.25, false, own}, {}, [=](In v) { return dropout(at(v, 0), 0.25, *own, false); }},
       {"dropout",
        {x, 0.25},
        {{"generator", own}},
        [=](In v) { return dropout(at(v, 0), 0.25, *own, true); }},
       {"embedding", {weight, labels}, {}, [](In v) { return embedding(at(v, 0), at(v, 1)); }},
       {"embedding", {weight, labels, true}, {}, [](In v) {
          return embedding(at(v, 0), at(v, 1), {.sparse_grad = true});
        }}});
}

void add_row_sparse(std::vector<Sample>& to) {
  const NDArray dense = small({4, 2}), at_rows = numbers({3, 1});
  const RowSparse x = retain(dense, at_rows), y = retain(dense, numbers({0, 1}));
  to.insert(to.end(),
            {{"row_sparse",
              {numbers({2, 0, 2}), small({3, 2}), Shape{4, 2}},
              {},
              [](In v) {
                return row_sparse(at(v, 0), at(v, 1), {4, 2});
              }},
             {"retain", {dense, at_rows}, {}, [](In v) { return retain(at(v, 0), at(v, 1)); }},
             {"retain", {x, numbers({1, 2})}, {}, [](In v) { return retain(rows_at(v, 0), at(v, 1)); }},
             {"sum_row_sparse",
              {std::vector<RowSparse>{x, y}},
              {},
              [](In v) { return sum(std::get<std::vector<RowSparse>>(v.at(0))); }},
             {"scale", {x, 2.5}, {}, [](In v) { return scale(rows_at(v, 0), 2.5); }},
             {"to_dense", {x}, {}, [](In v) { return to_dense(rows_at(v, 0)); }},
             {"add_rows_", {dense, x}, {}, [](In v) {
                add_rows(at(v, 0), rows_at(v, 1));
                return OperatorValue();
              }}});
}

template <class Change> PlainCall changing(Change change) {
  return [change](In values) {
    NDArray x = at(values, 0);
    change(x, values);
    return OperatorValue();
  };
}

void add_in_place(std::vector<Sample>& to) {
  const NDArray x = small({2, 3}), bits = ones_of_bool({3}), whole = x.astype(DType::i32);
  to.insert(to.end(),
            {{"add_", {x, bits}, {}, changing([](NDArray& a, In v) { a += at(v, 1); })},
             {"add_", {x, 2.5}, {}, changing([](NDArray& a, In) { a += 2.5; })},
             {"subtract_", {x, bits}, {}, changing([](NDArray& a, In v) { a -= at(v, 1); })},
             {"multiply_", {x, bits}, {}, changing([](NDArray& a, In v) { a *= at(v, 1); })},
             {"multiply_", {x, 3}, {}, changing([](NDArray& a, In) { a *= 3; })},
             {"divide_", {x, bits}, {}, changing([](NDArray& a, In v) { a /= at(v, 1); })},
             {"floor_divide_", {x, 2}, {}, changing([](NDArray& a, In) { floor_divide_(a, 2); })},
             {"remainder_", {x, 2}, {}, changing([](NDArray& a, In) { a %= 2; })},
             {"power_", {x, 2}, {}, changing([](NDArray& a, In) { power_(a, 2); })},
             {"bitwise_and_", {whole, true}, {}, changing([](NDArray& a, In) { a &= true; })},
             {"bitwise_or_", {whole, true}, {}, changing([](NDArray& a, In) { a |= true; })},
             {"bitwise_xor_", {whole, true}, {}, changing([](NDArray& a, In) { a ^= true; })},
             {"bitwise_left_shift_", {whole, 2}, {}, changing([](NDArray& a, In) { a <<= 2; })},
             {"bitwise_right_shift_", {whole, 2}, {}, changing([](NDArray& a, In) { a >>= 2; })},
             {"assign_", {x, small({3})}, {}, changing([](NDArray& a, In v) { a.assign(at(v, 1)); })},
             {"fill_", {x, 2.5}, {}, changing([](NDArray& a, In) { a.fill(2.5); })},
             {"fill_", {x, 3}, {}, changing([](NDArray& a, In) { a.fill(3); })}});
}

// The arguments of generated samples, for an operator that takes only one array, or only an array and a
// number with a default, or only two operands. Empty for other operators.
std::vector<OperatorValues> operands_for(const OperatorInfo& op) {
  const auto takes = [&](std::size_t i, ArgumentKind kind) {
    return op.arguments[i].kind == kind && op.arguments[i].required();
  };
  if (op.arguments.size() == 1 && takes(0, ArgumentKind::array))
    return {{small({2, 3}, op.arguments[0].dtypes.front())}};
  if (op.arguments.size() == 2 && takes(0, ArgumentKind::array) &&
      op.arguments[1].kind == ArgumentKind::real && !op.arguments[1].required()) {
    const NDArray x = small({2, 3}, op.arguments[0].dtypes.front());
    return {{x}, {x, 0.75}, {x, 2}};
  }
  if (op.arguments.size() != 2 || !takes(0, ArgumentKind::array_or_number) ||
      !takes(1, ArgumentKind::array_or_number))
    return {};
  const DType dtype = op.arguments[0].dtypes.front();
  const NDArray x = small({2, 3}, dtype), row = small({3}, dtype);
  std::vector<OperatorValues> all{{x, row}, {x, 2}, {2, row}, {small({2, 3}, DType::i32), true}};
  if (is_floating(dtype)) all.push_back({1.5, row});
  return all;
}

// Adds generated samples for operators that have no sample yet. Macros define these operators alike, so
// little can be wrong in one of them.
void add_missing(std::vector<Sample>& to) {
  std::set<std::string> named;
  for (const Sample& sample : to) named.insert(sample.name);
  for (const OperatorInfo& op : operators()) {
    if (named.contains(op.name)) continue;
    for (const OperatorValues& operands : operands_for(op))
      to.push_back({op.name, operands, {}, [&op](In v) { return call_operator(op, v).at(0); }});
  }
}

void check_same_array(const NDArray& a, const NDArray& b) {
  REQUIRE(a.dtype() == b.dtype());
  REQUIRE(a.shape() == b.shape());
  CHECK(a.strides() == b.strides());
  CHECK(a.device() == b.device());
  const NDArray left = a.detach().contiguous(), right = b.detach().contiguous();
  left.wait();
  right.wait();
  const auto bytes = static_cast<std::size_t>(left.size()) * size_of(left.dtype());
  CHECK(std::memcmp(left.data<const std::byte>(), right.data<const std::byte>(), bytes) == 0);
}

}  // namespace

Generator& a_generator() {
  static Generator generator(3);
  return generator;
}

std::vector<Sample> operator_samples() {
  std::vector<Sample> all;
  add_all_samples(all);
  add_creation(all);
  add_random(all);
  add_statistics(all);
  add_elementwise(all);
  add_reductions(all);
  add_shape_ops(all);
  add_network(all);
  add_row_sparse(all);
  add_in_place(all);
  add_missing(all);
  return all;
}

void restart_generators() {
  manual_seed(7);
  a_generator().set_position(0);
}

void check_same(const OperatorValue& a, const OperatorValue& b) {
  REQUIRE(a.index() == b.index());
  if (const auto* array = std::get_if<NDArray>(&a)) check_same_array(*array, std::get<NDArray>(b));
  if (const auto* list = std::get_if<std::vector<NDArray>>(&a)) {
    const auto& other = std::get<std::vector<NDArray>>(b);
    REQUIRE(list->size() == other.size());
    for (std::size_t i = 0; i < list->size(); ++i) check_same_array((*list)[i], other[i]);
  }
  if (const auto* rows = std::get_if<RowSparse>(&a)) {
    const RowSparse left = rows->trimmed(), right = std::get<RowSparse>(b).trimmed();
    CHECK(left.shape() == right.shape());
    check_same_array(left.rows(), right.rows());
    check_same_array(left.values(), right.values());
  }
}

void check_same(const OperatorValues& a, const OperatorValues& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) check_same(a[i], b[i]);
}

OperatorValues with_copy_of_first(const OperatorValues& values) {
  OperatorValues copied = values;
  copied.at(0) = at(values, 0).copy();
  return copied;
}

}  // namespace heddle::testing
