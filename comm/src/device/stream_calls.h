// Collectives on arrays of a device, which the device's library runs: ops on the device's communication lane, in
// program order, so that all ranks start them in the same order. A thread monitors the calls that are under way, and
// detects over the control connections the failures and mismatches that the library does not report.
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
  // StreamCalls alone uses the members from here on. `entry` is the call's entry in the flight recorder.
  std::size_t entry = 0;
  std::chrono::steady_clock::time_point begun{};
  bool numbered = false;
};

// Runs the calls on a device's arrays. issue, ended and lost are called for one op at a time, in the order of
// the ops.
class StreamCalls {
 public:
  // The objects that are passed by reference outlive this one. `ranks` has joined.
  StreamCalls(MeshTransport& control, CallNumbers& numbers, Recorder& recorder,
              std::unique_ptr<DeviceRanks> ranks, Device device, int index,
              std::chrono::milliseconds timeout);
  // Leaves the communicator. No call may be under way.
  ~StreamCalls();
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;

  Device device() const { return device_; }
  int index() const { return index_; }  // the device's index in DeviceLibrary

  // Called by the call's op: starts the call on the stream. May block until the other ranks have started it too, as
  // NCCL connects ranks in the first call of a kind. Throws the communicator's failure.
  void issue(DeviceCall& call, Stream& stream);
  // Called when the call has run on the stream, or failed with `failure`. Returns its error; null: none.
  std::exception_ptr ended(DeviceCall& call, const std::exception_ptr& failure) noexcept;
  // The op was skipped because of `why`. This ends the communicator, for a device cannot send an error instead of data.
  void lost(DeviceCall& call, const std::exception_ptr& why) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void begin(DeviceCall& call);
  void report_failure(const CallRecord& call, const char* what, const std::exception_ptr& why);
  void check() const;
  void monitor();
  void announce(const CallRecord& oldest, const CallRecord& latest);
  void check_device(const CallRecord& oldest);
  void check_left_ranks(const CallRecord& call);
  void finish_ranks() noexcept;

  MeshTransport& control_;
  CallNumbers& numbers_;
  Recorder& recorder_;
  const Device device_;
  const int index_;
  const std::chrono::milliseconds timeout_;
  std::uint64_t history_ = 0;  // hash of all calls on the device so far; used by issue() and lost() alone
  // Guards ranks_ and aborted_; while it is held only the mutex of FaultState is locked.
  std::mutex ranks_mutex_;
  std::unique_ptr<DeviceRanks> ranks_;
  bool aborted_ = false;
  // Four members that the monitoring thread alone uses: when a partner was first seen to have left; which
  // calls were announced, and when.
  Clock::time_point left_since_{}, announced_at_{};
  std::uint64_t announced_oldest_ = 0, announced_latest_ = 0;
  std::mutex mutex_;  // guards the members below; no other mutex is locked while it is held
  std::condition_variable wake_;
  std::deque<DeviceCall*> under_way_;
  CallRecord latest_;  // the latest call that all ranks take part in
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace heddle::comm_detail
