#include "value.h"

#include <heddle/c/row_sparse.h>

namespace heddle::c {

NDArray Arguments::array_of(const heddle_array* array) {
  const HandleAccess<heddle_array> used(array, call_);
  engines_.push_back(used->engine.lock(call_));
  if (!first_) first_ = engines_.back();
  return used->array;
}

RowSparse Arguments::rows_of(const heddle_row_sparse* rows) {
  const HandleAccess<heddle_row_sparse> used(rows, call_);
  engines_.push_back(used->engine.lock(call_));
  if (!first_) first_ = engines_.back();
  return used->rows;
}

Generator* Arguments::generator_of(const heddle_generator* generator) {
  if (generator_) throw InvalidArgument(std::string(call_) + ": a call takes one generator");
  generator_ = *HandleAccess<heddle_generator>(generator, call_);
  lock_ = std::unique_lock(generator_->mutex);
  return &generator_->generator;
}

template <class Part, class T, class Get>
std::vector<Part> Arguments::list_of(const heddle_value& value, T* const* list, Get get) {
  if (value.count > 0 && !list) throw_null(call_, "a list");
  std::vector<Part> parts;
  for (std::uint32_t i = 0; i < value.count; ++i) parts.push_back((this->*get)(list[i]));
  return parts;
}

OperatorValue Arguments::value_of(const heddle_value& value) {
  switch (value.kind) {
    case HEDDLE_VALUE_NONE:
      return {};
    case HEDDLE_VALUE_BOOLEAN:
      return value.as.boolean != 0;
    case HEDDLE_VALUE_INTEGER:
      return value.as.integer;
    case HEDDLE_VALUE_REAL:
      return value.as.real;
    case HEDDLE_VALUE_TEXT:
      return text_of(value.as.text, call_, "a text");
    case HEDDLE_VALUE_INTEGERS:
      return dims_of(value.as.integers, static_cast<std::int32_t>(std::min(value.count, 1000U)), call_);
    case HEDDLE_VALUE_DTYPE:
      return dtype_of_number(value.as.dtype, call_);
    case HEDDLE_VALUE_DEVICE:
      return device_of(value.as.device, call_);
    case HEDDLE_VALUE_ARRAY:
      return array_of(value.as.array);
    case HEDDLE_VALUE_ARRAYS:
      return list_of<NDArray>(value, value.as.arrays, &Arguments::array_of);
    case HEDDLE_VALUE_ROW_SPARSE:
      return rows_of(value.as.row_sparse);
    case HEDDLE_VALUE_ROW_SPARSE_LIST:
      return list_of<RowSparse>(value, value.as.row_sparse_list, &Arguments::rows_of);
    case HEDDLE_VALUE_GENERATOR:
      return generator_of(value.as.generator);
    default:
      throw InvalidArgument(std::string(call_) + ": the kind of a value is " + std::to_string(value.kind) +
                            ", want HEDDLE_VALUE_NONE to HEDDLE_VALUE_GENERATOR");
  }
}

std::shared_ptr<Engine> Arguments::engine(heddle_engine* otherwise) const {
  return first_ ? first_ : engine_of(otherwise, call_);
}

heddle_value plain_value(const OperatorValue& value) {
  heddle_value plain{};
  if (const auto* flag = std::get_if<bool>(&value)) {
    plain.kind = HEDDLE_VALUE_BOOLEAN;
    plain.as.boolean = *flag ? 1 : 0;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    plain.kind = HEDDLE_VALUE_INTEGER;
    plain.as.integer = *whole;
  } else if (const auto* real = std::get_if<double>(&value)) {
    plain.kind = HEDDLE_VALUE_REAL;
    plain.as.real = *real;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    plain.kind = HEDDLE_VALUE_TEXT;
    plain.as.text = text->c_str();
  } else if (const auto* dims = std::get_if<Dims>(&value)) {
    plain.kind = HEDDLE_VALUE_INTEGERS;
    plain.count = static_cast<std::uint32_t>(dims->size());
    plain.as.integers = dims->begin();
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    plain.kind = HEDDLE_VALUE_DTYPE;
    plain.as.dtype = static_cast<std::int32_t>(*dtype);
  } else if (const auto* device = std::get_if<Device>(&value)) {
    plain.kind = HEDDLE_VALUE_DEVICE;
    plain.as.device = device_of(*device);
  }
  return plain;
}

namespace {

// Destroys the handles of a result that is not returned to the caller.
void drop(const heddle_value& result) {
  if (result.kind == HEDDLE_VALUE_ARRAY) heddle_array_destroy(result.as.array);
  if (result.kind == HEDDLE_VALUE_ROW_SPARSE) heddle_row_sparse_destroy(result.as.row_sparse);
  if (result.kind != HEDDLE_VALUE_ARRAYS) return;
  for (std::uint32_t i = 0; i < result.count; ++i) heddle_array_destroy(result.as.arrays[i]);
  heddle_array_list_destroy(result.as.arrays);
}

heddle_value result_of(const std::vector<NDArray>& arrays, const EngineLink& engine) {
  auto list = std::make_unique<heddle_array*[]>(arrays.size());
  heddle_value result{};
  result.kind = HEDDLE_VALUE_ARRAYS;
  result.as.arrays = list.get();
  try {
    for (; result.count < arrays.size(); ++result.count)
      list[result.count] = new_handle(arrays[result.count], engine);
  } catch (...) {
    list.release();
    drop(result);
    throw;
  }
  list.release();
  return result;
}

heddle_value result_of(const OperatorValue& value, const EngineLink& engine) {
  if (const auto* arrays = std::get_if<std::vector<NDArray>>(&value)) return result_of(*arrays, engine);
  heddle_value result{};
  if (const auto* array = std::get_if<NDArray>(&value)) {
    result.kind = HEDDLE_VALUE_ARRAY;
    result.as.array = new_handle(*array, engine);
  } else {
    result.kind = HEDDLE_VALUE_ROW_SPARSE;
    result.as.row_sparse = new_handle(std::get<RowSparse>(value), engine);
  }
  return result;
}

}  // namespace

void give_results(const OperatorValues& values, const EngineLink& engine, heddle_value* results) {
  std::size_t made = 0;
  try {
    for (const OperatorValue& value : values) {
      results[made] = result_of(value, engine);
      ++made;
    }
  } catch (...) {
    while (made > 0) drop(results[--made]);
    throw;
  }
}

CallArguments arguments_of(const FunctionInfo& function, const heddle_value* values, std::size_t value_count,
                           const heddle_named_value* named, std::size_t named_count, Arguments& arguments,
                           const char* call) {
  // Refuses more values than the function has arguments before any value is read: with a wrong count, reading
  // would run past the end of the caller's memory.
  const std::size_t most = function.arguments.size();
  if (value_count > most || named_count > most)
    throw InvalidArgument(std::string(call) + ": " + std::to_string(value_count) + " values and " +
                          std::to_string(named_count) + " named values; wanted: " + function.signature());
  if (value_count > 0 && !values) throw_null(call, "values");
  if (named_count > 0 && !named) throw_null(call, "named");
  CallArguments all;
  for (std::size_t i = 0; i < value_count; ++i) all.first.push_back(arguments.value_of(values[i]));
  for (std::size_t i = 0; i < named_count; ++i)
    all.named.push_back({text_of(named[i].name, call, "a name"), arguments.value_of(named[i].value)});
  return all;
}

}  // namespace heddle::c
