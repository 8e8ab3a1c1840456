// Whether the calling thread does work of a stream. Such work belongs to the op that enqueued it, but the thread does
// not know which op that is.
#pragma once

namespace heddle::detail {

// While an InStreamWork lives, its thread does the work of a stream.
class InStreamWork {
 public:
  InStreamWork() noexcept;
  ~InStreamWork();
  InStreamWork(const InStreamWork&) = delete;
  InStreamWork& operator=(const InStreamWork&) = delete;

  static bool here() noexcept;

 private:
  const bool outer_;
};

}  // namespace heddle::detail
