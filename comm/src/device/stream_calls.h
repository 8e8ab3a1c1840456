// Collectives that a device carries out itself, on arrays that lie there: ops on its communication lane, in the order of the
// program, so that each rank starts them in the same one. Nobody carries a call; a thread only looks after those that are
// under way, and tells and hears over the control connections what the device's library does not say.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/call_numbers.h"
#include "core/recorder.h"
#include "device/device_ranks.h"
#include "tcp/tcp_transport.h"

namespace heddle::comm_detail {

struct DeviceCall {
  Collective what;
  NDArray in{}, out{};
  // StreamCalls':
  std::size_t entry = 0;
  std::chrono::steady_clock::time_point begun{};
  bool numbered = false;
};

// issue, ended and lost are called for one op at a time, in the order of the ops.
class StreamCalls {
 public:
  // All outlive it but `ranks`, which has been joined.
  StreamCalls(MeshTransport& control, CallNumbers& numbers, Recorder& recorder,
              std::unique_ptr<DeviceRanks> ranks, Device device, int index,
              std::chrono::milliseconds timeout);
  // Leaves. No call is under way.
  ~StreamCalls();
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;

  Device device() const { return device_; }
  int index() const { return index_; }  // of the device, as DeviceLibrary counts

  // In the call's op: starts it on the stream. May wait until the other ranks have come to the call, where ranks connect
  // for the first call of a kind. Throws why the communicator is of no use any more.
  void issue(DeviceCall& call, Stream& stream);
  // The call's work has run, or will not: `failure` is why, as far as that is known. What went wrong; null: nothing.
  std::exception_ptr ended(DeviceCall& call, const std::exception_ptr& failure) noexcept;
  // The op will not run. That ends the communicator, for a device cannot send words instead of data.
  void lost(DeviceCall& call, const std::exception_ptr& why) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void begin(DeviceCall& call);
  void give_up(const CallRecord& call, const char* what, const std::exception_ptr& why);
  void check() const;
  void watch();
  void tell(const CallRecord& oldest, const CallRecord& latest);
  void look(const CallRecord& oldest);
  void look_for_leavers(const CallRecord& call);
  void end_ranks() noexcept;

  MeshTransport& control_;
  CallNumbers& numbers_;
  Recorder& recorder_;
  const Device device_;
  const int index_;
  const std::chrono::milliseconds timeout_;
  std::uint64_t history_ = 0;  // of the issuing thread
  std::mutex ranks_mutex_;     // guards the two below; nothing is locked under it but what FaultState locks
  std::unique_ptr<DeviceRanks> ranks_;
  bool aborted_ = false;
  // Of the watching thread: since when it knows that a partner has left, what it has told of and when.
  Clock::time_point left_since_{}, told_at_{};
  std::uint64_t told_oldest_ = 0, told_latest_ = 0;
  std::mutex mutex_;  // guards the rest; nothing is locked under it
  std::condition_variable wake_;
  std::deque<DeviceCall*> under_way_;
  CallRecord latest_;  // of those that all ranks make
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace heddle::comm_detail
