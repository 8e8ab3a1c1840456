// Tells whether memory that other threads have read, to send or to write it, may be changed in place.
#pragma once

#include <memory>

namespace heddle::kv_detail {

// True if nobody but `holders` pointers of the calling thread hold the memory. Only this thread makes new
// pointers to it. use_count() does not synchronise with the last reads of a thread that has released its
// pointer. So the function copies and resets a pointer: the decrement of the count acquires what earlier
// decrements have released.
template <class T> bool is_held_only_by(long holders, const std::shared_ptr<T>& memory) {
  if (memory.use_count() > holders) return false;
  std::shared_ptr<T>(memory).reset();
  return true;
}

}  // namespace heddle::kv_detail
