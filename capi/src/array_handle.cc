#include "array_handle.h"

#include <heddle/default_engine.h>

#include "c/not_owned.h"

namespace heddle::c {

EngineLink::EngineLink(const std::shared_ptr<Engine>& engine)
    : pointer_(engine.get()),
      engine_(engine),
      default_(std::get_deleter<NotOwned>(engine) ? engine : nullptr) {}

std::shared_ptr<Engine> EngineLink::lock(const char* call) const {
  std::shared_ptr<Engine> engine = engine_.lock();
  if (!engine) throw BadHandle(std::string(call) + ": the array's engine was destroyed");
  return engine;
}

std::shared_ptr<Engine> engine_of(heddle_engine* engine, const char* call) {
  if (!engine) return std::shared_ptr<Engine>(&default_engine(), NotOwned());
  return *HandleAccess<heddle_engine>(engine, call);
}

void check_engine(const Engine& of_array, const Engine& wanted, const char* call) {
  if (&of_array == &wanted) return;
  throw InvalidArgument(std::string(call) + ": the arrays belong to different engines");
}

DType dtype_of_number(std::int32_t dtype, const char* call) {
  if (dtype < HEDDLE_F32 || dtype > HEDDLE_U64)
    throw InvalidArgument(std::string(call) + ": dtype is " + std::to_string(dtype) +
                          ", want HEDDLE_F32 to HEDDLE_U64");
  return static_cast<DType>(dtype);
}

Device device_of(const heddle_device& device, const char* call) {
  switch (device.kind) {
    case HEDDLE_CPU:
      return cpu(device.index);
    case HEDDLE_CUDA:
      return gpu(device.index);
    case HEDDLE_CPU_PINNED:
      return cpu_pinned();
    default:
      throw InvalidArgument(std::string(call) + ": the kind of a device is " + std::to_string(device.kind) +
                            ", want HEDDLE_CPU, HEDDLE_CUDA or HEDDLE_CPU_PINNED");
  }
}

heddle_device device_of(const Device& device) {
  return {static_cast<std::int32_t>(device.kind), device.index};
}

Dims dims_of(const std::int64_t* numbers, std::int32_t count, const char* call) {
  if (count < 0 || count > HEDDLE_MAX_DIMS)
    throw InvalidArgument(std::string(call) + ": " + std::to_string(count) + " dimensions, want 0 to " +
                          std::to_string(HEDDLE_MAX_DIMS));
  if (count > 0 && !numbers) throw_null(call, "a list of integers");
  Dims dims;
  for (std::int32_t i = 0; i < count; ++i) dims.push_back(numbers[i]);
  return dims;
}

std::string text_of(const char* text, const char* call, const char* argument) {
  if (!text) throw_null(call, argument);
  return text;
}

const char* static_text(const std::string& text) {
  const char* interned = nullptr;
  if (heddle_intern(text.c_str(), &interned) != HEDDLE_OK) throw std::bad_alloc();
  return interned;
}

heddle_array* new_handle(NDArray array, const EngineLink& engine) {
  return make_handle<heddle_array>(LinkedArray{std::move(array), engine});
}

heddle_row_sparse* new_handle(RowSparse rows, const EngineLink& engine) {
  return make_handle<heddle_row_sparse>(LinkedRows{std::move(rows), engine});
}

}  // namespace heddle::c
