// The back end of a communicator on one rank: it runs the calls.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bootstrap/survivors.h"
#include "core/collective.h"

namespace heddle::comm_detail {

struct BackendOptions {
  std::chrono::milliseconds timeout{10000};
  Algorithm algorithm = Algorithm::automatic;
  std::string backend = "auto";  // the name of the requested back end
  bool reproducible = false;
  std::size_t fusion = std::size_t{256} << 10;  // most bytes of calls that are fused into one
  std::string tuning{};                         // name of a tuning file on rank 0's host, see tuning.h
  int gpu = -1;                                 // nccl: the GPU's number; -1: chosen by the local rank
};

inline constexpr int kMaxLocalRanks = 1024;  // the most ranks that share memory

class StreamCalls;  // device/stream_calls.h

class Backend {
 public:
  // Leaves the communicator: calls of other ranks that need this one fail with PeerLost.
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;
  virtual int ranks_here() const { return size(); }  // number of ranks on this rank's host

  // Runs the call to its end. One thread at a time. Throws CommError. After a RemoteFailure the back end can
  // still be used; every other error aborts it. With record.failed, this rank only tells the others that it
  // has no data, and nothing is thrown.
  virtual void run(Collective& call) = 0;

  // Whether calls like this may be fused with others; see fusion.h. Any thread.
  virtual bool may_fuse(const Collective& call) const { return (void)call, false; }

  // Limits how long the destructor waits for other ranks. Called before the destructor.
  virtual void leave_before(std::chrono::steady_clock::time_point) noexcept {}

  // Fails all calls of all ranks with CommAborted. Any thread; returns at once.
  virtual void abort(const std::string& why) noexcept = 0;

  // Memory that the other ranks can access directly; it may outlive the back end. Null: the ranks share no memory, or
  // none is left.
  virtual std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) { return (void)bytes, nullptr; }

  // The latest calls, as text; of other ranks too if they share memory. Any thread.
  virtual std::string flight_recorder() const = 0;

  // What runs calls on arrays of a device by the device's library. Null: the back end has no such library.
  virtual StreamCalls* stream_calls() { return nullptr; }

  // The agreement of Communicator::shrink; lives as long as the back end and has the set of failed ranks.
  virtual Survivors& survivors() = 0;
};

// The back ends of ranks that are threads of this process, one each.
std::vector<std::unique_ptr<Backend>> make_local_backends(int size, const BackendOptions& options);

}  // namespace heddle::comm_detail
