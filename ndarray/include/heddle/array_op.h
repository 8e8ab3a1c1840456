// Pushes ops on arrays: the access list follows from the arrays, and the op's function works on raw memory.
#pragma once

#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/graph.h>
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

// Counts how many handles the closure of a captured op holds on its arrays' memory. The graph returns memory on which
// nobody else holds a handle to the allocator at its last use in each launch. Made before the closure is copied.
class ClosureHandles {
 public:
  ClosureHandles(std::span<const NDArray> reads, std::span<const NDArray> writes);
  ~ClosureHandles();
  ClosureHandles(const ClosureHandles&) = delete;
  ClosureHandles& operator=(const ClosureHandles&) = delete;
  void add_copy() const;  // call while one more copy of the closure exists

 private:
  struct Counted;
  std::vector<Counted> counted_;
};
template <class F>
void count_handles(const F& fn, std::span<const NDArray> reads, std::span<const NDArray> writes) {
  if constexpr (std::is_copy_constructible_v<F>) {  // else memory that the closure holds stays with its array
    const ClosureHandles handles(reads, writes);
    const F copy(fn);
    handles.add_copy();
  }
}

// Pushes fn as an op on the compute stream of a GPU. `memory`: where its work is found if a graph may record that and it
// depends on nothing else that may change; else empty.
using Storages = std::vector<std::shared_ptr<Storage>>;
void push_on_gpu(Engine& engine, Device device, const std::function<void(Stream&)>& fn, const Access& access,
                 std::source_location where, Storages memory = {});
template <class F> struct Recordable {
  F fn;
  bool when;
  void operator()(const KernelContext& context) { fn(context); }
};
template <class F> bool is_recordable(const F&) { return false; }
template <class F> bool is_recordable(const Recordable<F>& fn) { return fn.when; }
Storages storages_of(std::span<const NDArray> reads, std::span<const NDArray> writes);
// Pushes fn as an op on these arrays, of which there is one at least: on the CPU, or on the compute stream of their GPU.
template <class F>
void push_for(std::span<const NDArray> reads, std::span<const NDArray> writes, F&& fn, const Access& access,
              std::source_location where) {
  if (is_capturing()) [[unlikely]]
    count_handles<std::decay_t<F>>(fn, reads, writes);
  const NDArray& first = writes.empty() ? reads.front() : writes.front();
  if constexpr (std::is_invocable_v<std::decay_t<F>&, Stream&>) {
    if (first.device().kind == DeviceKind::cuda) [[unlikely]] {
      Storages memory;
      if (is_recordable(fn) && is_capturing()) memory = storages_of(reads, writes);
      return push_on_gpu(first.engine(), first.device(), std::forward<F>(fn), access, where,
                         std::move(memory));
    }
  }
  first.engine().push(std::forward<F>(fn), access, where);
}
}  // namespace ndarray_detail

// An op's function on a GPU whose work is the same whenever the op's arrays have the same memory: launches of a graph may
// record it (docs/streams.md). Not for one that reads what differs from launch to launch, such as slots and random numbers,
// nor for one whose work reports errors of data, or copies from memory of the CPU that does not last. !when: it is not so.
template <class F> auto recordable(F&& fn, bool when = true) {
  return ndarray_detail::Recordable<std::decay_t<F>>{std::forward<F>(fn), when};
}

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
  const std::source_location at = CallSite::current(where);
  if (sources.empty() && targets.empty()) return current_engine().push(std::forward<F>(fn), access, at);
  ndarray_detail::push_for(sources, targets, std::forward<F>(fn), access, at);
}
template <class F>
void array_push(const char* name, std::initializer_list<NDArray> reads, std::initializer_list<NDArray> writes,
                F&& fn, Where where = Where::current()) {
  array_push(name, OpCost::unknown, reads, writes, std::forward<F>(fn), where);
}

}  // namespace heddle
