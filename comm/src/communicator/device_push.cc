// Calls on arrays of a device. Each is one op on the device's communication lane, which mutates the communicator's var:
// such calls start in program order, and all other calls of the communicator come before or after them, on every rank
// alike. The communicators of a device share its lane. If ranks started the calls of two communicators in different
// orders, each would wait behind a call that another rank has not started. All calls on a lane therefore mutate a
// second var.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <heddle/graph.h>
#include <heddle/stream_ops.h>

#include "arrays/issuing.h"
#include "communicator/call_tags.h"
#include "communicator/comm_state.h"
#include "device/stream_calls.h"

namespace heddle::comm_detail {
namespace {

std::byte* address(const NDArray& array, check::AccessKind touch) {
  return array.storage()->device_data(touch, &array) +
         array.offset() * static_cast<std::ptrdiff_t>(size_of(array.dtype()));
}

// The var that keeps calls on this lane in order: the calls of all communicators mutate it.
std::shared_ptr<const Var> order_of(Engine& engine, const Stream& lane) {
  static std::mutex mutex;  // guards orders; held while the engine makes a var
  // The map is never destroyed, since destructors of static objects may use it.
  static auto* orders = new std::map<const Stream*, std::weak_ptr<const Var>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*orders, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<const Var> order = (*orders)[&lane].lock();
  if (!order) (*orders)[&lane] = order = std::make_shared<const Var>(engine.new_var());
  return order;
}

}  // namespace

// The op of a call. The engine calls outcome() when the work on the device has ended, and skipped() if the
// work will not begin.
struct DeviceOp {
  std::shared_ptr<CommState> state;
  std::shared_ptr<DeviceCall> call;

  StreamCalls& calls() const { return *state->backend().stream_calls(); }
  void operator()(Stream& stream) const {
    // Memory that the call needs first is taken on this stream, and freed behind the compute stream's work as all other.
    std::optional<ndarray_detail::IssuingOn> scope;
    if (stream.device().kind == DeviceKind::cuda)
      scope.emplace(stream, state->engine().stream(stream.device()));
    Collective& what = call->what;
    if (call->in.defined()) what.in = address(call->in, check::AccessKind::read);
    if (call->out.defined()) what.out = address(call->out, check::AccessKind::write);
    calls().issue(*call, stream);
  }
  std::exception_ptr outcome(const std::exception_ptr& failure) const noexcept {
    std::exception_ptr error = calls().ended(*call, failure);
    state->queue_.end_device_call();
    return error;
  }
  void skipped(const std::exception_ptr& why) const noexcept {
    calls().lost(*call, why);
    state->queue_.end_device_call();
  }
};

void CommState::push_on_device(Collective what, const NDArray& in, const NDArray& out,
                               std::source_location where) {
  check_process();
  if (is_capturing())
    throw Error(
        "a collective of arrays on a GPU while this thread captures a graph: it cannot be captured; make the "
        "call outside the capture");
  auto call = std::make_shared<DeviceCall>();
  call->what = std::move(what);
  CallTags::apply(&calls_var_, call->what.record);
  if (in.defined()) call->in = in.detach();
  if (out.defined()) call->out = out.detach();
  Access access = access_of(call->what, in, out, outcome_);
  access.mutate.add(calls_var_);
  Stream& stream = engine().stream(backend_->stream_calls()->device(), Lane::communication);
  std::call_once(device_order_made_, [&] { device_order_ = order_of(engine(), stream); });
  access.mutate.add(*device_order_);
  queue_.begin_device_call();
  try {
    engine().push_on(stream, DeviceOp{shared_from_this(), std::move(call)}, access, where);
  } catch (...) {
    queue_.end_device_call();
    throw;
  }
}

}  // namespace heddle::comm_detail
