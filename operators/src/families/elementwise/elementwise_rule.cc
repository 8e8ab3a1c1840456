#include "families/elementwise/elementwise_rule.h"

#include <string>
#include <utility>

#include "core/operator.h"

namespace heddle::operators_detail {

namespace {

bool fits(Scalar scalar, DType dtype) {
  if (is_half(dtype)) return true;
  const auto value = scalar.as<std::int64_t>();
  return visit_number(dtype, [=]<class T> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return std::in_range<T>(value);
    return true;
  });
}

void check_operands(const char* op, const Operand& a, const Operand& b) {
  if (a.is_array && b.is_array) return check_arrays(op, {&a.array, &b.array});
  if (a.is_array || b.is_array) return check_arrays(op, {a.is_array ? &a.array : &b.array});
  throw InvalidArgument(std::string(op) + ": two scalars; wanted at least one array");
}

void check_exponent(const char* op, DType compute, const Operand& exponent) {
  if (exponent.is_array || is_floating(compute) || exponent.scalar.as<std::int64_t>() >= 0) return;
  throw InvalidArgument(std::string(op) + ": an integer to a negative integer power: " +
                        std::to_string(exponent.scalar.as<std::int64_t>()));
}

void add_reads(std::vector<NDArray>& reads, const Operand& operand) {
  if (operand.is_array) reads.push_back(operand.array);
}

}  // namespace

DType weak_dtype(const char* op, DType array, Scalar scalar) {
  if (scalar.is_huge() && !is_floating(array)) {
    if (array == DType::u64) return array;
    throw InvalidArgument(std::string(op) + ": " + std::to_string(scalar.as<std::uint64_t>()) +
                          " does not fit " + name_of(array == DType::boolean ? DType::i64 : array));
  }
  if (!scalar.is_integral()) return is_floating(array) ? array : DType::f64;
  if (array == DType::boolean) return scalar.is_boolean() ? DType::boolean : DType::i64;
  if (!fits(scalar, array)) {
    throw InvalidArgument(std::string(op) + ": " + std::to_string(scalar.as<std::int64_t>()) +
                          " does not fit " + name_of(array));
  }
  return array;
}

DType unary_dtype(const char* op, Family family, DType x) {
  if (family == Family::floating && !is_floating(x)) return DType::f64;
  if ((family == Family::no_bool || family == Family::power) && x == DType::boolean) {
    throw InvalidArgument(std::string(op) + ": dtype bool; wanted a number's");
  }
  const bool bits = family == Family::bits || family == Family::integers;
  if ((bits && is_floating(x)) || (family == Family::integers && x == DType::boolean)) {
    throw InvalidArgument(std::string(op) + ": dtype " + name_of(x) + "; wanted an integer's" +
                          (family == Family::bits ? " or bool" : ""));
  }
  return x;
}

Dtypes binary_dtypes(const char* op, Family family, const Operand& a, const Operand& b) {
  check_operands(op, a, b);
  const auto beside = [=](const NDArray& array, Scalar scalar) {
    // A comparison with a number beyond the array's dtype is computed in a dtype that holds both.
    const bool widen = family == Family::comparison && scalar.is_integral() && !fits(scalar, array.dtype());
    // With u64: f64, since the number is negative, which no integer dtype holds together with every u64.
    if (widen) return array.dtype() == DType::u64 ? DType::f64 : DType::i64;
    // A scalar need not fit the array's dtype if the operator computes in f64, as u8 / 256.
    if (family == Family::floating && !is_floating(array.dtype())) return DType::f64;
    return weak_dtype(op, array.dtype(), scalar);
  };
  const DType common = !b.is_array   ? beside(a.array, b.scalar)
                       : !a.is_array ? beside(b.array, a.scalar)
                                     : promote(a.array.dtype(), b.array.dtype());
  const DType compute = unary_dtype(op, family, common);
  if (family == Family::power) check_exponent(op, compute, b);
  return {compute, family == Family::comparison ? DType::boolean : compute};
}

int kind_order(DType dtype) {
  if (dtype == DType::boolean) return 0;
  if (is_unsigned(dtype)) return 1;
  return is_floating(dtype) ? 3 : 2;
}

Operand prepared(const Operand& operand, DType dtype, const Shape& shape) {
  if (!operand.is_array) return operand;
  const NDArray& array = operand.array;
  const NDArray converted = array.dtype() == dtype ? array.detach() : array.detach().astype(dtype);
  return converted.shape() == shape ? converted : converted.broadcast_view(shape);
}

Shape binary_shape(const char* op, const Operand& a, const Operand& b) {
  if (!a.is_array) return b.array.shape();
  if (!b.is_array) return a.array.shape();
  return broadcast_for(op, a.array.shape(), b.array.shape());
}

NDArray push_unary(const Kernel<UnaryKernel>& kernel, const NDArray& x, DType compute, DType result) {
  check_arrays(kernel.op(), {&x});
  const NDArray source = prepared(x, compute, x.shape()).array;
  const NDArray y = make_result(x, x.shape(), result);
  auto* run = kernel.on(x.device().kind);
  array_push(kernel.op(), OpCost::per_element, {source}, {y},
             recordable([=](const KernelContext& context) { run(context, source, y); }));
  return y;
}

void push_binary_into(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, DType compute,
                      const NDArray& y) {
  auto* run = kernel.on(y.device().kind);
  std::vector<NDArray> reads;
  const Operand left = prepared(a, compute, y.shape()), right = prepared(b, compute, y.shape());
  add_reads(reads, left);
  add_reads(reads, right);
  push_op(kernel.op(), reads, {&y, 1}, recordable([=, target = y.detach()](const KernelContext& context) {
            run(context, left, right, target);
          }),
          0, OpCost::per_element);
}

NDArray push_binary(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, Dtypes dtypes) {
  const Shape shape = binary_shape(kernel.op(), a, b);
  const NDArray y = make_result(a.is_array ? a.array : b.array, shape, dtypes.result);
  push_binary_into(kernel, a, b, dtypes.compute, y);
  return y;
}

}  // namespace heddle::operators_detail
