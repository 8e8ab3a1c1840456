// Pushes ops on arrays: the access list follows from the arrays, and the op's function works on raw memory.
#pragma once

#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include <heddle/call_site.h>
#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// The access list of an op that reads and writes these arrays. A written array that does not cover its whole
// storage keeps the rest of it, so its var is listed as read too (an error there is not overwritten). Also
// bumps the versions of the written storages. Throws InvalidArgument if the arrays belong to several engines.
Access array_access(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes);

namespace ndarray_detail {
// Whether a loop over the elements of these arrays takes about a microsecond at most.
bool is_brief(std::span<const NDArray> arrays);

// Pushes fn as an op on the compute stream of a GPU.
void push_on_gpu(Engine& engine, Device device, const std::function<void(Stream&)>& fn, const Access& access,
                 std::source_location where);
template <class F>
void push_for(Engine& engine, Device device, F&& fn, const Access& access, std::source_location where) {
  if constexpr (std::is_invocable_v<std::decay_t<F>&, Stream&>) {
    if (device.kind == DeviceKind::cuda) [[unlikely]]
      return push_on_gpu(engine, device, std::forward<F>(fn), access, where);
  }
  engine.push(std::forward<F>(fn), access, where);
}
}  // namespace ndarray_detail

// The duration of an op: unknown, or about that of a loop over the elements of its arrays. Few elements make
// it Access::brief.
enum class OpCost { unknown, per_element };

// array_push("scale", {x}, {y}, [=] { ... x.data<float>() ... });
// fn takes nothing, a RunContext& or a const KernelContext&. It captures the arrays that it uses by value
// (detached: x.detach()), which keeps their memory alive. With a KernelContext it is copyable, and runs on
// the compute stream of the arrays' GPU if they are on one. The op belongs to the arrays' engine; throws
// InvalidArgument as array_access does. The op names the outermost library call (call_site.h) or, outside of
// any, `where`.
template <class F>
void array_push(const char* name, OpCost cost, std::initializer_list<NDArray> reads,
                std::initializer_list<NDArray> writes, F&& fn, Where where = Where::current()) {
  const std::span<const NDArray> sources(reads.begin(), reads.size()), targets(writes.begin(), writes.size());
  Access access = array_access(name, sources, targets);
  access.brief =
      cost == OpCost::per_element && ndarray_detail::is_brief(sources) && ndarray_detail::is_brief(targets);
  const NDArray* first = writes.size() ? writes.begin() : reads.size() ? reads.begin() : nullptr;
  ndarray_detail::push_for(first ? first->engine() : current_engine(), first ? first->device() : cpu(),
                           std::forward<F>(fn), access, CallSite::current(where));
}
template <class F>
void array_push(const char* name, std::initializer_list<NDArray> reads, std::initializer_list<NDArray> writes,
                F&& fn, Where where = Where::current()) {
  array_push(name, OpCost::unknown, reads, writes, std::forward<F>(fn), where);
}

}  // namespace heddle
