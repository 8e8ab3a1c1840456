// What carries the calls of one communicator on one rank.
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
  std::string backend = "auto";  // as it was asked for
  bool reproducible = false;
  std::size_t fusion = std::size_t{256} << 10;  // bytes that go as one at most
  std::string tuning{};                         // a file of rank 0's; see tuning.h
  int gpu = -1;                                 // of nccl; -1: one for each rank of a host
};

inline constexpr int kMostLocalRanks = 1024;  // that share memory

class StreamCalls;  // of what is above

class Backend {
 public:
  virtual ~Backend() = default;  // leaves: what others still want from this rank fails with PeerLost
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;

  // Runs the call to its end. One thread at a time. Throws CommError: RemoteFailure leaves the backend as good as it
  // was, after everything else it is aborted. A call with record.failed takes part to say so, and throws nothing.
  virtual void run(Collective& call) = 0;

  // Calls of this kind, there at the same time, may be run as one: see fusion.h. Any thread.
  virtual bool may_fuse(const Collective& call) const { return (void)call, false; }

  // The destructor waits for others until then at most. Only before it.
  virtual void leave_before(std::chrono::steady_clock::time_point) noexcept {}

  // Any thread; returns at once.
  virtual void abort(const std::string& why) noexcept = 0;

  // Memory that other ranks can reach, kept until the backend's last user is gone; null where there is none to be had.
  virtual std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) { return (void)bytes, nullptr; }

  // Any thread. Of the other ranks as far as they can be seen from here.
  virtual std::string flight_recorder() const = 0;

  // Calls on arrays of a device that carries them out itself; null: there is none.
  virtual StreamCalls* stream_calls() { return nullptr; }

  // For Communicator::shrink. It lives as long as this, and remembers who has been found dead.
  virtual Survivors& survivors() = 0;
};

// All of them block until all ranks of the rendezvous have come.
std::unique_ptr<Backend> make_shm_backend(Rendezvous& rendezvous, const BackendOptions& options);
std::unique_ptr<Backend> make_tcp_backend(Rendezvous& rendezvous, const BackendOptions& options);
std::unique_ptr<Backend> make_mpi_backend(Rendezvous& rendezvous, const BackendOptions& options);
std::unique_ptr<Backend> make_local_backend(Rendezvous& rendezvous, const BackendOptions& options);
std::vector<std::unique_ptr<Backend>> make_local_backends(int size, const BackendOptions& options);

}  // namespace heddle::comm_detail
