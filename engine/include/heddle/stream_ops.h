// Ops on streams: engine.push_on(stream, fn, access). fn only enqueues work on its stream and returns; the op is done
// when that work has run. docs/streams.md tells what other ops wait for.
//
//   heddle::Stream& copies = engine.stream(heddle::gpu(0), heddle::Lane::copy_in);
//   engine.push_on(copies, [=](heddle::Stream& stream) { stream.copy(to, from, bytes); }, {.mutate = {data}});
//   engine.push([=] { use(to); }, {.read = {data}});
#pragma once

#include <type_traits>
#include <utility>

#include <heddle/engine.h>
#include <heddle/stream.h>

namespace heddle {
namespace detail {

Stream& stream_of(const OpNode* op);

template <class F> struct StreamOp {
  F fn;
  static void run(void* self, RunContext& context, OpNode* op) {
    F& fn = static_cast<StreamOp*>(self)->fn;
    if constexpr (std::is_invocable_v<F&, RunContext&, Stream&>) {
      fn(context, stream_of(op));
    } else {
      static_assert(std::is_invocable_v<F&, Stream&>,
                    "an op on a stream is callable as fn(Stream&) or fn(RunContext&, Stream&)");
      fn(stream_of(op));
    }
  }
  static void destroy(void* self) noexcept { static_cast<StreamOp*>(self)->~StreamOp(); }
  static void destroy_heap(void* self) noexcept { delete static_cast<StreamOp*>(self); }
  static constexpr OpTable table{false,
                                 run,
                                 std::is_trivially_destructible_v<F> ? nullptr : destroy,
                                 destroy_heap,
                                 true,
                                 skipper<StreamOp, F>(),
                                 false,
                                 ender<StreamOp, F>(),
                                 replayer<StreamOp, F>()};
};

}  // namespace detail

template <class F>
void Engine::push_on(Stream& stream, F&& fn, const Access& access, std::source_location where) {
  detail::StreamLane& lane = lane_of(stream);
  submit_on(lane, make_op<detail::StreamOp<std::decay_t<F>>>(std::forward<F>(fn), access, where));
}

}  // namespace heddle
