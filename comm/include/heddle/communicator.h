// Communicator: ranks that call the same collectives in the same order. Each call is an engine op on its arrays, which
// runs when they are ready. Calls are carried out in program order, but no op waits for the op of the call before it.
//
//   auto comm = heddle::Communicator::create();             // the job this process was launched in: heddle launch -n 4
//   comm->all_reduce(gradient);                             // returns at once; the sum over all ranks, in place
//   comm->all_reduce(a, b, heddle::ReduceOp::max);          // reads a, mutates b
//   b.wait();                                               // errors arrive here
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/comm_error.h>
#include <heddle/launch_environment.h>
#include <heddle/ndarray.h>

namespace heddle {

namespace comm_detail {
class CommState;
struct Origin;
}  // namespace comm_detail

// `avg` is the sum divided by the number of ranks, truncated for integers. On bools, sum is a logical or and
// prod a logical and; avg is an error.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg };
const char* name_of(ReduceOp op);

// The options of a communicator. A field that is empty or zero is read from its environment variable; if that
// is not set either, the field has its default.
struct CommOptions {
  std::string backend{};    // HEDDLE_COMM_BACKEND: "auto", "shm" (one host), "tcp", "mpi", "nccl" (GPUs)
  std::string algorithm{};  // HEDDLE_COMM_ALGORITHM, for all_reduce: "auto", or one that docs/comm.md names
  // HEDDLE_COMM_TIMEOUT, in seconds, a day at most; default 10. A rank that sends no heartbeat for this long
  // has failed. Ranks that compute send heartbeats, too.
  std::chrono::milliseconds timeout{0};
  // HEDDLE_COMM_REPRODUCIBLE=1: reductions in one fixed order, whatever the algorithm and the transport.
  bool reproducible = false;
  Engine* engine = nullptr;  // the engine of the communicator's ops; null: the current engine
  // For the back end "nccl" only: this rank uses gpu(i) with this i. -1: the ranks of a host use gpu(0),
  // gpu(1) ... in the order of their ranks.
  int gpu = -1;
};

// The ranks of a job, which call the same collectives. Thread-safe, but all ranks must make their calls in
// one order, also from several threads. Arguments are checked at the call, which throws InvalidArgument if
// they are wrong. Arrays must belong to the communicator's engine and be on a cpu(i) or on device(). They may
// be views; on a cpu(i), arrays that are not contiguous are copied. In the child of a fork calls throw
// CommError, except for rank, size, backend, device, var and engine.
class Communicator {
 public:
  // The communicator of a job's ranks. Blocks until all take part. Throws CommError naming the ranks that are missing
  // after the timeout, and CommMismatch if ranks have different back ends, algorithms or values of reproducible.
  static std::shared_ptr<Communicator> create(
      const CommOptions& options = {}, const LaunchEnvironment& job = LaunchEnvironment::from_environment());
  // Communicators of `size` ranks in this process, by rank; each is usually used by a thread of its own.
  // options.backend is ignored. Throws InvalidArgument for several ranks on an engine with the scheduler naive, where
  // they would wait for each other for ever.
  static std::vector<std::shared_ptr<Communicator>> create_local(int size, const CommOptions& options = {});

  // Waits for the calls made so far, CommOptions::timeout at most, and leaves the communicator. Never throws.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  std::string backend() const;  // name of the back end: "local", "shm", "tcp" ...
  // The device on which arrays are reduced without a copy: with "nccl" this rank's gpu(i), else cpu().
  Device device() const;
  // An op that mutates this var runs after the communicator's calls made before the push of the op have
  // ended. Calls made later begin after the op.
  const Var& var() const;

  Engine& engine() const;

  // Sets `out` on all ranks to the reduction of all ranks' `in`. The overload without `out` works in place.
  void all_reduce(const NDArray& array, ReduceOp op = ReduceOp::sum, Where where = Where::current());
  void all_reduce(const NDArray& in, const NDArray& out, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());
  // Sets rank r's `out` to part r of the reduction of all ranks' `in`, which has size() times the elements of `out`.
  void reduce_scatter(const NDArray& in, const NDArray& out, ReduceOp op = ReduceOp::sum,
                      Where where = Where::current());
  // Sets part r of `out` to rank r's `in`. `out` has size() times the elements of `in`.
  void all_gather(const NDArray& in, const NDArray& out, Where where = Where::current());
  // In place: broadcast sets all ranks' arrays to root's; reduce sets only root's array, to the reduction.
  void broadcast(const NDArray& array, int root, Where where = Where::current());
  void reduce(const NDArray& array, int root, ReduceOp op = ReduceOp::sum, Where where = Where::current());
  // Sends part r of `in` to rank r, and receives part r of `out` from rank r. All parts have one length, or
  // those that `in_counts` and `out_counts` give.
  void all_to_all(const NDArray& in, const NDArray& out, Where where = Where::current());
  void all_to_all(const NDArray& in, std::span<const std::int64_t> in_counts, const NDArray& out,
                  std::span<const std::int64_t> out_counts, Where where = Where::current());
  // The n-th send from one rank to another matches the n-th recv of the other rank from it. A send may wait
  // until the matching recv begins.
  void send(const NDArray& array, int to, Where where = Where::current());
  void recv(const NDArray& array, int from, Where where = Where::current());
  // Returns at once. All ranks have made this call once a later wait() returns or a later result is ready.
  void barrier(Where where = Where::current());

  // Blocks until all calls of this communicator so far have ended. Rethrows errors of barriers and sends.
  void wait(Where where = Where::current());

  // Reduces `count` elements at `data` in place; blocks. Runs on the calling thread without an op, after
  // waiting for pending calls as wait() does. Throws the errors that an op would end with, and WouldDeadlock
  // inside an op that pending calls need.
  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());

  // An array in memory that all ranks on a host reduce directly, without a copy. If the ranks share no
  // memory, or none is left, an ordinary NDArray(shape, dtype).
  NDArray shared_array(Shape shape, DType dtype = DType::f32);

  // Collective; blocks. Returns a communicator of the ranks that pass the same colour, ordered by key, then
  // rank; null if the colour is negative.
  std::shared_ptr<Communicator> split(int colour, int key = 0, Where where = Where::current());

  // Fails all current and later calls of all ranks with CommAborted. Any thread; returns at once.
  void abort(const std::string& why, Where where = Where::current());
  // Collective over the ranks that are alive: returns a communicator of these ranks, in the old order. Aborts
  // this communicator. Blocks until all live ranks have called shrink(), also if more ranks fail meanwhile.
  // Throws CommError naming the ranks that have not called it within twice the timeout, CommError if another
  // thread is shrinking this communicator, and PeerLost if the other ranks have excluded this one.
  std::shared_ptr<Communicator> shrink(Where where = Where::current());
  // Collective over the live processes of the job and new ones, which call create(). Returns a communicator
  // of `size` ranks (0: as many as before), in which each process has the rank that it was launched as.
  // Aborts this communicator. Blocks until all ranks take part, for `timeout` at most (0:
  // CommOptions::timeout); then throws CommError naming the missing ranks, and may be called again.
  std::shared_ptr<Communicator> grow(int size = 0, std::chrono::milliseconds timeout = {},
                                     Where where = Where::current());

  // The latest 1,024 calls of this rank and of the ranks whose memory it shares, as text. Any thread.
  std::string flight_recorder() const;

 private:
  Communicator(std::shared_ptr<comm_detail::CommState> state,
               std::shared_ptr<const comm_detail::Origin> origin);
  void abort_for(const char* call, Where where);
  comm_detail::CommState& state() const;  // throws CommError in the child of a fork
  std::shared_ptr<comm_detail::CommState> state_;
  std::shared_ptr<const comm_detail::Origin> origin_;  // for grow(); null if made by split or create_local
};

}  // namespace heddle
