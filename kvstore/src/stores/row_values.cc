#include "stores/row_values.h"

#include <algorithm>
#include <cstring>

#include <heddle/array_error.h>
#include <heddle/array_op.h>
#include <heddle/ops.h>

#include "stores/local_store.h"

namespace heddle {
namespace {

std::size_t row_bytes(const Shape& shape, DType dtype) {
  Shape row = shape;
  row[0] = 1;
  return static_cast<std::size_t>(element_count(row)) * size_of(dtype);
}

Shape with_rows(const Shape& shape, std::int64_t rows) {
  Shape result = shape;
  result[0] = rows;
  return result;
}

}  // namespace

void check_row_numbers(const char* call, KVStore::Key key, const NDArray& rows) {
  const bool good =
      rows.defined() && rows.ndim() == 1 && (rows.dtype() == DType::i64 || rows.dtype() == DType::i32);
  if (!good)
    throw InvalidArgument(who_says(call, key) + "rows are " + describe(rows) +
                          "; wanted is one axis of i32 or i64");
}

void check_has_rows(const char* call, KVStore::Key key, const Shape& shape, DType dtype) {
  if (shape.size() > 0 && is_floating(dtype)) return;
  throw InvalidArgument(who_says(call, key) + "stored is " + name_of(dtype) + (" " + shape.to_string()) +
                        "; rows are those of a floating array with an axis");
}

void check_rows_like(const char* call, KVStore::Key key, const RowSparse& value, const Shape& shape,
                     DType dtype) {
  check_has_rows(call, key, shape, dtype);
  if (value.shape() == shape && value.dtype() == dtype) return;
  throw InvalidArgument(who_says(call, key) + "got row-sparse " + name_of(value.dtype()) +
                        (" " + value.shape().to_string()) + ", stored is " + name_of(dtype) +
                        (" " + shape.to_string()));
}

std::vector<std::int64_t> row_numbers(const std::string& who, const NDArray& rows, std::int64_t bound) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows.size()));
  if (rows.dtype() == DType::i64) {
    std::copy_n(rows.data<const std::int64_t>(), numbers.size(), numbers.begin());
  } else {
    std::copy_n(rows.data<const std::int32_t>(), numbers.size(), numbers.begin());
  }
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= bound)
      throw InvalidIndex(who + "row " + std::to_string(row) + " is out of range for an array of " +
                         std::to_string(bound) + " rows");
  }
  return numbers;
}

std::span<const std::int64_t> present_rows(const std::string& who, const RowSparse& value) {
  const std::int64_t count = *value.count().data<const std::int64_t>(), bound = value.shape()[0];
  if (count < 0 || count > value.capacity())
    throw Error(who + "a row-sparse array has " + std::to_string(count) + " rows and room for " +
                std::to_string(value.capacity()));
  const std::span<const std::int64_t> rows(value.rows().data<const std::int64_t>(),
                                           static_cast<std::size_t>(count));
  std::int64_t previous = -1;
  for (const std::int64_t row : rows) {
    if (row <= previous || row >= bound)
      throw Error(who + "a row-sparse array of " + std::to_string(bound) + " rows has row " +
                  std::to_string(row) + " behind row " + std::to_string(previous) +
                  "; wanted are rising ones");
    previous = row;
  }
  return rows;
}

void check_pull_rows(KVStore::Key key, const NDArray& rows, const NDArray* out, const Shape& shape,
                     DType dtype, const Engine& engine) {
  constexpr const char* kCall = "pull_rows";
  check_has_rows(kCall, key, shape, dtype);
  check_engine(kCall, key, rows, engine);
  if (!out) return;
  const Shape wanted = with_rows(shape, rows.size());
  if (!out->defined() || out->shape() != wanted || out->dtype() != dtype)
    throw InvalidArgument(who_says(kCall, key) + "out is " + describe(*out) + ", these rows are " +
                          name_of(dtype) + (" " + wanted.to_string()));
  check_engine(kCall, key, *out, engine);
  check_writable(kCall, key, *out);
}

NDArray rows_within(KVStore::Key key, const NDArray& rows, std::int64_t bound) {
  const EngineScope scope(rows.engine());
  const NDArray list = rows.detach().copy_to(cpu()), checked({rows.size()}, DType::i64);
  array_push("kvstore_rows", {list}, {checked}, [=, who = who_says("pull_rows", key)] {
    const std::vector<std::int64_t> numbers = row_numbers(who, list, bound);
    std::copy(numbers.begin(), numbers.end(), checked.data<std::int64_t>());
  });
  return checked;
}

RowSparse on_device(const RowSparse& value, Device device) {
  if (value.device() == device) return value;
  return {value.shape(), value.rows().copy_to(device), value.values().copy_to(device),
          value.count().copy_to(device)};
}

NDArray is_row_of(const RowSparse& rows) {
  const EngineScope scope(rows.engine());
  const NDArray one = ones({rows.capacity(), 1}, DType::f32, rows.device());
  const NDArray found = to_dense(RowSparse({rows.shape()[0], 1}, rows.rows(), one, rows.count())) != 0;
  Shape shape = rows.shape();
  for (int axis = 1; axis < shape.size(); ++axis) shape[axis] = 1;
  return found.view_as(shape);
}

void assign_rows(const NDArray& dense, const RowSparse& rows) {
  const NDArray target = dense.detach();
  if (target.device().kind == DeviceKind::cuda)
    return target.assign(where(is_row_of(rows), to_dense(rows), target));
  array_push("kvstore_assign_rows", {rows.rows(), rows.values(), rows.count(), target}, {target}, [=] {
    const std::size_t bytes = row_bytes(target.shape(), target.dtype());
    auto* const to = target.data<std::byte>();
    const auto* from = rows.values().data<const std::byte>();
    for (const std::int64_t row : present_rows("KVStore::push: ", rows)) {
      if (bytes > 0) std::memcpy(to + static_cast<std::size_t>(row) * bytes, from, bytes);
      from += bytes;
    }
  });
}

void take_rows(KVStore::Key key, const RowSparse& given, const NDArray& rows, const NDArray& out) {
  const std::string who = who_says("pull_rows", key);
  const EngineScope scope(given.engine());
  const RowSparse found = given.device().kind == DeviceKind::cuda ? on_device(given, cpu()) : given;
  const bool direct = out.device().kind == DeviceKind::cpu && out.is_contiguous();
  const NDArray memory = direct ? out.detach() : NDArray(out.shape(), found.dtype());
  const NDArray list = rows.detach().copy_to(cpu());
  array_push("kvstore_take_rows", {found.rows(), found.values(), found.count(), list}, {memory}, [=] {
    const std::size_t bytes = row_bytes(found.shape(), found.dtype());
    const std::span<const std::int64_t> present = present_rows(who, found);
    const auto* const from = found.values().data<const std::byte>();
    auto* to = memory.data<std::byte>();
    for (const std::int64_t row : row_numbers(who, list, found.shape()[0])) {
      const auto at = std::lower_bound(present.begin(), present.end(), row);
      if (at == present.end() || *at != row)
        throw Error(who + "row " + std::to_string(row) + " is not there");
      if (bytes > 0) std::memcpy(to, from + static_cast<std::size_t>(at - present.begin()) * bytes, bytes);
      to += bytes;
    }
  });
  if (!direct) out.detach().assign(memory);
}

}  // namespace heddle
