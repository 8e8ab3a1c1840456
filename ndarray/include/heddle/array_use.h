// Which arrays, of those that it has not made itself, a piece of code changes or differentiates. For modules
// above this one, which check changes to their own arrays.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

// While an ArrayUse lives, it notes which arrays its thread changes or differentiates. If several live on a
// thread, only the one that was made last takes notes. Threads without an ArrayUse are not slowed down.
class ArrayUse {
 public:
  ArrayUse();
  ~ArrayUse();
  ArrayUse(const ArrayUse&) = delete;
  ArrayUse& operator=(const ArrayUse&) = delete;

  // Arrays whose storage the thread has not made itself while this ArrayUse lived, one for each storage.
  // changed(): arrays that ops write. differentiated(): leaves that operators record.
  const std::vector<NDArray>& changed() const { return changed_; }
  const std::vector<NDArray>& differentiated() const { return differentiated_; }

  // These functions are for the library itself. current() returns null if the thread has no ArrayUse.
  static ArrayUse* current() noexcept { return current_; }
  void made(const Storage& storage) { made_.insert(&storage); }
  void changes(const NDArray& array) { note(array, changed_); }
  void differentiates(const NDArray& leaf) { note(leaf, differentiated_); }

  // While a Pause lives, no ArrayUse of its thread notes anything. For changes that the library makes to
  // arrays of its own.
  class Pause {
   public:
    Pause() : outer_(std::exchange(current_, nullptr)) {}
    ~Pause() { current_ = outer_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ArrayUse* const outer_;
  };

 private:
  void note(const NDArray& array, std::vector<NDArray>& list);
  static thread_local constinit ArrayUse* current_;
  ArrayUse* const outer_;
  // The library call that the thread was in when this ArrayUse was made. Only operators called directly in it
  // are noted: ops that the thread runs meanwhile are in another library call, or in none.
  const CallSite* const site_;
  std::unordered_set<const Storage*> made_;
  std::vector<NDArray> changed_, differentiated_;
};

}  // namespace heddle
