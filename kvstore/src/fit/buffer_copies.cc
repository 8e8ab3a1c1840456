#include "fit/buffer_copies.h"

#include <algorithm>
#include <set>

#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/module_buffers.h>

namespace heddle::fit_detail {
namespace {

bool is_same(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

// A copy, and the array that the network has now.
struct Buffer {
  const BufferCopy* before;
  NDArray now;
  bool is_replaced() const { return !is_same(now, before->value); }
};

std::vector<Buffer> buffers_now(const std::vector<Parameter>& all, const BufferCopies& copies) {
  std::vector<Buffer> found;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto has_name = [&](const Parameter& buffer) { return buffer.name == copies[i].name; };
    const auto at = i < all.size() && has_name(all[i]) ? all.begin() + static_cast<std::ptrdiff_t>(i)
                                                       : std::find_if(all.begin(), all.end(), has_name);
    if (at != all.end()) found.push_back({&copies[i], at->value.detach()});
  }
  return found;
}

// The memory of parameters, and of buffers that have the arrays that they had.
std::set<const Storage*> kept_storages(const Module& net, const std::vector<Parameter>& all,
                                       const std::vector<Buffer>& buffers) {
  std::set<const Storage*> kept;
  for (const Parameter& one : net.state())
    if (std::none_of(all.begin(), all.end(),
                     [&](const Parameter& buffer) { return buffer.name == one.name; }))
      kept.insert(one.value.storage().get());
  for (const Buffer& one : buffers)
    if (!one.is_replaced()) kept.insert(one.now.storage().get());
  return kept;
}

// Calls use(copy, array that the network has now) for each buffer that has changed and can be written.
template <class Use>
void for_each_changed(const Module& net, const BufferCopies& copies, const GivenArrays& given, Use use) {
  const std::vector<Parameter> all = all_buffers_of(net);
  const std::vector<Buffer> buffers = buffers_now(all, copies);
  std::set<const Storage*> kept;
  if (std::any_of(buffers.begin(), buffers.end(), [](const Buffer& one) { return one.is_replaced(); }))
    kept = kept_storages(net, all, buffers);
  for (const Buffer& one : buffers) {
    const Storage& storage = *one.now.storage();
    const bool has_changed =
        one.is_replaced() ? !kept.contains(&storage) : storage.version() != one.before->version;
    if (has_changed && can_put_back(one.now, one.before->copy, given)) use(one.before->copy, one.now);
  }
}

}  // namespace

BufferCopies copies_of_buffers(const Module& net, const BufferCopies& last) {
  BufferCopies all;
  for (const Parameter& one : all_buffers_of(net)) {
    const NDArray value = one.value.detach();
    const std::uint64_t version = value.storage()->version();
    const std::size_t at = all.size();
    const bool is_known = at < last.size() && last[at].name == one.name && last[at].version == version &&
                          is_same(last[at].value, value);
    all.push_back(is_known ? last[at] : BufferCopy{one.name, value, value.copy(), version});
  }
  return all;
}

bool can_put_back(const NDArray& value, const NDArray& copy, const GivenArrays& given) {
  return value.shape() == copy.shape() && value.dtype() == copy.dtype() && !value.overlaps_itself() &&
         !given.has(value);
}

void put_back(const Module& net, const BufferCopies& copies, const GivenArrays& given) {
  for_each_changed(net, copies, given, [](const NDArray& copy, const NDArray& value) {
    value.engine().clear_error(value.var(), CallSite::current());
    value.assign(copy);
  });
}

void put_back_if(const Module& net, const NDArray& condition, const BufferCopies& copies,
                 const GivenArrays& given) {
  for_each_changed(net, copies, given, [&](const NDArray& copy, const NDArray& value) {
    const Device device = value.device();
    const NDArray here = condition.device() == device ? condition : condition.copy_to(device);
    value.assign(where(here, copy, value));
  });
}

}  // namespace heddle::fit_detail
