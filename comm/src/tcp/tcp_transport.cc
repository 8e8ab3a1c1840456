#include "tcp/tcp_transport.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <poll.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/core_share.h"
#include "core/failure.h"
#include "core/mismatch.h"
#include "tcp/control_thread.h"
#include "tcp/mesh.h"
#include "tcp/message.h"
#include "tcp/neighbours.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// How long a transfer whose data connection has ended waits for the control thread to learn why.
constexpr std::chrono::milliseconds kMaxFailureDelay{1000};

// How long a transfer waits for another rank's announced calls to be compared.
constexpr std::chrono::milliseconds kMaxAnnounceDelay{1000};

// The longest interval between two searches for a deadlock.
constexpr std::chrono::milliseconds kMaxSearchInterval{1000};

class TcpTransport final : public MeshTransport {
 public:
  TcpTransport(Mesh mesh, std::vector<int> hosts, const TcpOptions& options)
      : rank_(mesh.rank),
        key_(mesh.key),
        options_(options),
        hosts_(std::move(hosts)),
        oversubscribed_(ranks_share_cores(ranks_here())),
        fault_state_(static_cast<int>(mesh.links.size())),
        watch_(mesh.rank, static_cast<int>(mesh.links.size())),
        counts_(mesh.links.size()),
        deadlock_search_(mesh.rank, counts_),
        pieces_(IncomingMessage::kPieces) {
    std::vector<std::unique_ptr<Connection>> control;
    for (Link& link : mesh.links) {
      peers_.push_back({std::move(link.data)});
      control.push_back(std::move(link.control));
    }
    const ControlThread::Self self{rank_, mesh.epoch, key_, options.timeout};
    control_thread_ = std::make_unique<ControlThread>(self, std::move(control), fault_state_,
                                                      ControlThread::Detectors{watch_, deadlock_search_});
  }

  ~TcpTransport() override {
    const auto deadline = std::min(Clock::now() + options_.timeout, leaves_before_);
    for (Peer& peer : peers_) {
      if (peer.data) peer.data->finish_sending();
    }
    control_thread_.reset();
    if (!fault_state_.failed()) await_delivery(deadline);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::string name() const override { return options_.name; }
  const std::vector<int>& hosts() const override { return hosts_; }
  int ranks_here() const override {
    const int here = hosts_[static_cast<std::size_t>(rank_)];
    return static_cast<int>(std::count(hosts_.begin(), hosts_.end(), here));
  }
  ControlChannel& control_channel() override { return *control_thread_; }

  void begin(const CallRecord& call, const std::string& failure,
             std::span<const CallRecord> members) override {
    call_ = call;
    members_.assign(members.begin(), members.end());
    if (members.empty()) members_.assign(1, call);
    missing_ = {};
    if (call.failed) missing_ = {rank_, failure};
    for (const CallRecord& member : members_) begin_call(member);
  }
  std::uint8_t ahead() const override { return call_.ahead; }

  FaultState& fault_state() override { return fault_state_; }
  void begin_call(const CallRecord& call) override {
    if (auto mismatch = watch_.begin(call)) fault_state_.fail(*std::move(mismatch));
  }
  void announce_call(const CallRecord& call) override { control_thread_->announce_calls({&call, 1}); }
  std::uint64_t latest_announced(int rank) override { return watch_.latest_announced(rank); }
  void leave_before(Clock::time_point end) noexcept override {
    leaves_before_ = end;
    control_thread_->leave_before(end);
  }

  void transfer(const Transfer& transfer) override {
    if (fault_state_.failed()) fault_state_.raise();
    check(transfer);
    OutgoingMessage out;
    IncomingMessage in;
    if (transfer.to == rank_ || transfer.from == rank_) to_self(transfer);
    if (transfer.to >= 0 && transfer.to != rank_) {
      out = OutgoingMessage(call_, transfer.out, missing_, counts(transfer.to).sent++, key_);
    }
    if (transfer.from >= 0 && transfer.from != rank_) {
      in = IncomingMessage(transfer, size_of(call_.dtype), pieces_);
    }
    exchange(transfer, out, in);
    if (missing_.rank < 0) missing_ = in.missing();
  }

  Missing end() override { return std::exchange(missing_, {}); }

  void abort(const std::string& why) noexcept override {
    try {
      fault_state_.fail({Failure::Type::aborted, rank_, why});
    } catch (...) {  // there is no memory for the text of the failure
      fault_state_.fail({Failure::Type::aborted, rank_});
    }
  }

 private:
  struct Peer {
    std::unique_ptr<Connection> data{};
  };
  struct SelfMessage {
    CallRecord call;
    std::vector<std::byte> body;
    Missing missing;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  MessageCounts& counts(int rank) { return counts_[static_cast<std::size_t>(rank)]; }

  void check(const Transfer& transfer) const {
    if (transfer.to < size() && transfer.from < size()) return;
    throw InvalidArgument("a transfer to " + rank_name(transfer.to) + " and from " +
                          rank_name(transfer.from) + " among " + std::to_string(size()) + " ranks");
  }

  void exchange(const Transfer& transfer, OutgoingMessage& out, IncomingMessage& in) {
    bool waiting = false;
    Wait wait;
    Clock::time_point spin_until;
    for (;;) {
      const bool sent = !out.done() && send(transfer.to, out),
                 received = !in.done() && receive(transfer.from, in);
      if (out.done() && in.done()) return;
      if (fault_state_.failed()) fault_state_.raise();
      if (sent || received) {
        waiting = false;
        wait = {};
      } else if (!std::exchange(waiting, true)) {
        spin_until = Clock::now() + options_.spin;
      } else if (Clock::now() >= spin_until) {
        sleep(out.done() ? -1 : transfer.to, in.done() ? -1 : transfer.from, in.header_complete(), wait);
      } else {
        core_.yield(!oversubscribed_);
      }
    }
  }

  bool send(int to, OutgoingMessage& out) {
    const Step::Outcome outcome = out.step(*peer(to).data);
    if (outcome == Step::Outcome::closed) fail_closed(to);
    return outcome == Step::Outcome::moved;
  }

  bool receive(int from, IncomingMessage& in) {
    const bool known = in.header_complete();
    const Step::Outcome outcome = in.step(*peer(from).data);
    if (outcome == Step::Outcome::closed) fail_closed(from);
    if (!known && in.header_complete()) check_header(from, in);
    if (in.header_complete()) in.consume();
    return outcome == Step::Outcome::moved;
  }

  void check_header(int from, const IncomingMessage& in) {
    const MessageHeader& header = in.header();
    const bool valid_missing = !header.record.failed || (header.missing >= 0 && header.missing < size());
    if (!genuine(header, key_) || !valid_missing || header.number != counts(from).received++) {
      fail({Failure::Type::mismatch, from,
            rank_name(from) + " sends " + rank_name(rank_) + " an invalid message, in " + call_.to_string()});
    }
    check_call(from, header.record, header.bytes, in.wanted());
    call_.ahead = std::min(call_.ahead, header.record.ahead);
  }

  // A send and a recv match if each names the rank of the other.
  void check_call(int from, const CallRecord& theirs, std::size_t bytes, std::size_t wanted) {
    const bool meant = !is_point_to_point(call_.kind) || (theirs.root == rank_ && call_.root == from);
    if (theirs.agreement == call_.agreement && bytes == wanted && meant) return;
    if (members_.size() > 1) await_call_comparison();
    const CallOf sender{from, theirs}, receiver{rank_, call_};
    const bool same = theirs.agreement == call_.agreement && meant;
    fail({Failure::Type::mismatch, from,
          same ? different_lengths(sender, bytes, receiver, wanted) : different_calls(sender, receiver)});
  }

  // Called when fused calls do not match. Announces each of them, so that the error names the one that differs.
  void await_call_comparison() {
    control_thread_->announce_calls(members_);
    await_control_thread(kMaxAnnounceDelay, [] { return false; });
  }

  // Blocks until enough() holds or `most` has passed. Throws the communicator's failure if there is one by
  // then.
  template <class Enough> void await_control_thread(std::chrono::milliseconds most, Enough enough) {
    const auto deadline = Clock::now() + most;
    while (!fault_state_.failed() && !enough() && Clock::now() < deadline) {
      pollfd polled{fault_state_.caller_event().fd(), POLLIN, 0};
      poll(&polled, 1, static_cast<int>(most.count()));
      fault_state_.caller_event().clear();
    }
    if (fault_state_.failed()) fault_state_.raise();
  }

  [[noreturn]] void fail(Failure failure) {
    fault_state_.fail(std::move(failure));
    fault_state_.raise();
  }

  void to_self(const Transfer& transfer) {
    if (transfer.to == rank_)
      to_self_.push_back({call_, {transfer.out.begin(), transfer.out.end()}, missing_});
    if (transfer.from != rank_) return;
    if (to_self_.empty()) {
      fail({Failure::Type::mismatch, rank_,
            rank_name(rank_) + " waits for what it has not sent to itself, in " + call_.to_string()});
    }
    const SelfMessage message = std::move(to_self_.front());
    to_self_.pop_front();
    check_call(rank_, message.call, message.body.size(), transfer.in.size());
    if (message.missing.rank < 0) return deliver(transfer, 0, message.body, size_of(call_.dtype));
    if (missing_.rank < 0) missing_ = message.missing;
  }

  // The state of a wait in which nothing has been sent or received so far.
  struct Wait {
    std::optional<Clock::time_point> next_search{};  // when mismatches and deadlocks are searched for next
    std::chrono::milliseconds interval = CallWatch::kAnnounceAfter;
    bool announced = false;  // whether the awaited ranks have been told which call this rank is in
  };

  // Blocks until the transfer can go on or the control thread has signalled a failure. `to` or `from` -1:
  // there is no message to or from a rank. `arriving`: the message from `from` has begun to arrive.
  void sleep(int to, int from, bool arriving, Wait& wait) {
    if (to >= 0 && fault_state_.left(to)) fail(left_failure(to));
    std::array<pollfd, 3> polled{{{fault_state_.caller_event().fd(), POLLIN, 0}, {-1, 0, 0}, {-1, 0, 0}}};
    std::size_t streams = 1;
    for (const int other : {to, to == from ? -1 : from}) {
      if (other < 0) continue;
      const auto ready = peer(other).data->before_sleep(other == to, other == from);
      if (!ready) return;
      polled[streams++] = *ready;
    }
    if (!wait.next_search) {
      wait.next_search = Clock::now() + wait.interval;
      deadlock_search_.begin_wait();
    }
    // A rank that has left sends no heartbeats, so its message must arrive within the timeout.
    const bool bounded = from >= 0 && fault_state_.left(from);
    deadlock_search_.begin_sleep(call_, arriving ? -1 : from, to);
    int ready = 0;
    for (;;) {
      ready = poll(polled.data(), polled.size(), poll_timeout(bounded, wait));
      if (ready != 0 || bounded) break;
      search(to, from, wait);
    }
    deadlock_search_.end_sleep();
    if (ready == 0 && bounded) fail(left_failure(from));
    if (polled[0].revents) fault_state_.caller_event().clear();
  }

  int poll_timeout(bool bounded, const Wait& wait) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wait.next_search - Clock::now());
    return static_cast<int>(bounded ? options_.timeout.count() : std::max(left, 0ms).count());
  }

  // Searches for the reason of a long wait, while this rank counts as asleep. A search that finds nothing gives no
  // answer, and a deadlock may arise after it, so it is repeated.
  void search(int to, int from, Wait& wait) {
    wait.interval = std::min(2 * wait.interval, kMaxSearchInterval);
    wait.next_search = Clock::now() + wait.interval;
    if (!std::exchange(wait.announced, true)) announce_members(to, from);
    control_thread_->start_deadlock_search();
  }

  void announce_members(int to, int from) {
    for (const CallRecord& member : members_) {
      if (!is_collective_call(member)) continue;
      for (const int other : ranks_to_tell(member, size(), to, from)) {
        if (other >= 0 && other != rank_) control_thread_->announce_calls({&member, 1}, other);
      }
    }
  }

  Failure left_failure(int rank) const {
    return {Failure::Type::lost, rank,
            rank_name(rank) + " left the communicator while " + rank_name(rank_) + " waited for it in " +
                call_.to_string()};
  }

  // The data connection has ended. The control thread learns whether the rank has left or is lost.
  [[noreturn]] void fail_closed(int rank) {
    await_control_thread(kMaxFailureDelay, [&] { return fault_state_.left(rank); });
    if (fault_state_.left(rank)) fail(left_failure(rank));
    fail({Failure::Type::lost, rank, rank_name(rank) + " has ended its connection with " + rank_name(rank_)});
  }

  void await_delivery(Clock::time_point deadline) {
    const auto delivered = [](const Peer& peer) { return !peer.data || peer.data->all_delivered(); };
    for (auto pause = 1ms; Clock::now() < deadline; pause = std::min(2 * pause, 20ms)) {
      if (std::all_of(peers_.begin(), peers_.end(), delivered)) return;
      std::this_thread::sleep_for(pause);
    }
  }

  const int rank_;
  const Key key_;
  const TcpOptions options_;
  const std::vector<int> hosts_;  // number of each rank's host
  const bool oversubscribed_;     // see ranks_share_cores
  CoreShare core_;
  CallRecord call_;
  std::vector<CallRecord> members_;  // the calls that are fused into call_, or call_ itself if there are none
  Missing missing_;                  // the rank without data in call_, and why
  FaultState fault_state_;
  CallWatch watch_;
  std::vector<MessageCounts> counts_;  // counts by rank, written by the thread that makes the transfers
  DeadlockSearch deadlock_search_;
  std::vector<Peer> peers_;
  std::vector<std::byte> pieces_;
  std::deque<SelfMessage> to_self_;
  Clock::time_point leaves_before_ = Clock::time_point::max();
  std::unique_ptr<ControlThread> control_thread_;
};

}  // namespace

std::unique_ptr<MeshTransport> make_tcp_transport(Rendezvous& rendezvous, const TcpOptions& options) {
  const PortRange ports = options.ports.empty() ? port_range() : parse_port_range(options.ports);
  Mesh mesh = make_mesh(rendezvous, options.address, ports, options.timeout, options.security);
  std::vector<int> hosts = connect_neighbours(rendezvous, mesh, options.host);
  if (options.connect_data) options.connect_data(rendezvous, mesh);
  return std::make_unique<TcpTransport>(std::move(mesh), std::move(hosts), options);
}

}  // namespace heddle::comm_detail
