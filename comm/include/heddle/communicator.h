// Communicator: ranks that call the same collectives in the same order. Each call is an engine op on its arrays, which
// runs when they are there; program order is wire order, and nobody schedules communication.
//
//   auto comm = heddle::Communicator::create();             // the job this process was launched in: heddle launch -n 4
//   comm->all_reduce(gradient);                             // returns at once; the sum over all ranks, in place
//   comm->all_reduce(a, b, heddle::ReduceOp::max);          // reads a, mutates b
//   b.wait();                                               // errors arrive here
//
// A call does not wait for the one before it: what is ready goes on the wire in the order of the calls.
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

// avg divides the sum by the number of ranks; on integers it truncates. On bools sum is or, prod is and, and there is no avg.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg };
const char* name_of(ReduceOp op);

// Empty and zero fields are read from the environment, then take the default.
struct CommOptions {
  std::string backend{};    // HEDDLE_COMM_BACKEND: "auto", "shm" (one host), "tcp", "mpi", "nccl" (GPUs)
  std::string algorithm{};  // HEDDLE_COMM_ALGORITHM: "auto", or one of docs/comm.md for all_reduce
  // HEDDLE_COMM_TIMEOUT, seconds, default 10: how long a rank may show no sign of life. One that computes is alive.
  std::chrono::milliseconds timeout{0};
  // HEDDLE_COMM_REPRODUCIBLE=1: reductions in one fixed order, whatever the algorithm and the transport.
  bool reproducible = false;
  Engine* engine = nullptr;  // null: the current one
  int gpu =
      -1;  // with "nccl": this rank's gpu(i); -1: the first rank of a host has gpu(0), the next one gpu(1) ...
};

// Thread-safe, but calls from several threads must come in one order on all ranks. Arguments are checked at the call
// and throw InvalidArgument; arrays must belong to the communicator's engine and lie on a cpu(i) or its device(). Arrays
// that receive may be views; those of a cpu(i) that are not contiguous are sent and received through a copy. In the child of
// a fork calls throw CommError; what a communicator is (rank, size, backend, device, var, engine) is still answered.
class Communicator {
 public:
  // The ranks of a job. Blocks until all have come; throws CommError saying who has not, CommMismatch saying which of them
  // want different back ends, algorithms or reproducible.
  static std::shared_ptr<Communicator> create(
      const CommOptions& options = {}, const LaunchEnvironment& job = LaunchEnvironment::from_environment());
  // All ranks in this process, each to be used as if it were a process of its own. Of options, backend is ignored. Several
  // ranks on an engine of the scheduler naive are refused (InvalidArgument): they would wait for each other for ever.
  static std::vector<std::shared_ptr<Communicator>> create_local(int size, const CommOptions& options = {});

  // Tells the others that it leaves, once what was called is done. Never throws; waits `timeout` at most.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  std::string backend() const;  // "local", "shm", "tcp" ...
  // Whose arrays are reduced where they lie: with "nccl" this rank's gpu(i), else cpu().
  Device device() const;
  // An op that mutates it runs when all calls before it are done and before any after it: the wire is the op's alone.
  const Var& var() const;
  Engine& engine() const;

  // out = op over the ranks' `in`, on all of them. One array: in place.
  void all_reduce(const NDArray& array, ReduceOp op = ReduceOp::sum, Where where = Where::current());
  void all_reduce(const NDArray& in, const NDArray& out, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());
  // Rank r's out is part r of the reduced `in`: in has size() times the elements of out.
  void reduce_scatter(const NDArray& in, const NDArray& out, ReduceOp op = ReduceOp::sum,
                      Where where = Where::current());
  // Part r of out is rank r's `in`: out has size() times the elements of in.
  void all_gather(const NDArray& in, const NDArray& out, Where where = Where::current());
  // In place: everybody gets root's; root gets the reduced one, the others keep theirs.
  void broadcast(const NDArray& array, int root, Where where = Where::current());
  void reduce(const NDArray& array, int root, ReduceOp op = ReduceOp::sum, Where where = Where::current());
  // Part r of `in` goes to rank r, part r of out comes from it; equal parts, or as many elements as the counts say.
  void all_to_all(const NDArray& in, const NDArray& out, Where where = Where::current());
  void all_to_all(const NDArray& in, std::span<const std::int64_t> in_counts, const NDArray& out,
                  std::span<const std::int64_t> out_counts, Where where = Where::current());
  // Between two ranks, in the order of the calls between these two. A send may wait for its recv.
  void send(const NDArray& array, int to, Where where = Where::current());
  void recv(const NDArray& array, int from, Where where = Where::current());
  // All ranks have come to this call, when wait() returns or the next call's result is there.
  void barrier(Where where = Where::current());

  // Blocks until all that was called here so far is done; rethrows what went wrong with a barrier or a send.
  void wait(Where where = Where::current());

  // Blocking. `data` holds count elements. On the calling thread, without an op, where no call before is pending; else it
  // waits as wait() does. Throws what the op would have failed with, and WouldDeadlock inside an op that those calls need.
  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());

  // Memory that all_reduce reduces in place without a copy, where the ranks share a host; elsewhere as NDArray(shape).
  NDArray shared_array(Shape shape, DType dtype = DType::f32);

  // Collective: ranks of one colour make a communicator, ordered by key, then rank. Negative colour: null. Blocks.
  std::shared_ptr<Communicator> split(int colour, int key = 0, Where where = Where::current());

  // Fails what is called here and on all other ranks, now and later, with CommAborted. Any thread; returns at once.
  void abort(const std::string& why, Where where = Where::current());
  // Collective over those still alive: a communicator of them, in the old order. Aborts this one. Blocks until all have
  // come, though more of them die meanwhile; throws CommError saying who has not within twice the timeout, and PeerLost
  // if the others have taken this rank for dead.
  std::shared_ptr<Communicator> shrink(Where where = Where::current());
  // Collective of this job's processes that live and of those started anew, which call create(): all meet where create()
  // met, as the ranks they were launched as, `size` in all (0: as many as last time). Aborts this communicator. Blocks
  // until all have come, for `patience` (0: the timeout); then CommError says who has not, and it may be called again.
  std::shared_ptr<Communicator> grow(int size = 0, std::chrono::milliseconds patience = {},
                                     Where where = Where::current());

  // The last 1,024 calls of each rank that can be seen from here, for people. Any thread, at any time.
  std::string flight_recorder() const;

 private:
  Communicator(std::shared_ptr<comm_detail::CommState> state,
               std::shared_ptr<const comm_detail::Origin> origin);
  void give_up(const char* call, Where where);
  comm_detail::CommState& state() const;  // throws CommError in the child of a fork
  std::shared_ptr<comm_detail::CommState> state_;
  std::shared_ptr<const comm_detail::Origin> origin_;  // null: not of a whole job
};

}  // namespace heddle
