// The stream that the running op on a GPU enqueues on: memory that the op needs first is taken on it.
#pragma once

#include <heddle/stream.h>

namespace heddle::ndarray_detail {

// Says so for this thread, as long as the object lives. `owner`: the compute stream of the same device, behind whose
// work arrays free their memory (Storage).
class IssuingOn {
 public:
  IssuingOn(Stream& stream, Stream& owner);
  ~IssuingOn();
  IssuingOn(const IssuingOn&) = delete;
  IssuingOn& operator=(const IssuingOn&) = delete;

  Stream& stream;
  Stream& owner;
  static const IssuingOn* current();  // null outside

 private:
  const IssuingOn* const outer_;
};

}  // namespace heddle::ndarray_detail
