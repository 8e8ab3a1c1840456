#include "core/data_error.h"

#include <heddle/array_error.h>

namespace heddle {
namespace {

// The position of an element, "3" in an array with one axis, else "(1, 0)"; `flat` counts in row-major order.
std::string position_of(std::int64_t flat, const Shape& shape) {
  if (shape.size() == 1) return std::to_string(flat);
  Dims position = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    position[d] = flat % shape[d];
    flat /= shape[d];
  }
  return position.to_string();
}

}  // namespace

void refuse_index(const char* op, const std::string& index, std::int64_t flat, const Shape& shape,
                  std::int64_t bound) {
  throw InvalidIndex(std::string(op) + ": index " + index + " at position " + position_of(flat, shape) +
                     " is out of range for size " + std::to_string(bound));
}

void refuse_offset(const char* op, const std::string& offset, std::int64_t at, std::int64_t total) {
  throw InvalidIndex(std::string(op) + ": offset " + offset + " at position " + std::to_string(at) + " for " +
                     std::to_string(total) + " indices; want 0 to " + std::to_string(total));
}

void refuse_first_offset(const char* op, std::int64_t offset) {
  throw InvalidIndex(std::string(op) + ": offsets begin with " + std::to_string(offset) + "; want 0");
}

void refuse_falling_offset(const char* op, std::int64_t previous, std::int64_t offset, std::int64_t at) {
  throw InvalidIndex(std::string(op) + ": offsets fall from " + std::to_string(previous) + " to " +
                     std::to_string(offset) + " at position " + std::to_string(at));
}

void refuse_mask(const char* op, std::int64_t found, std::int64_t room) {
  throw Error(with_call_site(std::string(op) + ": the mask has " + std::to_string(found) +
                             " true elements for " + std::to_string(room) + " values"));
}

void refuse_row_count(const char* op, std::int64_t count, std::int64_t room) {
  throw Error(with_call_site(std::string(op) + ": a row-sparse array has " + std::to_string(count) +
                             " rows and room for " + std::to_string(room)));
}

void refuse_row(const char* op, std::int64_t bound, std::int64_t row, std::int64_t previous) {
  throw Error(with_call_site(std::string(op) + ": a row-sparse array of " + std::to_string(bound) +
                             " rows has row " + std::to_string(row) + " behind row " +
                             std::to_string(previous) + "; wanted are rising ones"));
}

}  // namespace heddle
