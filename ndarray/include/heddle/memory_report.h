// Which lines of a program hold the memory of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include <heddle/storage.h>

namespace heddle {

// Whether new arrays are counted by the line that made them, from now on. Off at first, unless the variable
// HEDDLE_MEMORY_SITES is 1: it takes a lock and a look-up for each new array. Thread-safe.
void track_memory(bool on);

struct MemorySite {
  std::source_location where;  // of the outermost library call; line 0: not known
  std::int64_t arrays = 0;     // that own memory and live; their views are not counted
  std::size_t bytes = 0;       // of them; memory is taken when an array is computed
  std::size_t peak = 0;        // most bytes that this line held at once
  std::size_t at_peak = 0;     // bytes that this line held when all lines together held most
};

struct MemoryReport {
  AllocatorStats allocator{};
  std::int64_t arrays = 0;          // of all sites
  std::size_t bytes = 0, peak = 0;  // now, and at most; of arrays that are counted by line
  std::vector<MemorySite>
      sites{};  // most bytes first; lines that hold nothing and held nothing at the peak are left out
  // A table for people: a line a site, of which at most `most`.
  std::string to_string(std::size_t most = 20) const;
};

// Ops that run meanwhile may be counted or not: wait for them first. Thread-safe.
MemoryReport memory_report();
void reset_memory_peak();  // all peaks are what is held now

}  // namespace heddle
