#include "fit/buffer_copies.h"

#include <heddle/elementwise.h>
#include <heddle/module_buffers.h>

namespace heddle::fit_detail {
namespace {

bool is_same(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

}  // namespace

BufferCopies copies_of_buffers(const Module& net, const BufferCopies& last) {
  BufferCopies all;
  for (const Parameter& one : buffers_of(net)) {
    const NDArray value = one.value.detach();
    const std::uint64_t version = value.storage()->version();
    const std::size_t at = all.size();
    const bool is_known = at < last.size() && last[at].version == version && is_same(last[at].value, value);
    all.push_back(is_known ? last[at] : BufferCopy{value, value.copy(), version});
  }
  return all;
}

void put_back(const BufferCopies& copies) {
  for (const BufferCopy& one : copies) one.value.assign(one.copy);
}

void put_back_if(const NDArray& condition, const BufferCopies& copies) {
  for (const BufferCopy& one : copies) {
    if (one.value.storage()->version() == one.version) continue;
    const Device device = one.value.device();
    const NDArray here = condition.device() == device ? condition : condition.copy_to(device);
    one.value.assign(where(here, one.copy, one.value));
  }
}

}  // namespace heddle::fit_detail
