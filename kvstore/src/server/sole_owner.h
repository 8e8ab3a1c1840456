// Whether memory may be changed in place, which threads that send it, or write it to a disk, have read.
#pragma once

#include <memory>

namespace heddle::kv_detail {

// Nobody holds it but these `holders`, which are the calling thread's, and which alone make new ones. use_count() does not wait for the last
// reads of who has dropped it: they could come after a write that follows. A copy that is dropped does: it decrements the
// count, as they have done, and a decrement acquires what earlier ones have released.
template <class T> bool is_held_only_by(long holders, const std::shared_ptr<T>& memory) {
  if (memory.use_count() > holders) return false;
  std::shared_ptr<T>(memory).reset();
  return true;
}

}  // namespace heddle::kv_detail
