// The backend of ranks that share a host's memory: threads ("local") or processes ("shm").
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "algorithms/message_collectives.h"
#include "core/backend.h"
#include "core/call_numbers.h"
#include "host/host_collectives.h"
#include "host/host_control_channel.h"
#include "host/pipe_transport.h"

namespace heddle::comm_detail {

// The memory that the ranks of a host share, as mapped by one of them.
struct HostMemory : PeerMemory {
  virtual std::byte* segment() const = 0;  // memory of Segment::bytes() bytes, zeros at first
  // Memory that the other ranks can access; null: no more is left.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
};

class HostBackend final : public Backend {
 public:
  HostBackend(std::string name, int rank, int size, std::uint32_t epoch, std::shared_ptr<HostMemory> memory,
              std::unique_ptr<Liveness> liveness, const BackendOptions& options);
  ~HostBackend() override;

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string name() const override { return name_; }
  void run(Collective& call) override;
  void abort(const std::string& why) noexcept override { group_.report_fault(Fault::aborted, rank(), why); }
  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) override { return memory_->allocate(bytes); }
  std::string flight_recorder() const override { return group_.flight_recorder(); }
  Survivors& survivors() override { return survivors_; }

 private:
  void dispatch(Collective& call);
  void run_heartbeat();

  const std::string name_;
  const BackendOptions options_;
  const std::shared_ptr<HostMemory> memory_;
  HostGroup group_;
  HostCollectives direct_;
  PipeTransport pipes_;
  MessageCollectives messages_;
  CallNumbers numbers_;
  HostControlChannel control_channel_;
  Survivors survivors_;
  std::mutex mutex_;  // guards closing_
  std::condition_variable closes_;
  bool closing_ = false;
  std::thread control_thread_;  // increments this rank's heartbeat
};

}  // namespace heddle::comm_detail
