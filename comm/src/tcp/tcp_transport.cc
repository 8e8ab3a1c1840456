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
#include "core/mismatch.h"
#include "tcp/control_thread.h"
#include "tcp/mesh.h"
#include "tcp/message.h"
#include "tcp/neighbours.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// How long the control thread may take to find out why a data connection has ended.
constexpr std::chrono::milliseconds kVerdict{1000};

// How long another rank may take to say what it has called.
constexpr std::chrono::milliseconds kAnswer{80};

// Between two looks whether a wait is in vain.
constexpr std::chrono::milliseconds kMostPatience{1000};

std::string name(int rank) { return "rank " + std::to_string(rank); }

class TcpTransport final : public MeshTransport {
 public:
  TcpTransport(Mesh mesh, std::vector<int> hosts, const TcpOptions& options)
      : rank_(mesh.rank),
        key_(mesh.key),
        options_(options),
        hosts_(std::move(hosts)),
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
                                                      ControlThread::Waits{watch_, deadlock_search_});
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
  ControlChannel& line() override { return *control_thread_; }

  void begin(const CallRecord& call, const std::string& failure,
             std::span<const CallRecord> members) override {
    call_ = call;
    members_.assign(members.begin(), members.end());
    if (members.empty()) members_.assign(1, call);
    told_ = false;
    missing_ = {};
    if (call.failed) missing_ = {rank_, failure};
    for (const CallRecord& member : members_) began(member);
  }
  std::uint8_t ahead() const override { return call_.ahead; }

  FaultState& fault_state() override { return fault_state_; }
  void began(const CallRecord& call) override {
    if (auto mismatch = watch_.began(call)) fault_state_.fail(*std::move(mismatch));
  }
  void waits_in(const CallRecord& call) override { control_thread_->tell_calls({&call, 1}); }
  std::uint64_t latest_of(int rank) override { return watch_.latest_of(rank); }
  void leave_before(Clock::time_point end) noexcept override {
    leaves_before_ = end;
    control_thread_->leave_before(end);
  }

  void transfer(const Transfer& transfer) override {
    if (fault_state_.failed()) fault_state_.raise();
    check(transfer);
    OutgoingMessage out;
    IncomingMessage in;
    if (transfer.to == rank_ || transfer.from == rank_) to_oneself(transfer);
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
    } catch (...) {  // no memory for the words
      fault_state_.fail({Failure::Type::aborted, rank_});
    }
  }

 private:
  struct Peer {
    std::unique_ptr<Connection> data{};
  };
  struct ToOneself {
    CallRecord call;
    std::vector<std::byte> body;
    Missing missing;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  MessageCounts& counts(int rank) { return counts_[static_cast<std::size_t>(rank)]; }

  void check(const Transfer& transfer) const {
    if (transfer.to < size() && transfer.from < size()) return;
    throw InvalidArgument("a transfer to " + comm_detail::name(transfer.to) + " and from " +
                          comm_detail::name(transfer.from) + " among " + std::to_string(size()) + " ranks");
  }

  void exchange(const Transfer& transfer, OutgoingMessage& out, IncomingMessage& in) {
    bool waiting = false;
    Nap nap;
    Clock::time_point spin_until;
    for (;;) {
      const bool sent = !out.done() && send(transfer.to, out),
                 received = !in.done() && receive(transfer.from, in);
      if (out.done() && in.done()) return;
      if (fault_state_.failed()) fault_state_.raise();
      if (sent || received) {
        waiting = false;
        nap = {};
      } else if (!std::exchange(waiting, true)) {
        spin_until = Clock::now() + options_.spin;
      } else if (Clock::now() >= spin_until) {
        sleep(out.done() ? -1 : transfer.to, in.done() ? -1 : transfer.from, in.header_complete(), nap);
      } else {
        core_.yield();
      }
    }
  }

  bool send(int to, OutgoingMessage& out) {
    const Step::Outcome outcome = out.step(*peer(to).data);
    if (outcome == Step::Outcome::closed) find_out_why(to);
    return outcome == Step::Outcome::moved;
  }

  bool receive(int from, IncomingMessage& in) {
    const bool known = in.header_complete();
    const Step::Outcome outcome = in.step(*peer(from).data);
    if (outcome == Step::Outcome::closed) find_out_why(from);
    if (!known && in.header_complete()) look_at(from, in);
    if (in.header_complete()) in.take();
    return outcome == Step::Outcome::moved;
  }

  void look_at(int from, const IncomingMessage& in) {
    const MessageHeader& header = in.header();
    const bool says_who = !header.record.failed || (header.missing >= 0 && header.missing < size());
    if (!genuine(header, key_) || !says_who || header.number != counts(from).received++) {
      give_up({Failure::Type::mismatch, from,
               comm_detail::name(from) + " sends " + comm_detail::name(rank_) + " what is no message, in " +
                   call_.to_string()});
    }
    look_at(from, header.record, header.bytes, in.wanted());
    call_.ahead = std::min(call_.ahead, header.record.ahead);
  }

  // A send names the rank that it is meant for, and a recv the one it waits for.
  void look_at(int from, const CallRecord& theirs, std::size_t bytes, std::size_t wanted) {
    const bool meant = !is_pair(call_.kind) || (theirs.root == rank_ && call_.root == from);
    if (theirs.agreement == call_.agreement && bytes == wanted && meant) return;
    if (members_.size() > 1) find_out_which();
    const CallOf sender{from, theirs}, receiver{rank_, call_};
    const bool same = theirs.agreement == call_.agreement && meant;
    give_up({Failure::Type::mismatch, from,
             same ? different_lengths(sender, bytes, receiver, wanted) : different_calls(sender, receiver)});
  }

  // Of the calls that went as one: whoever has called something else says so.
  void find_out_which() {
    control_thread_->tell_calls(members_);
    await_news(kAnswer, [] { return false; });
  }

  // Until the control thread knows enough, for so long at most. Throws if that is a failure.
  template <class Enough> void await_news(std::chrono::milliseconds most, Enough enough) {
    const auto deadline = Clock::now() + most;
    while (!fault_state_.failed() && !enough() && Clock::now() < deadline) {
      pollfd polled{fault_state_.caller_alarm().fd(), POLLIN, 0};
      poll(&polled, 1, static_cast<int>(most.count()));
      fault_state_.caller_alarm().quiet();
    }
    if (fault_state_.failed()) fault_state_.raise();
  }

  [[noreturn]] void give_up(Failure failure) {
    fault_state_.fail(std::move(failure));
    fault_state_.raise();
  }

  void to_oneself(const Transfer& transfer) {
    if (transfer.to == rank_)
      to_oneself_.push_back({call_, {transfer.out.begin(), transfer.out.end()}, missing_});
    if (transfer.from != rank_) return;
    if (to_oneself_.empty()) {
      give_up(
          {Failure::Type::mismatch, rank_,
           comm_detail::name(rank_) + " waits for what it has not sent to itself, in " + call_.to_string()});
    }
    const ToOneself message = std::move(to_oneself_.front());
    to_oneself_.pop_front();
    look_at(rank_, message.call, message.body.size(), transfer.in.size());
    if (message.missing.rank < 0) return deliver(transfer, 0, message.body, size_of(call_.dtype));
    if (missing_.rank < 0) missing_ = message.missing;
  }

  // A wait in which nothing has moved so far.
  struct Nap {
    std::optional<Clock::time_point> tell{};  // others then, who look whether it is in vain
    std::chrono::milliseconds patience = CallWatch::kPatience;
  };

  // Until something can go on, or the control thread has news. -1: nothing to do there. `comes`: what is wanted of `from` has begun
  // to come.
  void sleep(int to, int from, bool comes, Nap& nap) {
    if (to >= 0 && fault_state_.left(to)) give_up(left(to));
    std::array<pollfd, 3> polled{{{fault_state_.caller_alarm().fd(), POLLIN, 0}, {-1, 0, 0}, {-1, 0, 0}}};
    std::size_t streams = 1;
    for (const int other : {to, to == from ? -1 : from}) {
      if (other < 0) continue;
      const auto ready = peer(other).data->before_sleep(other == to, other == from);
      if (!ready) return;
      polled[streams++] = *ready;
    }
    if (!nap.tell) {
      nap.tell = Clock::now() + nap.patience;
      deadlock_search_.moves();
    }
    // Nobody looks for signs of life of a rank that has left: what it sent must be here in time.
    const bool bounded = from >= 0 && fault_state_.left(from);
    deadlock_search_.sleeps(call_, comes ? -1 : from, to);
    int ready = 0;
    for (;;) {
      ready = poll(polled.data(), polled.size(), patience(bounded, nap));
      if (ready != 0 || bounded) break;
      tell(nap);
    }
    deadlock_search_.wakes();
    if (ready == 0 && bounded) give_up(left(from));
    if (polled[0].revents) fault_state_.caller_alarm().quiet();
  }

  int patience(bool bounded, const Nap& nap) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*nap.tell - Clock::now());
    return static_cast<int>(bounded ? options_.timeout.count() : std::max(left, 0ms).count());
  }

  // Asleep: the control thread is to find this rank so. It does not answer, and may come too late, so later once more.
  void tell(Nap& nap) {
    nap.patience = std::min(2 * nap.patience, kMostPatience);
    nap.tell = Clock::now() + nap.patience;
    if (is_of_all(call_) && !std::exchange(told_, true)) control_thread_->tell_calls(members_);
    control_thread_->look_for_deadlock();
  }

  Failure left(int rank) const {
    return {Failure::Type::lost, rank,
            comm_detail::name(rank) + " left the communicator, while " + comm_detail::name(rank_) +
                " waits for it in " + call_.to_string()};
  }

  // The data connection has ended. Only the control thread knows whether the rank has left or is lost.
  [[noreturn]] void find_out_why(int rank) {
    await_news(kVerdict, [&] { return fault_state_.left(rank); });
    if (fault_state_.left(rank)) give_up(left(rank));
    give_up({Failure::Type::lost, rank,
             comm_detail::name(rank) + " has ended its connection with " + comm_detail::name(rank_)});
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
  const std::vector<int> hosts_;  // by rank
  CoreShare core_;
  CallRecord call_;
  std::vector<CallRecord> members_;  // that go as this one; itself if it goes alone
  bool told_ = false;                // to the others, that this rank waits in it
  Missing missing_;                  // of this call
  FaultState fault_state_;
  CallWatch watch_;
  std::vector<MessageCounts> counts_;  // by rank; written by the caller alone, while it does not sleep
  DeadlockSearch deadlock_search_;
  std::vector<Peer> peers_;
  std::vector<std::byte> pieces_;
  std::deque<ToOneself> to_oneself_;
  Clock::time_point leaves_before_ = Clock::time_point::max();
  std::unique_ptr<ControlThread> control_thread_;
};

}  // namespace

std::unique_ptr<MeshTransport> make_tcp_transport(Rendezvous& rendezvous, const TcpOptions& options) {
  const PortRange ports = options.ports.empty() ? port_range() : parse_port_range(options.ports);
  Mesh mesh = make_mesh(rendezvous, options.address, ports, options.timeout, options.security);
  std::vector<int> hosts = meet_neighbours(rendezvous, mesh, options.host);
  if (options.wires) options.wires(rendezvous, mesh);
  return std::make_unique<TcpTransport>(std::move(mesh), std::move(hosts), options);
}

}  // namespace heddle::comm_detail
