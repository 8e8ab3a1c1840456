#include "communicator/call_runner.h"

#include <string>

#include "communicator/fusion.h"
#include "core/failure.h"

namespace heddle::comm_detail {

std::exception_ptr CallRunner::run(std::span<const std::shared_ptr<Call>> calls) {
  try {
    if (calls.size() > 1) {
      run_fused(calls, backend_, fused_);
    } else {
      backend_.run(calls.front()->what);
    }
    return nullptr;
  } catch (...) {
    return error_of_failed(std::current_exception());
  }
}

void CallRunner::run(Collective& what) {
  try {
    backend_.run(what);
  } catch (...) {
    std::rethrow_exception(error_of_failed(std::current_exception()));
  }
}

std::exception_ptr CallRunner::error_of_failed(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const RemoteFailure&) {
    return thrown;  // this call alone has failed
  } catch (...) {
  }
  // Errors from before the back end was called, such as bad_alloc, abort the back end too, since the other ranks
  // wait for this one.
  backend_.abort("rank " + std::to_string(backend_.rank()) + " failed: " + message_of(thrown));
  // All calls end with the same error object, because the engine reports an error that nobody waits for only
  // once per object.
  if (!first_error_) first_error_ = thrown;
  return first_error_;
}

}  // namespace heddle::comm_detail
