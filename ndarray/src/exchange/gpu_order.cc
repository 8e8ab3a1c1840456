#include "exchange/gpu_order.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <heddle/gpu_event.h>
#include <heddle/graph.h>
#include <heddle/interrupt_check.h>
#include <heddle/memory_hold.h>
#include <heddle/stream_ops.h>
#include <heddle/var_use.h>

namespace heddle {
namespace {

using namespace std::chrono_literals;

constexpr int kSpins = 200;
constexpr std::chrono::microseconds kPoll{50};
constexpr std::chrono::milliseconds kBetweenChecks{50};

using Clock = std::chrono::steady_clock;

// Pushes an op on the compute stream that comes after all ops on the array, and blocks until it is issued. It records the event,
// if there is one.
void issue_after_all(const NDArray& array, const std::shared_ptr<GpuEvent>& event) {
  Engine& engine = array.engine();
  const Var done = engine.new_var();
  const auto issued = std::make_shared<std::atomic<bool>>(false);
  engine.push_on(
      engine.stream(array.device()),
      [event, issued](Stream& stream) {
        if (event) event->record(stream.native());
        issued->store(true, std::memory_order_release);
      },
      {.read = {array.var()}, .mutate = {array.var(), done}, .name = "order of streams"},
      CallSite::current());
  const auto is_issued = [&] { return issued->load(std::memory_order_acquire); };
  if (engine.options().scheduler != Scheduler::threaded) return engine.wait(done);
  for (int i = 0; i < kSpins && !is_issued(); ++i) std::this_thread::yield();
  // An error of an earlier op ends the wait, since this op is skipped then.
  Clock::time_point next_check = Clock::now() + kBetweenChecks;
  while (!is_issued() && !engine.wait_until(done, Clock::now() + kPoll)) {
    if (Clock::now() < next_check) continue;
    check_interrupt();
    next_check = Clock::now() + kBetweenChecks;
  }
}

void check_is_stream(const char* call, DLPackStream stream) {
  if (stream.native == kNoOrder.native)
    throw InvalidArgument(std::string(call) + ": -1 is no stream; it is for to_dlpack and from_dlpack");
}

// Whether ops on the array may still be under way, as far as this thread has to care: an op that has declared the array
// runs when they have ended.
bool needs_order(const NDArray& array) {
  return use_by_this_op(array.var()) == VarUse::none && !is_idle(array.var());
}

// Pushes an op on the compute stream that lets its later work wait for the event, if there is one, and holds the memory until that
// has run.
void push_hold(Engine& engine, Device device, const std::shared_ptr<GpuEvent>& event,
               const std::shared_ptr<const void>& memory, Access access) {
  access.name = "end of a loan";
  engine.push_on(
      engine.stream(device),
      [event, memory](Stream& compute) {
        if (event) event->hold(compute.native());
      },
      access);
}

}  // namespace

namespace ndarray_detail {

void end_behind(LentMemory lent, DLPackStream stream) noexcept {
  try {
    const std::shared_ptr<Storage>& storage = lent.array.storage();
    Engine* const engine = storage->engine_if_alive();
    const bool works = engine && !has_ended(*engine) && !is_capturing();
    std::shared_ptr<GpuEvent>
        event;  // none for work on the compute stream itself, behind which the memory is freed anyway
    if (!works || engine->stream(lent.device).native() != stream.native) {
      event = std::make_shared<GpuEvent>(lent.device);
      if (!event->try_record(stream.native) && !event->try_record(kLegacyStream.native)) return;
      if (!works) return event->wait();
      // Not with the array's var: if that is poisoned, the op would be skipped, and the memory freed at once.
      push_hold(*engine, lent.device, event, lent.memory, {});
    }
    const bool used_elsewhere =
        storage.use_count() > 2;  // by others than the array of the loan and what holds its memory
    if (used_elsewhere && holds_memory_of(lent.memory, *storage)) {
      const Var& var = lent.array.var();
      push_hold(*engine, lent.device, event, lent.memory, {.read = {var}, .mutate = {var}});
    }
  } catch (...) {  // the GPU is lost, or memory: nothing can be ordered any more
  }
}

void check_on_gpu(const char* call, const NDArray& array) {
  if (!array.defined()) refuse_undefined(call);
  if (array.device().kind == DeviceKind::cuda) return;
  throw InvalidArgument(std::string(call) + ": the array is on " + array.device().to_string() +
                        "; streams are for arrays of a GPU");
}

}  // namespace ndarray_detail

void order_before(const NDArray& array, DLPackStream stream, Where where) {
  const CallSite site(where);
  ndarray_detail::check_on_gpu("order_before", array);
  check_is_stream("order_before", stream);
  if (!needs_order(array)) return;
  const auto event = std::make_shared<GpuEvent>(array.device());
  issue_after_all(array, event);
  event->hold(stream.native);
}

void order_after(const NDArray& array, DLPackStream stream, Where where) {
  const CallSite site(where);
  ndarray_detail::check_on_gpu("order_after", array);
  check_is_stream("order_after", stream);
  Engine& engine = array.engine();
  Stream& compute = engine.stream(array.device());
  std::shared_ptr<GpuEvent> event;
  if (compute.native() != stream.native) {
    event = std::make_shared<GpuEvent>(array.device());
    event->record(stream.native);
  }
  engine.push_on(
      compute,
      [event](Stream& on) {
        if (event) event->hold(on.native());
      },
      {.read = {array.var()}, .mutate = {array.var()}, .name = "order of streams"}, CallSite::current());
}

DLPackStream ordered_stream(const NDArray& array, Where where) {
  const CallSite site(where);
  ndarray_detail::check_on_gpu("ordered_stream", array);
  if (needs_order(array)) issue_after_all(array, nullptr);
  return {array.engine().stream(array.device()).native()};
}

}  // namespace heddle
