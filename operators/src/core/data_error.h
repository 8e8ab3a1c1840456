// Errors that the values of arrays cause. Kernels of the CPU and of GPUs share their texts.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/shape.h>

namespace heddle {

// InvalidIndex for the index (as a text) at the row-major position `flat` of indices of shape `shape`.
[[noreturn]] void refuse_index(const char* op, const std::string& index, std::int64_t flat,
                               const Shape& shape, std::int64_t bound);
// InvalidIndex for offsets of bags: one outside of [0, total], a first one that is not 0, one below its predecessor.
[[noreturn]] void refuse_offset(const char* op, const std::string& offset, std::int64_t at,
                                std::int64_t total);
[[noreturn]] void refuse_first_offset(const char* op, std::int64_t offset);
[[noreturn]] void refuse_falling_offset(const char* op, std::int64_t previous, std::int64_t offset,
                                        std::int64_t at);
// Error for a mask with too many or too few true elements.
[[noreturn]] void refuse_mask(const char* op, std::int64_t found, std::int64_t room);
// Error for a row-sparse array: its number of rows, or a row that is not between the one before and `bound`.
[[noreturn]] void refuse_row_count(const char* op, std::int64_t count, std::int64_t room);
[[noreturn]] void refuse_row(const char* op, std::int64_t bound, std::int64_t row, std::int64_t previous);

}  // namespace heddle
