#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <heddle/communicator.h>

#include "communicator/comm_options.h"
#include "communicator/comm_state.h"
#include "communicator/pair_rendezvous.h"
#include "device/stream_calls.h"

namespace heddle {

using comm_detail::Collective;
using comm_detail::Kind;

// How the ranks of a job met, for grow().
struct comm_detail::Origin {
  CommOptions options;
  LaunchEnvironment job;
};

namespace {

std::string describe(const NDArray& array) {
  return array.defined() ? name_of(array.dtype()) + (" " + array.shape().to_string()) : "an undefined array";
}

[[noreturn]] void refuse(Kind kind, const std::string& problem) {
  throw InvalidArgument("Communicator::" + std::string(name_of(kind)) + ": " + problem);
}

std::string text_of(Where where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

// One call on arrays: its arguments are checked before anything is pushed.
class Request {
 public:
  Request(comm_detail::CommState& state, Kind kind, Where where) : site_(where), state_(state), kind_(kind) {
    what_.record.kind = kind;
    what_.record.set_site(where_);
  }

  Collective& what() { return what_; }

  const NDArray& checked(const NDArray& array, const char* name) const {
    if (!array.defined()) refuse(kind_, std::string(name) + " is an undefined array");
    if (&array.engine() != &state_.engine()) refuse(kind_, std::string(name) + " belongs to another engine");
    const comm_detail::StreamCalls* calls = state_.backend().stream_calls();
    if (array.device().kind != DeviceKind::cpu && !on_device(array)) {
      refuse(kind_, std::string(name) + " is on " + array.device().to_string() +
                        "; want an array on a cpu(i)" +
                        (calls ? ", or on this rank's " + calls->device().to_string() : ""));
    }
    if (on_device(array) && !array.is_contiguous())
      refuse(kind_, std::string(name) + " is not contiguous, which arrays on " + array.device().to_string() +
                        " have to be");
    return array;
  }
  const NDArray& written(const NDArray& array, const char* name) const {
    if (checked(array, name).overlaps_itself()) refuse(kind_, std::string(name) + " overlaps itself");
    return array;
  }
  // Throws unless `many` has `times` as many elements as `few`, and the same dtype.
  void fit(const NDArray& many, const char* many_name, const NDArray& few, const char* few_name,
           int times) const {
    if (many.dtype() == few.dtype() && many.size() == few.size() * times) return;
    refuse(kind_, std::string(many_name) + " is " + describe(many) + ", " + few_name + " is " +
                      describe(few) + "; want one dtype and " + std::to_string(times) +
                      " x as many elements in " + many_name);
  }
  void disjoint(const NDArray& in, const NDArray& out) const {
    if (in.storage() == out.storage()) refuse(kind_, "the input and the output share memory");
  }
  int peer(int rank, const char* name) const {
    if (rank >= 0 && rank < state_.backend().size()) return rank;
    refuse(kind_, std::string(name) + " is " + std::to_string(rank) + "; the ranks are 0 to " +
                      std::to_string(state_.backend().size() - 1));
  }
  void reduces(ReduceOp op, DType dtype) {
    comm_detail::combine_of(op, dtype);
    what_.record.op = op;
  }

  // `counted` gives the call's dtype and count. If the input or the output has a part of each rank, it is the
  // array with one part.
  void push(const NDArray& counted, const NDArray& in, const NDArray& out) {
    what_.record.dtype = counted.dtype();
    what_.record.count = static_cast<std::uint64_t>(counted.size());
    const NDArray& first = in.defined() ? in : out;
    if (out.defined() && on_device(first) != on_device(out))
      refuse(kind_,
             "the input is on " + in.device().to_string() + ", the output is on " + out.device().to_string());
    if (on_device(first)) return state_.push_on_device(std::move(what_), in, out, where_);
    const bool in_place = in.defined() && out.defined() && in.storage() == out.storage();
    if (in_place || !out.defined() || out.is_contiguous()) {
      const NDArray from = in.defined() ? in.detach().contiguous() : in;
      if (in_place && !out.is_contiguous()) return push_copied(out);
      return state_.push(std::move(what_), from, out, where_);
    }
    const EngineScope scope(state_.engine());
    const NDArray copy(out.shape(), out.dtype(), out.device());
    if (!in.defined()) copy.assign(out.detach());
    state_.push(std::move(what_), in.defined() ? in.detach().contiguous() : in, copy, where_);
    out.detach().assign(copy);
  }

 private:
  bool on_device(const NDArray& array) const {
    const comm_detail::StreamCalls* calls = state_.backend().stream_calls();
    return calls && array.device() == calls->device();
  }

  void push_copied(const NDArray& array) {
    const NDArray copy = array.detach().copy();
    state_.push(std::move(what_), copy, copy, where_);
    array.detach().assign(copy);
  }

  const CallSite site_;
  comm_detail::CommState& state_;
  const Kind kind_;
  const Where where_ = CallSite::current();
  Collective what_;
};

Engine& engine_of(const CommOptions& options) { return options.engine ? *options.engine : current_engine(); }

std::shared_ptr<comm_detail::CommState> make_state(const CommOptions& options,
                                                   std::unique_ptr<comm_detail::Backend> backend) {
  return comm_detail::CommState::make(engine_of(options), std::move(backend),
                                      comm_detail::backend_options(options));
}

// The options of a communicator of some of the ranks of `state`, in which each rank keeps its device.
comm_detail::BackendOptions options_for_some(const comm_detail::CommState& state) {
  comm_detail::BackendOptions options = state.options();
  if (const comm_detail::StreamCalls* calls = state.backend().stream_calls()) options.gpu = calls->index();
  return options;
}

std::shared_ptr<comm_detail::CommState> connect_job(const CommOptions& options, const LaunchEnvironment& job,
                                                    std::chrono::milliseconds timeout) {
  const comm_detail::BackendOptions wanted = comm_detail::backend_options(options);
  const auto rendezvous = comm_detail::make_rendezvous(job, timeout.count() > 0 ? timeout : wanted.timeout);
  comm_detail::agree_on_settings(*rendezvous, wanted, engine_of(options));
  return make_state(options,
                    comm_detail::make_backend(comm_detail::backend_name(options), *rendezvous, wanted));
}

// Sets the size of the job; 0: keeps it.
void resize_job(LaunchEnvironment& job, int size) {
  const std::string asked = "Communicator::grow: size is " + std::to_string(size);
  if (size == 0) size = job.size;
  if (size <= job.rank) {
    throw InvalidArgument(asked + "; want more than this process's rank in its job, " +
                          std::to_string(job.rank));
  }
  if (size > 1 && job.rendezvous.empty()) {
    throw InvalidArgument(asked +
                          ", but this process was launched alone: there is no HEDDLE_RENDEZVOUS to meet at");
  }
  if (job.local_size == job.size) job.local_size = size;  // all ranks were launched on one host
  job.size = size;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<comm_detail::CommState> state,
                           std::shared_ptr<const comm_detail::Origin> origin)
    : state_(std::move(state)), origin_(std::move(origin)) {}
Communicator::~Communicator() {
  if (!state_->in_child()) {
    state_->close();
    return;
  }
  // In the child of a fork the state is never destroyed, since its parts would wait for threads that the child does not
  // have, and would tell the other ranks that this one leaves.
  static auto* kept = new std::vector<std::shared_ptr<comm_detail::CommState>>;
  kept->push_back(state_);
}

std::shared_ptr<Communicator> Communicator::create(const CommOptions& options, const LaunchEnvironment& job) {
  return std::shared_ptr<Communicator>(
      new Communicator(connect_job(options, job, {}), std::make_shared<comm_detail::Origin>(options, job)));
}

std::vector<std::shared_ptr<Communicator>> Communicator::create_local(int size, const CommOptions& options) {
  if (size < 1 || size > comm_detail::kMaxLocalRanks) {
    throw InvalidArgument("Communicator::create_local: size is " + std::to_string(size) + "; want 1 to " +
                          std::to_string(comm_detail::kMaxLocalRanks));
  }
  if (const std::string why = comm_detail::why_not_shared(engine_of(options)); size > 1 && !why.empty())
    throw InvalidArgument("Communicator::create_local: the ranks share an engine " + why);
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (auto& backend : comm_detail::make_local_backends(size, comm_detail::backend_options(options))) {
    ranks.push_back(
        std::shared_ptr<Communicator>(new Communicator(make_state(options, std::move(backend)), nullptr)));
  }
  return ranks;
}

int Communicator::rank() const { return state_->backend().rank(); }
int Communicator::size() const { return state_->backend().size(); }
std::string Communicator::backend() const { return state_->backend().name(); }
Device Communicator::device() const {
  const comm_detail::StreamCalls* calls = state_->backend().stream_calls();
  return calls ? calls->device() : cpu();
}
const Var& Communicator::var() const { return state_->var(); }
Engine& Communicator::engine() const { return state_->engine(); }

void Communicator::all_reduce(const NDArray& array, ReduceOp op, Where where) {
  all_reduce(array, array, op, where);
}

void Communicator::all_reduce(const NDArray& in, const NDArray& out, ReduceOp op, Where where) {
  Request request(state(), Kind::all_reduce, where);
  request.fit(request.checked(in, "the input"), "the input", request.written(out, "the output"), "the output",
              1);
  const bool one = in.storage() == out.storage();
  if (one && (in.offset() != out.offset() || in.strides() != out.strides())) request.disjoint(in, out);
  request.reduces(op, in.dtype());
  request.push(in, in, out);
}

void Communicator::reduce_scatter(const NDArray& in, const NDArray& out, ReduceOp op, Where where) {
  Request request(state(), Kind::reduce_scatter, where);
  request.fit(request.checked(in, "the input"), "the input", request.written(out, "the output"), "the output",
              size());
  request.disjoint(in, out);
  request.reduces(op, in.dtype());
  request.push(out, in, out);
}

void Communicator::all_gather(const NDArray& in, const NDArray& out, Where where) {
  Request request(state(), Kind::all_gather, where);
  request.fit(request.written(out, "the output"), "the output", request.checked(in, "the input"), "the input",
              size());
  request.disjoint(in, out);
  request.push(in, in, out);
}

void Communicator::broadcast(const NDArray& array, int root, Where where) {
  Request request(state(), Kind::broadcast, where);
  request.what().record.root = request.peer(root, "root");
  request.written(array, "array");
  request.push(array, rank() == root ? array : NDArray(), array);
}

void Communicator::reduce(const NDArray& array, int root, ReduceOp op, Where where) {
  Request request(state(), Kind::reduce, where);
  request.what().record.root = request.peer(root, "root");
  request.written(array, "array");
  request.reduces(op, array.dtype());
  request.push(array, array, rank() == root ? array : NDArray());
}

void Communicator::all_to_all(const NDArray& in, const NDArray& out, Where where) {
  const Request request(state(), Kind::all_to_all, where);
  request.fit(request.checked(in, "the input"), "the input", request.written(out, "the output"), "the output",
              1);
  const auto parts = [&](const NDArray& array) {
    if (array.size() % size() == 0) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(size()), array.size() / size());
    }
    refuse(Kind::all_to_all,
           describe(array) + " cannot be cut into " + std::to_string(size()) + " equal parts");
  };
  all_to_all(in, parts(in), out, parts(out), where);
}

void Communicator::all_to_all(const NDArray& in, std::span<const std::int64_t> in_counts, const NDArray& out,
                              std::span<const std::int64_t> out_counts, Where where) {
  Request request(state(), Kind::all_to_all, where);
  request.checked(in, "the input");
  request.written(out, "the output");
  request.disjoint(in, out);
  const auto check = [&](std::span<const std::int64_t> counts, const NDArray& array, const char* name) {
    std::int64_t left = array.size();
    bool good = counts.size() == static_cast<std::size_t>(size());
    for (std::int64_t count : counts) {
      good = good && count >= 0 && count <= left;
      if (good) left -= count;
    }
    if (good && left == 0 && in.dtype() == out.dtype()) return;
    refuse(Kind::all_to_all, std::string(name) + " is " + describe(array) + "; want " +
                                 std::to_string(size()) +
                                 " counts, none negative, that add up to its elements, and one dtype");
  };
  check(in_counts, in, "the input");
  check(out_counts, out, "the output");
  const auto self = static_cast<std::size_t>(rank());
  if (in_counts[self] != out_counts[self]) {
    refuse(Kind::all_to_all, "rank " + std::to_string(rank()) + " sends itself " +
                                 std::to_string(in_counts[self]) + " elements and waits for " +
                                 std::to_string(out_counts[self]) + " of itself");
  }
  request.what().in_counts.assign(in_counts.begin(), in_counts.end());
  request.what().out_counts.assign(out_counts.begin(), out_counts.end());
  request.push(in, in, out);
}

void Communicator::send(const NDArray& array, int to, Where where) {
  Request request(state(), Kind::send, where);
  request.what().record.root = request.peer(to, "the rank to send to");
  request.checked(array, "array");
  if (to == rank())
    refuse(Kind::send, "a rank cannot send to itself: the send would wait for the recv behind it");
  request.push(array, array, NDArray());
}

void Communicator::recv(const NDArray& array, int from, Where where) {
  Request request(state(), Kind::recv, where);
  request.what().record.root = request.peer(from, "the rank to receive from");
  request.written(array, "array");
  if (from == rank()) refuse(Kind::recv, "a rank cannot receive from itself");
  request.push(array, NDArray(), array);
}

void Communicator::barrier(Where where) {
  where = CallSite::current(where);
  Collective what;
  what.record.kind = Kind::barrier;
  what.record.set_site(where);
  state().push(std::move(what), NDArray(), NDArray(), where);
}

void Communicator::wait(Where where) { state().wait(CallSite::current(where)); }

void Communicator::all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op, Where where) {
  const CallSite site(where);
  comm_detail::CommState& mine = state();
  if (!data && count) refuse(Kind::all_reduce, "data is null");
  if (!is_dtype(static_cast<std::uint64_t>(dtype)))
    refuse(Kind::all_reduce,
           "dtype is the number " + std::to_string(static_cast<int>(dtype)) + ", which is none");
  comm_detail::combine_of(op, dtype);
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / size_of(dtype))
    refuse(Kind::all_reduce, std::to_string(count) + " elements are more than memory can hold");
  Collective what;
  what.record.kind = Kind::all_reduce;
  what.record.op = op;
  what.record.dtype = dtype;
  what.record.count = count;
  what.record.set_site(CallSite::current(where));
  what.out = static_cast<std::byte*>(data);
  what.in = what.out;
  mine.run_now(what, CallSite::current(where));
}

NDArray Communicator::shared_array(Shape shape, DType dtype) {
  comm_detail::CommState& mine = state();
  EngineScope scope(engine());
  const NDArray ordinary(shape, dtype);  // this constructor checks the arguments, and allocates no memory
  const std::size_t bytes = ordinary.storage()->bytes();
  std::shared_ptr<std::byte> memory;
  try {
    memory = mine.backend().allocate_shared(bytes);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("Communicator::shared_array of shape " + shape.to_string(), bytes);
  }
  if (!memory) return ordinary;
  return {std::make_shared<Storage>(engine(), cpu(), bytes, std::move(memory)), shape, dtype};
}

std::shared_ptr<Communicator> Communicator::split(int colour, int key, Where where) {
  where = CallSite::current(where);
  const std::vector<comm_detail::Member> members = comm_detail::members_of(state(), colour, key, where);
  if (members.empty()) return nullptr;
  comm_detail::PairRendezvous rendezvous(*state_, members, where);
  // Even if not all ranks share a host, those of one colour may. So their back end is chosen again.
  const bool automatic = state_->options().backend == "auto" && state_->backend().name() == "tcp";
  auto backend = rendezvous.make([&] {
    return comm_detail::make_backend(automatic ? "auto" : state_->backend().name(), rendezvous,
                                     options_for_some(*state_));
  });
  return std::shared_ptr<Communicator>(new Communicator(
      comm_detail::CommState::make(engine(), std::move(backend), state_->options()), nullptr));
}

void Communicator::abort(const std::string& why, Where where) {
  state().backend().abort("rank " + std::to_string(rank()) + " aborted: " + why + " (abort at " +
                          text_of(CallSite::current(where)) + ")");
}

std::shared_ptr<Communicator> Communicator::shrink(Where where) {
  comm_detail::Backend& old = state().backend();
  abort_for("shrink", where);
  comm_detail::Survivors& survivors = old.survivors();
  std::unique_ptr<comm_detail::Backend> made;
  survivors.make([&] {
    made.reset();
    made = comm_detail::make_backend(old.name(), survivors, options_for_some(*state_));
  });
  return std::shared_ptr<Communicator>(
      new Communicator(comm_detail::CommState::make(engine(), std::move(made), state_->options()), origin_));
}

std::shared_ptr<Communicator> Communicator::grow(int size, std::chrono::milliseconds timeout, Where where) {
  const CallSite site(where);
  state();
  if (!origin_) {
    throw InvalidArgument(
        "Communicator::grow: only ranks of create(), shrink() and grow() can meet again, and these are of "
        "split or create_local");
  }
  auto origin = std::make_shared<comm_detail::Origin>(*origin_);
  origin->options.engine = &engine();
  resize_job(origin->job, size);
  comm_detail::check_timeout("Communicator::grow", timeout);
  abort_for("grow", where);
  if (timeout.count() == 0) timeout = state_->options().timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string before;
  while (true) {
    try {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      auto state = connect_job(origin->options, origin->job, std::max(left, std::chrono::milliseconds(1)));
      return std::shared_ptr<Communicator>(new Communicator(std::move(state), origin));
    } catch (const PeerLost& error) {  // another rank has failed meanwhile: try again
      if (std::chrono::steady_clock::now() >= deadline) throw;
      before = error.what();
    } catch (const CommError& error) {
      if (before.empty()) throw;
      throw CommError(error.what() + ("; before that: " + before));
    }
  }
}

// Aborts the communicator for shrink or grow: ranks that have not detected the fault yet would otherwise wait
// for this rank.
void Communicator::abort_for(const char* call, Where where) {
  state().backend().abort("rank " + std::to_string(rank()) + " called " + call + " at " +
                          text_of(CallSite::current(where)));
}

std::string Communicator::flight_recorder() const { return state().backend().flight_recorder(); }

comm_detail::CommState& Communicator::state() const {
  state_->check_process();
  return *state_;
}

}  // namespace heddle
