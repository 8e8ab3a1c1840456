// The whole threaded engine: the product's own sources as one translation unit on Relacy's atomics. Op memory
// comes from Relacy, which reports ops that are used after their end or never freed; op_memory_model.cc
// covers op_memory.cc.
#pragma once

#include "relacy_threads.h"

#define std model_std
#define private public  // models read private state at the end
#define thread_local
#define worker_context worker_contexts[model::thread_index()]
#define this_thread_state this_thread_states[model::thread_index()]
#define this_thread_blocked this_threads_blocked[model::thread_index()]
#define __builtin_ia32_pause model::step

#include <product/base/fork.h>
#include <product/base/log.h>
#include <product/op/op_memory.h>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/parallel.h>
#include <heddle/stream_ops.h>

namespace heddle::detail {

// Replaces a thread-local variable of fence.cc.
template <class Line> Line* lines_of[model::kMostThreads] = {};
template <class Line> Line*& line_of_thread() { return lines_of<Line>[model::thread_index()]; }

inline constinit std::atomic<std::uint32_t> forks{0};
inline ForkMutex::ForkMutex() {}
inline ForkMutex::ForkMutex(AroundEngines) {}
inline HeldDuringFork::HeldDuringFork(SubmissionQueue& queue) : queue_(queue) {}
inline HeldDuringFork::~HeldDuringFork() {}

inline void log(const std::string&) noexcept {}
inline constinit std::atomic<bool> checking{false};

struct EngineCore;
class OpScheduler;
inline std::unique_ptr<OpScheduler> make_naive_scheduler(EngineCore&);
inline std::unique_ptr<OpScheduler> make_fuzz_scheduler(EngineCore&);

inline void* op_allocate(std::size_t bytes) {
  auto* memory = static_cast<std::size_t*>(::operator new(bytes + kOpAlign));
  *memory = bytes;
  return reinterpret_cast<std::byte*>(memory) + kOpAlign;
}
inline void op_free(void* op, std::size_t, bool) noexcept {
  void* memory = static_cast<std::byte*>(op) - kOpAlign;
  model::cells.freed(op, *static_cast<std::size_t*>(memory));
  ::operator delete(memory);
}
inline void op_memory_flush() noexcept {}
inline void op_memory_trim() noexcept {}

}  // namespace heddle::detail

#include <product/trace/trace.h>

namespace heddle::trace {
inline std::uint32_t next_engine() noexcept { return 1; }
inline std::uint32_t this_thread_lane() noexcept { return 0; }
inline void op_ran(std::uint32_t, const TraceOp&, Tick, Tick) noexcept {}
inline void graph_op_ran(std::uint32_t, const TraceOp&, Tick, Tick) noexcept {}
inline void push_blocked(std::uint32_t, const TraceOp&, Tick, Tick) noexcept {}
inline void op_issued(std::uint32_t, const TraceOp&, Tick, Tick) noexcept {}
inline void op_completed(std::uint32_t, const TraceOp&, Tick, Tick) noexcept {}
inline void waited(const char*, std::uint32_t, std::uint64_t, std::uint64_t, Tick, Tick) noexcept {}
inline void start_from_environment() noexcept {}
}  // namespace heddle::trace

#include <product/engine_sources.inc>

namespace heddle::detail {

inline std::unique_ptr<OpScheduler> make_naive_scheduler(EngineCore&) { return nullptr; }
inline std::unique_ptr<OpScheduler> make_fuzz_scheduler(EngineCore&) { return nullptr; }

inline void Budget::acquire_interruptibly(std::size_t bytes, void (*)()) { acquire(bytes); }
inline void Budget::wait_briefly(std::condition_variable&, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  lock.lock();
}

// Resets the thread-local state: a failed schedule leaves its threads unfinished, and the next schedule would
// find their state.
inline void forget_threads() {
  for (auto& one : ThreadedScheduler::worker_contexts) one = {};
  for (auto& one : this_thread_states) one = {};
  for (auto& one : this_threads_blocked) one = 0;
  for (auto*& line : lines_of<std::deque<std::function<void()>>>) line = nullptr;
  for (bool& one : in_work) one = false;
  Recorder::current = nullptr;
}

}  // namespace heddle::detail

#include "no_cores.h"

#undef std
#undef private
#undef thread_local
#undef worker_context
#undef this_thread_state
#undef this_thread_blocked
#undef __builtin_ia32_pause
