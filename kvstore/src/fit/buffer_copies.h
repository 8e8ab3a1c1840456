// Copies of what forward() changes, such as running statistics, from before a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle::fit_detail {

struct BufferCopy {
  std::string name;
  NDArray value, copy;
  std::uint64_t version = 0;  // that the value had when it was copied
};
using BufferCopies = std::vector<BufferCopy>;

// Copies of all saved buffers. A buffer that has not changed since it was copied for `last` keeps that copy.
BufferCopies copies_of_buffers(const Module& net, const BufferCopies& last);

// The buffers of the network are found by name: forward() may have put another array in the place of one. An array of another
// shape or dtype than before the step stays as it is.
void put_back(const Module& net, const BufferCopies& copies);
// Puts back what has changed since, where `condition`, a boolean of no axes, is true. Ops do it.
void put_back_if(const Module& net, const NDArray& condition, const BufferCopies& copies);

}  // namespace heddle::fit_detail
