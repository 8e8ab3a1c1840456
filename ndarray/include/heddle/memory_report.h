// Which lines of a program hold the memory of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include <heddle/storage.h>

namespace heddle {

// Turns on or off that new arrays are counted by the line that made them. Off by default, unless the variable
// HEDDLE_MEMORY_SITES is 1, since it takes a lock and a look-up for each new array. Thread-safe.
void track_memory(bool on);

struct MemorySite {
  std::source_location where;  // outermost library call that made the arrays; line 0: not known
  std::string label{};         // of arrays made under a MemoryLabel (memory_label.h), which have no line
  std::int64_t arrays = 0;     // live arrays that own memory, without their views
  std::size_t bytes = 0;       // bytes of these arrays, which get memory only when they are computed
  std::size_t peak = 0;        // most bytes that this line held at once
  std::size_t at_peak = 0;     // bytes that this line held when all lines together held most
};

struct MemoryReport {
  AllocatorStats allocator{};
  std::int64_t arrays = 0;          // live arrays of all sites
  std::size_t bytes = 0, peak = 0;  // bytes of all sites, now and at most
  // The lines with most bytes come first. Lines that hold nothing now and held nothing at the peak are left out, and
  // labels that held nothing since it was reset.
  std::vector<MemorySite> sites{};
  // A table with one line for each site, at most `most`.
  std::string to_string(std::size_t most = 20) const;
};

// The memory of ops in flight may or may not be counted: wait for them first. Thread-safe.
MemoryReport memory_report();
void reset_memory_peak();  // sets the peaks of all sites, and of their sum, to the bytes held now

}  // namespace heddle
