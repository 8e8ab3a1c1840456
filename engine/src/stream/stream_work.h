// Whether the calling thread does what an op has enqueued on a stream: it belongs to that op, but nobody can say to which.
#pragma once

namespace heddle::detail {

// While one lives, the calling thread does the work of a stream.
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
