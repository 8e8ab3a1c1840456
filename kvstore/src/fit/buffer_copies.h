// Copies of what forward() changes, such as running statistics, from before a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/module.h>

#include "fit/given_arrays.h"

namespace heddle::fit_detail {

struct BufferCopy {
  std::string name;
  NDArray value, copy;
  std::uint64_t version = 0;  // that the value had when it was copied
};
using BufferCopies = std::vector<BufferCopy>;

// Copies of all buffers, also of those that are not saved. A buffer that has not changed since it was copied for `last` keeps that
// copy.
BufferCopies copies_of_buffers(const Module& net, const BufferCopies& last);

// Whether `copy`, of a buffer that now is `value`, can be written there: not if the shape or dtype is another one, if elements share
// memory, or if the memory is that of an array that the data have given.
bool can_put_back(const NDArray& value, const NDArray& copy, const GivenArrays& given);

// Puts back what has changed since. The buffers of the network are found by name: forward() may have put another array in the place
// of one. It stays as it is if it cannot be written, or is a parameter or another buffer. Errors of what is put back are cleared.
void put_back(const Module& net, const BufferCopies& copies, const GivenArrays& given);
// The same where `condition`, a boolean of no axes, is true. Ops do it, and errors stay.
void put_back_if(const Module& net, const NDArray& condition, const BufferCopies& copies,
                 const GivenArrays& given);

}  // namespace heddle::fit_detail
