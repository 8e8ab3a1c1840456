#include "fit/buffer_copies.h"

#include <algorithm>

#include <heddle/elementwise.h>
#include <heddle/module_buffers.h>

namespace heddle::fit_detail {
namespace {

bool is_same(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

// Calls use(copy, array that the network has now) for each buffer.
template <class Use> void for_each_now(const Module& net, const BufferCopies& copies, Use use) {
  const std::vector<Parameter> now = buffers_of(net);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const BufferCopy& one = copies[i];
    const auto has_name = [&](const Parameter& buffer) { return buffer.name == one.name; };
    const auto found = i < now.size() && has_name(now[i]) ? now.begin() + static_cast<std::ptrdiff_t>(i)
                                                          : std::find_if(now.begin(), now.end(), has_name);
    if (found == now.end()) continue;
    const NDArray value = found->value.detach();
    if (value.shape() == one.copy.shape() && value.dtype() == one.copy.dtype()) use(one, value);
  }
}

}  // namespace

BufferCopies copies_of_buffers(const Module& net, const BufferCopies& last) {
  BufferCopies all;
  for (const Parameter& one : buffers_of(net)) {
    const NDArray value = one.value.detach();
    const std::uint64_t version = value.storage()->version();
    const std::size_t at = all.size();
    const bool is_known = at < last.size() && last[at].name == one.name && last[at].version == version &&
                          is_same(last[at].value, value);
    all.push_back(is_known ? last[at] : BufferCopy{one.name, value, value.copy(), version});
  }
  return all;
}

void put_back(const Module& net, const BufferCopies& copies) {
  for_each_now(net, copies, [](const BufferCopy& one, const NDArray& value) { value.assign(one.copy); });
}

void put_back_if(const Module& net, const NDArray& condition, const BufferCopies& copies) {
  for_each_now(net, copies, [&](const BufferCopy& one, const NDArray& value) {
    if (is_same(value, one.value) && value.storage()->version() == one.version) return;
    const Device device = value.device();
    const NDArray here = condition.device() == device ? condition : condition.copy_to(device);
    value.assign(where(here, one.copy, value));
  });
}

}  // namespace heddle::fit_detail
