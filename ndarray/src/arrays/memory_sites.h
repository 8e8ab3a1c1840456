// The memory of arrays, counted by the line that made them: see <heddle/memory_report.h>.
#pragma once

#include <cstddef>

namespace heddle::ndarray_detail {

struct SiteCount;

// For a new storage: where to count it; null while nothing is counted.
SiteCount* count_storage();
// The storage that count_storage() has counted has taken memory of so many bytes.
void count_memory(SiteCount& count, std::size_t bytes);
// The storage ends, and gives back so many bytes; 0 if it has taken none.
void end_count(SiteCount& count, std::size_t bytes) noexcept;

}  // namespace heddle::ndarray_detail
