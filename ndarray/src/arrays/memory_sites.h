// The memory of arrays, counted by the line that made them: see <heddle/memory_report.h>.
#pragma once

#include <cstddef>

namespace heddle::ndarray_detail {

struct SiteCount;

// Called for a new storage: returns its counter; null while nothing is counted.
SiteCount* count_storage();
// Called when a counted storage has allocated so many bytes.
void count_memory(SiteCount& count, std::size_t bytes);
// Called when a counted storage has freed so many bytes, and lives on.
void count_freed(SiteCount& count, std::size_t bytes) noexcept;
// Called when a counted storage ends and frees so many bytes; 0: it has allocated none.
void end_count(SiteCount& count, std::size_t bytes) noexcept;

}  // namespace heddle::ndarray_detail
