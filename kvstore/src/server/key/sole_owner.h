// Tells whether memory that other threads have read, to send or to write it, may be changed in place.
#pragma once

#include <memory>

namespace heddle::kv_detail {

// True if only the `holders` hold the memory. They belong to the calling thread, which alone makes new ones.
// use_count() does not synchronise with the last reads of a thread that has released its pointer. Copying and
// resetting a pointer does: the decrement of the count acquires what earlier decrements have released.
template <class T> bool is_held_only_by(long holders, const std::shared_ptr<T>& memory) {
  if (memory.use_count() > holders) return false;
  std::shared_ptr<T>(memory).reset();
  return true;
}

}  // namespace heddle::kv_detail
