#include "bootstrap/rendezvous.h"

#include <algorithm>
#include <deque>
#include <poll.h>
#include <random>

#include <heddle/log.h>
#include <heddle/number_text.h>

#include "bootstrap/rendezvous_socket.h"
#include "bootstrap/rendezvous_wire.h"
#include "connection/environment.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHelloTimeout{2000};   // a connection without a hello is closed after this time
constexpr milliseconds kFailureTimeout{200};  // limit for sending a failure to all ranks
// The other ranks' timeout is longer than rank 0's by this much, since only rank 0 knows which ranks are
// missing.
constexpr milliseconds kPeerGrace{1000};
// A rank that waits for others logs that after kFirstNotice, and then every kNoticeAgain.
constexpr milliseconds kFirstNotice{5000}, kNoticeAgain{15'000};
constexpr std::size_t kMaxUnidentified = 128;
constexpr int kRetryMilliseconds = 20;

int left_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

std::string seconds(milliseconds time) {
  return number_text(static_cast<double>(time.count()) / 1000) + " s";
}

std::string ranks(const std::vector<int>& list) {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(list[i]);
  return text;
}

// A hint for the error of a process that was restarted. Ranks that do not expect a restart never come.
std::string restart_note() {
  const std::string restart = variable("HEDDLE_RESTART");
  if (restart.empty() || restart == "0") return "";
  return " (this process was started anew, HEDDLE_RESTART is " + restart + ": the others meet it by grow())";
}

void check_text(const std::string& text) {
  if (text.size() <= kLongestText) return;
  throw InvalidArgument("all_gather: got " + std::to_string(text.size()) + " bytes, want 65536 at most");
}

// Waits until one of the channels that were added can receive or send.
struct Poll {
  Poll() = default;
  explicit Poll(Channel& one, bool to_receive = true) { add(one, to_receive); }
  void add(Channel& one, bool to_receive = true) {
    if (const auto wanted = one.before_sleep(to_receive)) {
      polled.push_back(*wanted);
    } else {
      ready = true;
    }
  }
  void until(Clock::time_point deadline) {
    ::poll(polled.data(), polled.size(), ready ? 0 : left_until(deadline));
  }

  std::vector<pollfd> polled{};
  bool ready = false;  // whether one of the channels has received something
};

// A job of one rank.
class SingleRank : public Rendezvous {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::uint32_t epoch() const override { return epoch_; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    return check_text(mine), std::vector{mine};
  }

 private:
  std::uint32_t epoch_ = std::random_device{}();
};

// Rank 0, to which all other ranks connect. One thread serves all connections with poll().
class Root : public Rendezvous {
 public:
  Root(const LaunchEnvironment& job, milliseconds timeout, const SecurityPolicy& security)
      : size_(job.size),
        timeout_(timeout),
        meeting_address_(job, security),
        others_(static_cast<std::size_t>(job.size)) {
    join();
  }

  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::uint32_t epoch() const override { return epoch_; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    check_text(mine);
    if (!broken_.empty()) throw CommError(broken_);
    deadline_ = Clock::now() + timeout_;
    ++round_;
    std::vector<std::string> texts(others_.size());
    texts[0] = mine;
    std::vector<bool> received(others_.size());
    received[0] = true;
    while (std::find(received.begin(), received.end(), false) != received.end())
      step(nullptr, &received, &texts);
    std::string results;
    for (int of = 0; of < size_; ++of) pack(results, header(FrameType::result, of), texts[at(of)]);
    const auto packed = std::make_shared<const std::string>(std::move(results));
    for (int to = 1; to < size_; ++to) channel(to).post(packed);
    send_all();
    return texts;
  }

 private:
  struct Unidentified {
    std::unique_ptr<Channel> channel;
    Clock::time_point deadline;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  Channel& channel(int rank) { return *others_[at(rank)]; }

  FrameHeader header(FrameType type, int rank) const {
    return {.type = type, .rank = rank, .size = size_, .round = round_};
  }

  void join() {
    deadline_ = Clock::now() + timeout_;
    std::unique_ptr<Listener> listener;
    std::string why;
    while (!(listener = Listener::open(meeting_address_, why))) {
      if (left_until(deadline_) == 0)
        throw CommError("rank 0 cannot listen at " + meeting_address_.text + ", tried for " +
                        seconds(timeout_) + ": " + why);
      ::poll(nullptr, 0, kRetryMilliseconds);
    }
    while (!missing().empty()) step(listener.get(), nullptr, nullptr);
    listener.reset();  // closed, so that no rank connects for the next rendezvous here
    unidentified_.clear();
    round_ = epoch_;
    for (int to = 1; to < size_; ++to) channel(to).post(header(FrameType::welcome, 0));
    send_all();
    round_ = 0;
  }

  std::vector<int> missing() const {
    std::vector<int> list;
    for (int rank = 1; rank < size_; ++rank) {
      if (!others_[at(rank)]) list.push_back(rank);
    }
    return list;
  }

  // Rank 0 logs this, because the other ranks do not know for whom they wait.
  void say_who_is_missing() {
    const auto now = Clock::now();
    if (now < next_notice_ || missing().empty()) return;
    next_notice_ = now + kNoticeAgain;
    const auto waited = std::chrono::duration_cast<milliseconds>(now - begun_);
    write_log("heddle: rank 0 has waited for " + seconds(waited) + " at " + meeting_address_.text + " for " +
              ranks(missing()) + " of " + std::to_string(size_) + refused_);
  }

  // Waits until something has been received from any connection, and handles it.
  void step(Listener* listener, std::vector<bool>* received, std::vector<std::string>* texts) {
    Poll poll;
    for (const auto& other : others_) {
      if (other) poll.add(*other);
    }
    Clock::time_point until = deadline_;
    for (const Unidentified& one : unidentified_) {
      poll.add(*one.channel);
      until = std::min(until, one.deadline);
    }
    if (listener) poll.polled.push_back({listener->socket(), POLLIN, 0});
    poll.until(listener ? std::min(until, next_notice_) : until);
    if (listener) say_who_is_missing();
    receive_from_ranks(listener != nullptr, received, texts);
    if (listener) identify(*listener);
    if (left_until(deadline_) == 0) throw_late(received);
  }

  void receive_from_ranks(bool joining, std::vector<bool>* received, std::vector<std::string>* texts) {
    for (int rank = 1; rank < size_; ++rank) {
      if (!others_[at(rank)]) continue;
      const bool alive = channel(rank).receive() && channel(rank).flush();
      if (received && !(*received)[at(rank)]) (*received)[at(rank)] = receive_text(rank, (*texts)[at(rank)]);
      if (alive) continue;
      if (joining) {
        others_[at(rank)].reset();  // the rank may connect again, in a new process
      } else {
        throw_lost(rank, "has ended or left");
      }
    }
  }

  bool receive_text(int rank, std::string& text) {
    try {
      auto frame = channel(rank).next(size_);
      if (!frame) return false;
      const FrameHeader& got = frame->header;
      if (got.type != FrameType::text || got.rank != rank || got.round != round_)
        throw BadFrame("out of order");
      text = std::move(frame->text);
      return true;
    } catch (const BadFrame& error) {
      throw_lost(rank, std::string("sent what does not belong here: ") + error.what());
    }
  }

  void identify(Listener& listener) {
    std::deque<Unidentified> still;
    for (Unidentified& one : unidentified_) {
      if (still_unidentified(one, listener)) still.push_back(std::move(one));
    }
    unidentified_ = std::move(still);
    if (auto channel = listener.accept()) {
      if (unidentified_.size() == kMaxUnidentified) unidentified_.pop_front();
      unidentified_.push_back({std::move(channel), Clock::now() + kHelloTimeout});
    }
  }

  // Handles what a connection without a hello has sent. Returns true if its hello may still come in time.
  bool still_unidentified(Unidentified& one, const Listener& listener) {
    if (listener.encrypts() && one.channel->sent_plain_hello()) throw_security_mismatch(*one.channel, true);
    const bool alive = one.channel->receive();
    if (!listener.encrypts() && one.channel->sent_tls_hello()) throw_security_mismatch(*one.channel, false);
    if (const std::string handshake_error = one.channel->handshake_error(); !handshake_error.empty())
      refused_ = "; one that connected was refused: " + handshake_error;
    try {
      const auto frame = one.channel->next(size_);
      if (!frame) return alive && Clock::now() < one.deadline;
      const std::string refusal = reason_against(frame->header);
      one.channel->post(header(refusal.empty() ? FrameType::accepted : FrameType::failure, -1), refusal);
      one.channel->flush();
      if (!refusal.empty()) refused_ = "; one that came was refused: " + refusal;
      if (refusal.empty()) others_[at(frame->header.rank)] = std::move(one.channel);
    } catch (const BadFrame&) {
      // the connection is not of a rank of this job, and is closed
    }
    return false;
  }

  std::string reason_against(const FrameHeader& hello) const {
    if (hello.type != FrameType::hello) return "the first message of a rank has to be a hello";
    if (hello.size != size_) {
      return "rank 0's job at " + meeting_address_.text + " has " + std::to_string(size_) +
             " ranks, that of the rank " + std::to_string(hello.rank) + " that comes has " +
             std::to_string(hello.size);
    }
    if (hello.rank < 1) return "rank " + std::to_string(hello.rank) + " is there already";
    if (others_[at(hello.rank)])
      return "rank " + std::to_string(hello.rank) + " is there already: two have come";
    return "";
  }

  // A hello of the wrong kind comes from a rank with other settings, since it is too specific to be sent by
  // chance.
  [[noreturn]] void throw_security_mismatch(const Channel& one, bool encrypts) {
    const std::string text =
        "a rank has come to " + meeting_address_.text + " that " +
        (encrypts ? "does not encrypt, and rank 0 does" : "encrypts, and rank 0 does not") +
        ": HEDDLE_COMM_ENCRYPT and HEDDLE_COMM_INSECURE must be the same on all ranks";
    one.send_plain(header(FrameType::failure, -1), text);
    send_failure(text, -1);
    throw CommError(text);
  }

  void send_all() {
    while (true) {
      Poll poll;
      for (int rank = 1; rank < size_; ++rank) {
        if (!channel(rank).flush()) throw_lost(rank, "has ended or left");
        if (channel(rank).has_unsent()) poll.add(channel(rank), false);
      }
      if (poll.polled.empty() && !poll.ready) return;
      poll.until(deadline_);
      if (left_until(deadline_) == 0) throw_late(nullptr);
    }
  }

  void throw_late(const std::vector<bool>* received) {
    std::vector<int> late = missing();
    const bool joining = !late.empty();
    for (int rank = 1; !joining && rank < size_; ++rank) {
      if (received ? !(*received)[at(rank)] : channel(rank).has_unsent()) late.push_back(rank);
    }
    if (late.empty()) return;
    const std::string text = ranks(late) + " of " + std::to_string(size_) +
                             (late.size() == 1 ? " has" : " have") + " not " +
                             (joining ? "come to " + meeting_address_.text : "answered") + " in " +
                             seconds(timeout_) + (joining ? restart_note() : "") + refused_;
    send_failure(text, late.front());
    if (joining) throw CommError(text);
    throw PeerSilent(text, late.front());
  }

  [[noreturn]] void throw_lost(int rank, const std::string& why) {
    const std::string text = "rank " + std::to_string(rank) + " " + why;
    send_failure(text, rank);
    throw PeerLost(text, rank);
  }

  void send_failure(const std::string& why, int about) {
    broken_ = why;
    const auto deadline = Clock::now() + kFailureTimeout;
    for (auto& other : others_) {
      if (!other) continue;
      other->post(header(FrameType::failure, about), why);
      while (other->flush() && other->has_unsent() && left_until(deadline) > 0)
        Poll(*other, false).until(deadline);
    }
  }

  const int size_;
  const milliseconds timeout_;
  const RendezvousAddress meeting_address_;
  const std::uint32_t epoch_ = std::random_device{}();
  std::uint32_t round_ = 0;
  Clock::time_point deadline_;
  std::vector<std::unique_ptr<Channel>> others_;  // by rank; null: rank 0 itself, or not connected yet
  std::deque<Unidentified> unidentified_;         // connections whose hello has not come, oldest first
  std::string broken_;                            // why the rendezvous has failed
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point next_notice_ = begun_ + kFirstNotice;
  std::string refused_;  // why the last connection was refused
};

// A rank other than 0.
class Peer : public Rendezvous {
 public:
  Peer(const LaunchEnvironment& job, milliseconds timeout, const SecurityPolicy& security)
      : rank_(job.rank), size_(job.size), timeout_(timeout), meeting_address_(job, security) {
    join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::uint32_t epoch() const override { return epoch_; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    check_text(mine);
    deadline_ = Clock::now() + timeout_ + kPeerGrace;
    ++round_;
    root_->post(header(FrameType::text), mine);
    std::vector<std::string> texts;
    for (int of = 0; of < size_; ++of) {
      Frame frame = await();
      const FrameHeader& got = frame.header;
      if (got.type != FrameType::result || got.rank != of || got.round != round_) refuse("out of order");
      texts.push_back(std::move(frame.text));
    }
    return texts;
  }

 private:
  FrameHeader header(FrameType type) const {
    return {.type = type, .rank = rank_, .size = size_, .round = round_};
  }

  // A connection that ends before `accepted` was one to an earlier rendezvous at the same address. One that ends before
  // `welcome` was one to a process of rank 0 that may be started again. The rank tries again in both cases.
  void join() {
    const auto deadline = Clock::now() + timeout_;
    const auto begun = Clock::now();
    auto next_notice = begun + kFirstNotice;
    while (true) {
      if (left_until(deadline) == 0) throw_no_root();
      if (const auto now = Clock::now(); now >= next_notice) {
        next_notice = now + kNoticeAgain;
        write_log("heddle: rank " + std::to_string(rank_) + " has waited for " +
                  seconds(std::chrono::duration_cast<milliseconds>(now - begun)) + " for rank 0 of " +
                  std::to_string(size_) + ", which has not come to " + meeting_address_.text);
      }
      root_ = connect_to(meeting_address_, left_until(deadline), why_);
      if (root_ && await_accepted(deadline) && await_welcome()) break;
      ::poll(nullptr, 0, std::min(kRetryMilliseconds, left_until(deadline)));
    }
  }

  bool await_welcome() {
    deadline_ = Clock::now() + timeout_ + kPeerGrace;
    const auto frame = receive();
    if (!frame) return false;
    throw_if_failure(*frame);
    if (frame->header.type != FrameType::welcome) refuse("out of order");
    epoch_ = frame->header.round;
    return true;
  }

  bool await_accepted(Clock::time_point deadline) {
    deadline_ = deadline;
    root_->post(header(FrameType::hello));
    const auto frame = receive();
    if (frame && frame->header.type == FrameType::failure) throw CommError(frame->text);
    if (frame && frame->header.type != FrameType::accepted) refuse("out of order");
    return frame.has_value();
  }

  // Receives the next frame. nullopt: the connection has ended. Throws PeerSilent after the deadline.
  std::optional<Frame> receive() {
    while (true) {
      const bool alive = root_->flush() && root_->receive();
      try {
        if (auto frame = root_->next(size_)) return frame;
      } catch (const BadFrame& error) {
        refuse(error.what());
      }
      if (const std::string handshake_error = root_->handshake_error(); !handshake_error.empty())
        throw CommError("rank " + std::to_string(rank_) + " and what listens at " + meeting_address_.text +
                        " cannot talk: " + handshake_error);
      if (!alive) return std::nullopt;
      if (left_until(deadline_) == 0) {
        throw PeerSilent("rank 0 has not answered at " + meeting_address_.text + " in " + seconds(timeout_),
                         0);
      }
      Poll(*root_).until(deadline_);
    }
  }

  Frame await() {
    auto frame = receive();
    if (!frame) throw PeerLost("rank 0 has ended or left", 0);
    throw_if_failure(*frame);
    return *std::move(frame);
  }

  static void throw_if_failure(const Frame& frame) {
    if (frame.header.type != FrameType::failure) return;
    if (frame.header.rank < 0) throw CommError(frame.text);
    throw PeerLost(frame.text, frame.header.rank);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw CommError("what listens at " + meeting_address_.text + " is not rank 0 of this job: " + why);
  }

  [[noreturn]] void throw_no_root() const {
    const std::string missing = missing_directory(meeting_address_),
                      problem = missing.empty() ? why_ : missing;
    throw CommError("rank 0 of " + std::to_string(size_) + " has not come to " + meeting_address_.text +
                    " in " + seconds(timeout_) + restart_note() + (problem.empty() ? "" : ": " + problem));
  }

  const int rank_, size_;
  const milliseconds timeout_;
  const RendezvousAddress meeting_address_;
  std::uint32_t epoch_ = 0;
  std::uint32_t round_ = 0;
  Clock::time_point deadline_;
  std::unique_ptr<Channel> root_;
  std::string why_;  // why the last attempt to connect found no address
};

}  // namespace

std::unique_ptr<Rendezvous> make_rendezvous(const LaunchEnvironment& job, milliseconds timeout,
                                            const SecurityPolicy& security) {
  if (job.size < 1 || job.rank < 0 || job.rank >= job.size) {
    throw InvalidArgument("make_rendezvous: there is no rank " + std::to_string(job.rank) + " of " +
                          std::to_string(job.size));
  }
  if (job.size == 1) return std::make_unique<SingleRank>();
  if (job.rank == 0) return std::make_unique<Root>(job, timeout, security);
  return std::make_unique<Peer>(job, timeout, security);
}

}  // namespace heddle::comm_detail
