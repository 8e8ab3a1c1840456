#include "exchange/gpu_order.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <heddle/gpu_event.h>
#include <heddle/stream_ops.h>
#include <heddle/var_use.h>

namespace heddle {
namespace {

using namespace std::chrono_literals;

constexpr int kSpins = 200;
constexpr std::chrono::microseconds kPoll{50};

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
  while (!is_issued() && !engine.wait_until(done, std::chrono::steady_clock::now() + kPoll)) {
  }
}

// Whether ops on the array may still be under way, as far as this thread has to care: an op that has declared the array
// runs when they have ended.
bool needs_order(const NDArray& array) {
  return use_by_this_op(array.var()) == VarUse::none && !is_idle(array.var());
}

}  // namespace

namespace ndarray_detail {

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
  if (!needs_order(array)) return;
  const auto event = std::make_shared<GpuEvent>(array.device());
  issue_after_all(array, event);
  event->hold(stream.native);
}

void order_after(const NDArray& array, DLPackStream stream, Where where) {
  const CallSite site(where);
  ndarray_detail::check_on_gpu("order_after", array);
  Engine& engine = array.engine();
  const auto event = std::make_shared<GpuEvent>(array.device());
  event->record(stream.native);
  engine.push_on(
      engine.stream(array.device()), [event](Stream& compute) { event->hold(compute.native()); },
      {.read = {array.var()}, .mutate = {array.var()}, .name = "order of streams"}, CallSite::current());
}

DLPackStream ordered_stream(const NDArray& array, Where where) {
  const CallSite site(where);
  ndarray_detail::check_on_gpu("ordered_stream", array);
  if (needs_order(array)) issue_after_all(array, nullptr);
  return {array.engine().stream(array.device()).native()};
}

}  // namespace heddle
