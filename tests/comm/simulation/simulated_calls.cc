// Collectives over simulated connections: bytes arrive late and in pieces, ops fail, ranks die or make
// different calls.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include <heddle/comm_error.h>

#include "algorithms/message_collectives.h"
#include "protocol_seeds.h"
#include "simulation.h"
#include "socketless_connection.h"
#include "tcp/call_watch.h"
#include "tcp/message.h"

namespace heddle::test {
namespace {

using namespace comm_detail;
using namespace std::chrono_literals;
using Time = Simulation::Time;

constexpr Key kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};
constexpr auto kDetection = 50ms;  // longest time until a rank notices the death of another rank
// Longest time until a failure or call that one rank knows is known to another rank.
constexpr auto kMaxDelay = 2ms;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// The bytes on the way from one rank to another: chunks and their arrival times.
struct Wire {
  struct Chunk {
    Time when;
    std::deque<std::byte> bytes{};
  };
  std::deque<Chunk> chunks{};
  std::size_t filled = 0;
};

class Net {
 public:
  Net(Simulation& all, int ranks)
      : simulation(all), size(ranks), fibers(at(ranks), -1), failures(at(ranks)), gone(at(ranks)) {
    for (int i = 0; i < ranks * ranks; ++i) wires.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) watches.emplace_back(rank, ranks);
    constexpr std::size_t kRooms[] = {170, 3000, 1 << 20};
    room = kRooms[simulation.below(3)];
    late = std::chrono::microseconds(1 + simulation.below(300));
    pieces = simulation.one_in(2);
  }
  Wire& wire(int from, int to) { return wires[at(from * size + to)]; }
  void wake(int rank) {
    if (fibers[at(rank)] >= 0) simulation.wake(fibers[at(rank)]);
  }
  // Tells a rank of a failure. The rank keeps the first failure that it hears of, and tells the other ranks,
  // which get it after random delays.
  void fail(int rank, const Failure& failure) {
    if (gone[at(rank)] || failures[at(rank)]) return;
    failures[at(rank)] = failure;
    wake(rank);
    for (int other = 0; other < size; ++other) {
      if (other != rank) later(kMaxDelay, [this, other, failure] { fail(other, failure); });
    }
  }
  void die(int rank) {
    if (gone[at(rank)] || simulation.ended(fibers[at(rank)])) return;
    gone[at(rank)] = true;
    last_death = simulation.now();
    simulation.kill(fibers[at(rank)]);
    for (int other = 0; other < size; ++other) {
      const Failure failure{Failure::Type::lost, rank, "rank " + std::to_string(rank) + " is lost"};
      if (other != rank) later(kDetection, [this, other, failure] { fail(other, failure); });
    }
  }
  // Announces a call that waits to the ranks that should hear of it. `to` and `from` are the ranks that the
  // call waits for.
  void tell(int rank, const CallRecord& call, int to, int from) {
    for (const int other : ranks_to_tell(call, size, to, from)) {
      if (other == rank || other < 0) continue;
      later(kMaxDelay, [this, other, rank, call] {
        if (auto mismatch = watches[at(other)].announced(rank, call)) fail(other, *mismatch);
      });
    }
  }
  void later(Simulation::Duration most, std::function<void()> what) {
    simulation.at(simulation.now() + simulation.delay(most), std::move(what));
  }

  Simulation& simulation;
  const int size;
  std::vector<int> fibers;
  std::vector<std::optional<Failure>> failures;  // for each rank the failure that it knows
  std::vector<char> gone;
  std::deque<CallWatch> watches;  // indexed by rank
  Time last_death{};
  std::vector<int> hosts{};
  std::size_t room = 0;
  std::chrono::microseconds late{};
  bool pieces = false;

 private:
  std::deque<Wire> wires;
};

class SimulatedConnection final : public test::SocketlessConnection {
 public:
  SimulatedConnection(Net& net, int rank, int other) : net_(net), rank_(rank), other_(other) {}

  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    Wire& wire = net_.wire(rank_, other_);
    const std::size_t bytes = some(std::min(net_.room - wire.filled, head.size() + body.size()));
    if (bytes == 0) return {};
    const Time last = wire.chunks.empty() ? Time{} : wire.chunks.back().when;
    Wire::Chunk chunk{std::max(last, net_.simulation.now() + net_.simulation.delay(net_.late))};
    const std::size_t first = std::min(bytes, head.size());
    chunk.bytes.assign(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(first));
    chunk.bytes.insert(chunk.bytes.end(), body.begin(),
                       body.begin() + static_cast<std::ptrdiff_t>(bytes - first));
    net_.simulation.at(chunk.when, [net = &net_, other = other_] { net->wake(other); });
    wire.chunks.push_back(std::move(chunk));
    wire.filled += bytes;
    return {Step::Outcome::moved, bytes};
  }

  Step receive(std::span<std::byte> head, std::span<std::byte> body) override {
    Wire& wire = net_.wire(other_, rank_);
    if (wire.chunks.empty() || wire.chunks.front().when > net_.simulation.now()) return {};
    auto& from = wire.chunks.front().bytes;
    const std::size_t bytes = some(std::min(from.size(), head.size() + body.size()));
    if (bytes == 0) return {};
    for (std::size_t i = 0; i < bytes; ++i) {
      (i < head.size() ? head[i] : body[i - head.size()]) = from.front();
      from.pop_front();
    }
    if (from.empty()) wire.chunks.pop_front();
    wire.filled -= bytes;
    net_.wake(other_);
    return {Step::Outcome::moved, bytes};
  }

 private:
  std::size_t some(std::size_t most) {
    return net_.pieces && most > 1 && net_.simulation.one_in(2) ? 1 + net_.simulation.below(most) : most;
  }

  Net& net_;
  const int rank_, other_;
};

// A tcp transport without its control thread and sockets.
class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(Net& net, int rank)
      : net_(net), rank_(rank), pieces_(IncomingMessage::kPieces), sent_(at(net.size)), received_(sent_) {
    for (int other = 0; other < net.size; ++other) links_.emplace_back(net, rank, other);
  }
  int rank() const override { return rank_; }
  int size() const override { return net_.size; }
  std::string name() const override { return "simulated"; }
  const std::vector<int>& hosts() const override { return net_.hosts; }
  void begin(const CallRecord& call, const std::string& failure, std::span<const CallRecord>) override {
    call_ = call;
    missing_ = call.failed ? Missing{rank_, failure} : Missing{};
    if (auto mismatch = net_.watches[at(rank_)].begin(call)) net_.fail(rank_, *mismatch);
  }
  std::uint8_t ahead() const override { return call_.ahead; }
  Missing end() override { return std::exchange(missing_, {}); }
  void abort(const std::string& why) noexcept override {
    net_.fail(rank_, {Failure::Type::aborted, rank_, why});
  }

  void transfer(const Transfer& transfer) override {
    raise_if_failed();
    if (transfer.to >= size() || transfer.from >= size() || transfer.to == rank_ || transfer.from == rank_)
      throw std::logic_error("a transfer with nobody");
    OutgoingMessage out;
    IncomingMessage in;
    if (transfer.to >= 0)
      out = OutgoingMessage(call_, transfer.out, missing_, sent_[at(transfer.to)]++, kKey);
    if (transfer.from >= 0) in = IncomingMessage(transfer, size_of(call_.dtype), pieces_);
    told_ = false;
    while (true) {
      const bool sent = !out.done() && out.step(links_[at(transfer.to)]) == Step::Outcome::moved;
      const bool received = !in.done() && receive(transfer.from, in);
      if (out.done() && in.done()) break;
      raise_if_failed();
      if (!sent && !received) {
        wait(out.done() ? -1 : transfer.to, in.done() ? -1 : transfer.from);
      } else {
        told_ = false;
      }
    }
    if (missing_.rank < 0) missing_ = in.missing();
  }

 private:
  // Waits for a message to or from these ranks, as TcpTransport::sleep() does.
  void wait(int to, int from) {
    if (told_) return net_.simulation.sleep();
    const Time until = net_.simulation.now() + CallWatch::kAnnounceAfter;
    net_.simulation.sleep_until(until);
    if (net_.simulation.now() < until) return;
    told_ = true;
    net_.tell(rank_, call_, to, from);
  }

  void raise_if_failed() const {
    if (net_.failures[at(rank_)]) net_.failures[at(rank_)]->raise();
  }

  bool receive(int from, IncomingMessage& in) {
    const bool known = in.header_complete();
    const Step::Outcome outcome = in.step(links_[at(from)]);
    if (!known && in.header_complete()) look_at(from, in);
    if (in.header_complete()) in.consume();
    return outcome == Step::Outcome::moved;
  }

  void look_at(int from, const IncomingMessage& in) {
    const MessageHeader& header = in.header();
    if (!genuine(header, kKey) || header.number != received_[at(from)]++)
      throw std::logic_error("an invalid message");
    call_.ahead = std::min(call_.ahead, header.record.ahead);
    if (header.record.agreement == call_.agreement && header.bytes == in.wanted()) return;
    net_.fail(rank_,
              {Failure::Type::mismatch, from, call_.to_string() + " is not " + header.record.to_string()});
    raise_if_failed();
  }

  Net& net_;
  const int rank_;
  CallRecord call_;
  bool told_ = false;
  Missing missing_;
  std::deque<SimulatedConnection> links_;
  std::vector<std::byte> pieces_;
  std::vector<std::uint64_t> sent_, received_;
};

// A call of a collective that all ranks make. The data are small integers, so that sums do not depend on the
// order.
struct Call {
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  Algorithm algorithm = Algorithm::automatic;
  int root = -1;
  std::size_t count = 0;
  std::set<int> failed{};
  int odd = -1;  // the rank that makes a different call; -1: none
};

double value(std::size_t call, int rank, std::size_t element) {
  return static_cast<double>((call * 31 + at(rank) * 17 + element * 7) % 23) - 11;
}

constexpr Kind kKinds[] = {Kind::all_reduce,     Kind::all_reduce, Kind::all_reduce,
                           Kind::reduce_scatter, Kind::all_gather, Kind::broadcast,
                           Kind::reduce,         Kind::all_to_all, Kind::barrier};

Call random_call(Simulation& from, int size) {
  Call call;
  call.kind = kKinds[from.below(std::size(kKinds))];
  if (reduces(call.kind)) {
    constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::avg};
    call.op = kOps[from.below(4)];
  }
  constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8};
  call.dtype = kDTypes[from.below(std::size(kDTypes))];
  if (call.kind == Kind::broadcast || call.kind == Kind::reduce)
    call.root = static_cast<int>(from.below(at(size)));
  if (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter)
    call.algorithm = static_cast<Algorithm>(from.below(7));
  call.count = call.kind == Kind::barrier ? 0 : from.below(from.one_in(4) ? 300 : 20);
  if (from.one_in(60) && call.kind != Kind::barrier) call.count = 9000 + from.below(9000);
  return call;
}

// The number of elements that rank `a` sends to rank `b` in an all_to_all.
std::int64_t between(const Call& call, int a, int b) {
  return static_cast<std::int64_t>((call.count + at(a) * 3 + at(b) * 5) % 7);
}

double reduced(const Call& call, std::size_t number, int size, std::size_t element) {
  double all = value(number, 0, element);
  for (int rank = 1; rank < size; ++rank) {
    const double one = value(number, rank, element);
    all = call.op == ReduceOp::min   ? std::min(all, one)
          : call.op == ReduceOp::max ? std::max(all, one)
                                     : all + one;
  }
  return call.op == ReduceOp::avg ? all / size : all;
}

// What a rank passes to a call, and the result that it expects.
struct Data {
  std::vector<double> in{}, out{};
  std::vector<std::int64_t> in_counts{}, out_counts{};
};

Data data_of(const Call& call, std::size_t number, int rank, int size) {
  Data data;
  const std::size_t parts = call.kind == Kind::reduce_scatter ? at(size) : 1;
  for (std::size_t i = 0; i < call.count * parts && call.kind != Kind::all_to_all; ++i)
    data.in.push_back(value(number, rank, i));
  const std::size_t begin = call.kind == Kind::reduce_scatter ? at(rank) * call.count : 0;
  const bool gets = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter ||
                    (call.kind == Kind::reduce && rank == call.root);
  for (std::size_t i = 0; i < call.count && gets; ++i)
    data.out.push_back(reduced(call, number, size, begin + i));
  for (std::size_t i = 0; i < call.count && call.kind == Kind::broadcast; ++i)
    data.out.push_back(value(number, call.root, i));
  for (int other = 0; other < size && call.kind == Kind::all_gather; ++other) {
    for (std::size_t i = 0; i < call.count; ++i) data.out.push_back(value(number, other, i));
  }
  for (int other = 0; other < size && call.kind == Kind::all_to_all; ++other) {
    data.in_counts.push_back(between(call, rank, other));
    data.out_counts.push_back(between(call, other, rank));
    for (std::int64_t i = 0; i < data.in_counts.back(); ++i)
      data.in.push_back(value(number, rank * size + other, static_cast<std::size_t>(i)));
    for (std::int64_t i = 0; i < data.out_counts.back(); ++i)
      data.out.push_back(value(number, other * size + rank, static_cast<std::size_t>(i)));
  }
  return data;
}

// How many calls after this one the rank announces as queued.
std::uint8_t ahead_of(std::size_t number, int rank) {
  return static_cast<std::uint8_t>((number * 7 + at(rank) * 13 + 5) % 19);
}

std::uint8_t least_ahead(std::size_t number, int size) {
  std::uint8_t least = ahead_of(number, 0);
  for (int rank = 1; rank < size; ++rank) least = std::min(least, ahead_of(number, rank));
  return least;
}

Collective collective_of(const Call& call, std::size_t number, int rank) {
  Collective made;
  made.record.kind = call.kind;
  made.record.op = call.op;
  made.record.dtype = call.dtype;
  made.record.algorithm = call.algorithm;
  made.record.root = call.root;
  made.record.sequence = number + 1;
  made.record.ahead = ahead_of(number, rank);
  made.record.count = call.count;
  if (call.failed.count(rank)) {
    made.record.failed = 1;
    made.failure = "no input on " + std::to_string(rank);
  }
  made.record.set_agreement();
  return made;
}

template <class T>
bool run_typed(MessageCollectives& collectives, Collective& made, const Call& call, const Data& data) {
  std::vector<T> in(data.in.begin(), data.in.end()),
      out(data.out.size() + (data.out.empty() ? call.count : 0), T(99));
  if (call.kind == Kind::broadcast && made.record.root >= 0) out.assign(call.count, T(99));
  made.in = reinterpret_cast<const std::byte*>(in.data());
  made.out = reinterpret_cast<std::byte*>(out.data());
  made.in_counts = data.in_counts;
  made.out_counts = data.out_counts;
  // In a broadcast the root's data are in the output, as communicators pass them.
  if (call.kind == Kind::broadcast && data.out == data.in) out = in;
  collectives.run(made);
  for (std::size_t i = 0; i < data.out.size(); ++i) {
    // The comparison is inexact: averages are rounded, or truncated to an integer.
    if (std::abs(static_cast<double>(out[i]) - static_cast<double>(T(data.out[i]))) > 1e-5) return false;
  }
  return true;
}

// The outcome of one call on one rank, as the test sees it.
struct Seen {
  // Kind of the call's error. Empty: there was none; "wrong": there was none, but the result is wrong.
  std::string error{};
  int about = -1;  // the rank that RemoteFailure or PeerLost names
};

class Run {
 public:
  explicit Run(std::uint64_t seed)
      : simulation_(seed), size_(1 + static_cast<int>(simulation_.below(9))), net_(simulation_, size_) {
    if (simulation_.one_in(2)) {
      const std::uint64_t hosts = 1 + simulation_.below(4);
      const bool even = simulation_.one_in(2);
      for (int rank = 0; rank < size_; ++rank)
        net_.hosts.push_back(static_cast<int>(even ? at(rank) % hosts : simulation_.below(hosts)));
    }
    reproducible_ = simulation_.one_in(3);
    for (auto n = 1 + simulation_.below(4); n > 0; --n) calls_.push_back(random_call(simulation_, size_));
    trouble_ = static_cast<Trouble>(simulation_.below(4));
    if (size_ == 1 && trouble_ != Trouble::failure) trouble_ = Trouble::none;
    Call& troubled = calls_[simulation_.below(calls_.size())];
    if (trouble_ == Trouble::failure) {
      for (auto n = 1 + simulation_.below(2); n > 0; --n) troubled.failed.insert(any_rank());
    }
    if (trouble_ == Trouble::mismatch) troubled.odd = any_rank();
    agree_first_ = trouble_ == Trouble::mismatch || simulation_.one_in(2);
  }

  std::string run() {
    seen_.resize(at(size_));
    told_.resize(at(size_));
    for (int rank = 0; rank < size_; ++rank)
      net_.fibers[at(rank)] = simulation_.start([this, rank] { live(rank); }, simulation_.delay(1ms));
    if (trouble_ == Trouble::death) {
      for (auto n = 1 + simulation_.below(2); n > 0; --n)
        net_.later(std::chrono::microseconds(1000 + simulation_.below(3000)),
                   [this, rank = any_rank()] { net_.die(rank); });
    }
    if (!simulation_.run()) return "deadlock" + where();
    for (int rank = 0; rank < size_; ++rank) {
      if (net_.gone[at(rank)]) continue;
      if (std::string problem = judge(rank); !problem.empty())
        return "rank " + std::to_string(rank) + " of " + std::to_string(size_) + ": " + problem;
    }
    return "";
  }

 private:
  enum class Trouble { none, failure, death, mismatch };
  int any_rank() { return static_cast<int>(simulation_.below(at(size_))); }

  void live(int rank) {
    SimulatedTransport transport(net_, rank);
    MessageCollectives collectives(transport, reproducible_, agree_first_);
    for (std::size_t number = 0; number < calls_.size(); ++number) {
      seen_[at(rank)].push_back({"nothing"});
      Seen seen = call(collectives, number, rank);
      seen_[at(rank)].back() = seen;
      told_[at(rank)] = simulation_.now();
      if (!seen.error.empty() && seen.error != "RemoteFailure") return;
    }
  }

  Seen call(MessageCollectives& collectives, std::size_t number, int rank) {
    Call call = calls_[number];
    if (call.odd == rank) call = other_than(call);
    const Data data = data_of(call, number, rank, size_);
    Collective made = collective_of(call, number, rank);
    const auto run = call.dtype == DType::f32    ? run_typed<float>
                     : call.dtype == DType::f64  ? run_typed<double>
                     : call.dtype == DType::f16  ? run_typed<Float16>
                     : call.dtype == DType::bf16 ? run_typed<BFloat16>
                                                 : run_typed<std::int8_t>;
    try {
      const bool right = run(collectives, made, call, data);
      // The ranks must agree on the number of queued calls that they could fuse, also those whose input has
      // failed.
      const bool knows = call.kind == Kind::all_reduce && call.count > 0;
      if (made.record.ahead != (knows ? least_ahead(number, size_) : 0))
        return {"another number of calls ahead"};
      return {right || made.record.failed ? "" : "wrong"};
    } catch (const RemoteFailure& error) {
      const bool why = std::string(error.what()).ends_with("no input on " + std::to_string(error.rank()));
      return {why ? "RemoteFailure" : "another text: " + std::string(error.what()), error.rank()};
    } catch (const CommMismatch&) {
      return {"CommMismatch"};
    } catch (const PeerLost& error) {
      return {"PeerLost", error.rank()};
    } catch (const std::exception& error) {
      return {error.what()};
    }
  }

  Call other_than(Call call) {
    if (call.kind != Kind::barrier && call.kind != Kind::all_to_all && simulation_.one_in(2)) {
      ++call.count;
    } else if (reduces(call.kind) && simulation_.one_in(2)) {
      call.op = call.op == ReduceOp::min ? ReduceOp::max : ReduceOp::min;
    } else {
      const Kind before = call.kind;
      while (call.kind == before) call = random_call(simulation_, size_);
    }
    return call;
  }

  // Whether all ranks hear that an op has failed. With agree_first they hear of every failure. Without it,
  // ranks may not hear of it that get no data from the failed rank.
  bool all_hear(const Call& call) const {
    return agree_first_ || call.root < 0 || call.failed.count(call.root);
  }
  bool needs_all(const Call& call, int rank) const {
    return all_hear(call) && (call.kind != Kind::reduce || agree_first_ || rank == call.root);
  }

  std::string judge(int rank) const {
    const auto& seen = seen_[at(rank)];
    bool over = false;
    for (std::size_t number = 0; number < seen.size() && !over; ++number) {
      const Call& call = calls_[number];
      const std::string error = seen[number].error;
      const std::string text = "call " + std::to_string(number) + " (" + name_of(call.kind) + " by " +
                               name_of(call.algorithm) + ", " + std::to_string(call.count) + "): " + error;
      over = !error.empty() && error != "RemoteFailure";
      if (error == "RemoteFailure") {
        if (!call.failed.count(seen[number].about) || call.failed.count(rank)) return text + ", untrue";
      } else if (error == "PeerLost") {
        if (trouble_ != Trouble::death || !net_.gone[at(seen[number].about)]) return text + ", untrue";
        if (told_[at(rank)] > net_.last_death + kDetection + kMaxDelay) return text + ", too late";
      } else if (error == "CommMismatch") {
        // The error may be about a later call, which another rank has begun already.
        const auto odd = [](const Call& one) { return one.odd >= 0; };
        if (std::none_of(calls_.begin() + static_cast<std::ptrdiff_t>(number), calls_.end(), odd))
          return text + ", untrue";
      } else if (!error.empty()) {
        return text;
      } else if (call.odd >= 0) {
        return text + "nothing, though the ranks called different things";
      } else if (!call.failed.empty() && !call.failed.count(rank) && needs_all(call, rank)) {
        return text + "nothing, though an op had failed";
      }
    }
    return over || seen.size() == calls_.size() ? "" : "has not made all its calls";
  }

  std::string where() const {
    std::string text;
    for (int rank = 0; rank < size_; ++rank) {
      const auto& seen = seen_[at(rank)];
      const bool waits = !seen.empty() && seen.back().error == "nothing";
      if (!waits) continue;
      const Call& call = calls_[seen.size() - 1];
      text += "; rank " + std::to_string(rank) + " of " + std::to_string(size_) + " waits in " +
              name_of(call.kind) + " by " + name_of(call.algorithm) +
              (call.odd == rank ? " (not what it called)" : "");
    }
    return text;
  }

  Simulation simulation_;
  const int size_;
  Net net_;
  bool reproducible_ = false, agree_first_ = false;
  Trouble trouble_ = Trouble::none;
  std::vector<Call> calls_{};
  std::vector<std::vector<Seen>> seen_{};  // outcomes by rank and call
  std::vector<Time> told_{};
};

}  // namespace

std::string simulate_calls(std::uint64_t seed) { return Run(seed).run(); }

}  // namespace heddle::test
