#include "client/client.h"

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <unistd.h>
#include <utility>

#include <heddle/log.h>
#include <heddle/store_error.h>

#include "membership/etcd_finder.h"
#include "transport/address.h"
#include "wire/job_settings.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::chrono::seconds kStalled{5};  // a server reports a stall once nothing has moved for this time
constexpr std::chrono::milliseconds kPoll{100}, kLongestPause{1000}, kPing{1000};
// Pause of the client's own thread between two polls while waiting threads drive the transport.
constexpr std::chrono::microseconds kRest{300};
// The highest and the lowest priority of a message.
constexpr int kFirst = std::numeric_limits<int>::max(), kLast = std::numeric_limits<int>::min();
// Number of polls or spins without events after which a thread leaves the transport to another thread.
constexpr int kMostIdle = 2;

bool is_push(const Call& call) {
  return call.request.kind == Kind::push || call.request.kind == Kind::push_many;
}

// True if the answer to such a request has the server's counts of settings and collectives, see Kind::resume.
bool counts_settings(Kind kind) {
  return kind == Kind::ping || kind == Kind::barrier || kind == Kind::set_optimizer ||
         kind == Kind::set_state;
}

std::string seconds_text(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)), process_(getpid()) {
  if (options_.job.size() > kMaxJobName)  // a server would refuse a hello with this name as malformed
    throw InvalidArgument("HEDDLE_JOB: a name of " + std::to_string(options_.job.size()) +
                          " bytes; wanted at most " + std::to_string(kMaxJobName));
  std::random_device device;
  incarnation_ = std::uint64_t{device()} << 32 | device();
  transport_ = make_transport(options_.transport, *this);
  if (options_.is_scheduled()) find_servers();
  for (const std::string& address : options_.servers) {
    if (!rendezvous_) parse_address_of_peer(address);  // throws InvalidArgument
    Link& link = links_.emplace_back();
    link.address = address;
    link.lost_since = link.next_try = Clock::now();
  }
  thread_ = std::thread([this] { loop(); });
}

bool Client::in_child() const { return getpid() != process_; }

Client::~Client() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  transport_->wake();
  thread_.join();
  Lock lock(mutex_);
  with_transport(lock, [this] {
    take_submitted();
    for (Link& link : links_) fail(link, "the store is closed");
    if (!rendezvous_) return;
    rendezvous_->member().unregister();
    transport_->poll(std::chrono::microseconds(0));
  });
}

void Client::find_servers() {
  std::shared_ptr<SchedulerFinder> finder;
  if (!options_.etcd.urls.empty())
    finder = std::make_shared<EtcdFinder>(options_.etcd);  // throws InvalidArgument
  else
    parse_address_of_peer(options_.scheduler);  // throws InvalidArgument
  rendezvous_ = std::make_unique<Rendezvous>(
      *transport_, MemberOptions{.scheduler = options_.scheduler,
                                 .finder = std::move(finder),
                                 .role = Role::worker,
                                 .number = static_cast<std::uint32_t>(options_.rank),  // -1 gives kAnyNumber
                                 .workers = static_cast<std::uint32_t>(options_.workers),
                                 .incarnation = incarnation_ | 1,
                                 .job = options_.job,
                                 .versions = options_.versions});
  rendezvous_->wait(options_.timeout);
  options_.servers = rendezvous_->addresses();
  options_.rank = static_cast<int>(rendezvous_->rank());
  options_.workers = static_cast<int>(rendezvous_->workers());
}

// Connects at once to the new servers of shards that have moved.
void Client::follow_servers(Clock::time_point now) {
  rendezvous_->member().tick(now);
  for (const std::size_t moved : rendezvous_->take_moved()) {
    Link& link = links_[moved];
    link.address = rendezvous_->addresses()[moved];
    if (link.state == State::failed) continue;
    if (link.state != State::waiting) {
      transport_->close(link.peer);
      lost(link, "the scheduler has moved what it keeps to another server");
    }
    link.next_try = now;
    link.pause = std::chrono::milliseconds(10);
  }
}

void Client::submit(std::size_t server, Call call) {
  ServerCall one{server, std::move(call)};
  submit({&one, 1});
}

void Client::submit(std::span<ServerCall> calls) {
  Lock lock(mutex_);
  submitted_.insert(submitted_.end(), std::make_move_iterator(calls.begin()),
                    std::make_move_iterator(calls.end()));
  unanswered_ += calls.size();
  if (!transport_busy_ && transport_->can_spin()) return with_transport(lock, [this] { take_submitted(); });
  lock.unlock();
  transport_->wake();
}

// Runs `work` without the lock, while transport_busy_ gives it exclusive use of the transport and the links.
// Then sends the calls that were submitted while `work` ran, so that none is forgotten. Runs done() of
// answered calls last: done() may submit, wait, and destroy objects that use this client.
template <class Work> void Client::with_transport(Lock& lock, Work&& work) noexcept {
  transport_busy_ = true;
  lock.unlock();
  try {
    work();
  } catch (const std::exception& error) {  // out of memory: any call may have failed, so all calls fail
    for (Link& link : links_) fail(link, error.what());
  }
  lock.lock();
  took_more_ = false;
  while (!submitted_.empty() && transport_->can_spin()) {
    took_more_ = true;
    lock.unlock();
    try {
      take_submitted();
    } catch (const std::exception& error) {
      for (Link& link : links_) fail(link, error.what());
    }
    lock.lock();
  }
  std::vector<Answered> answered;
  answered.swap(answered_);
  transport_busy_ = false;
  if (blocked_ > 0) changed_.notify_all();
  if (answered.empty()) return;
  lock.unlock();
  for (Answered& one : answered) one.call.done(one.reply, std::move(one.error));
  const std::size_t count = answered.size();
  answered.clear();
  lock.lock();
  unanswered_ -= count;
  // Keeps the vector's memory for the next answers.
  if (!transport_busy_ && answered_.capacity() == 0) answered_.swap(answered);
}

void Client::await_transport(Lock& lock) {
  while (transport_busy_) {
    lock.unlock();
    transport_->wake();
    lock.lock();
    ++blocked_;
    changed_.wait(lock, [this] { return !transport_busy_; });
    --blocked_;
  }
}

Reply Client::call(std::size_t server, Call call) {
  struct Outcome {
    Reply reply{};
    std::exception_ptr error{};
    std::atomic<std::uint32_t> over{0};
  };
  const auto outcome = std::make_shared<Outcome>();
  call.done = [outcome](const Reply& reply, std::exception_ptr error) {
    outcome->reply = reply;
    outcome->error = std::move(error);
    outcome->over.store(1);
    outcome->over.notify_all();
  };
  submit(server, std::move(call));
  wait(outcome->over);
  if (outcome->error) std::rethrow_exception(outcome->error);
  return outcome->reply;
}

void Client::wait(const std::atomic<std::uint32_t>& over) {
  work_until(over);
  over.wait(0);
}

void Client::leave(std::chrono::milliseconds limit) noexcept {
  try {
    const auto all = std::make_shared<std::vector<std::promise<void>>>(links_.size());
    for (std::size_t i = 0; i < links_.size(); ++i) {
      Call call{.request = {.kind = Kind::leave}};
      call.done = [all, i](const Reply&, const std::exception_ptr&) { (*all)[i].set_value(); };
      submit(i, std::move(call));
    }
    const auto deadline = Clock::now() + limit;
    for (std::promise<void>& one : *all) one.get_future().wait_until(deadline);
  } catch (const std::exception&) {
    return;  // servers notice by themselves that this worker is gone
  }
}

void Client::give_up_waiting(std::string why) {
  Lock lock(mutex_);
  give_up_ = std::move(why);
  if (!transport_busy_) return with_transport(lock, [this] { take_submitted(); });
  lock.unlock();
  transport_->wake();
}

void Client::fail_waiting() {
  const auto error = std::make_exception_ptr(StoreError(given_up_));
  for (Link& link : links_) {
    std::vector<std::uint64_t> waiting;
    link.calls.each([&](std::uint64_t number, const Call& call) {
      if (!is_push(call)) waiting.push_back(number);
    });
    for (const std::uint64_t number : waiting) answered(link.calls.take(number), {}, error);
  }
}

void Client::progress_until(const Var&, const std::atomic<std::uint32_t>& over) noexcept { work_until(over); }

// Drives the transport until `over` is set. Returns early when the transport has had no events for a while,
// because the client's own thread can sleep until there is an event.
void Client::work_until(const std::atomic<std::uint32_t>& over) noexcept {
  if (!transport_->can_spin()) return;
  Lock lock(mutex_);
  if (unanswered_ == 0) return;
  if (helped_) return void(others_wait_ = true);
  helped_ = true;
  ++helper_entries_;
  const auto go_on = [&] { return unanswered_ > 0 && !over.load(std::memory_order_acquire); };
  for (int idle = 0; idle < kMostIdle && go_on();) {
    await_transport(lock);
    if (!go_on()) break;
    bool moved = false;
    with_transport(lock, [&] {
      take_submitted();
      moved = transport_->spin(over);
    });
    idle = moved || took_more_ ? 0 : idle + 1;
  }
  helped_ = false;
  if (std::exchange(others_wait_, false) || go_on()) {
    work_left_ = true;
    changed_.notify_all();
  }
}

void Client::loop() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (helped_) rest(lock);
    if (transport_busy_) {
      ++blocked_;
      changed_.wait(lock, [this] { return !transport_busy_ || stopping_; });
      --blocked_;
    } else if (!helped_ && !stopping_) {
      with_transport(lock, [this] {
        take_submitted();
        connect_where_needed(Clock::now());
        transport_->poll(kPoll);
      });
    }
  }
}

// Runs on the client's own thread while waiting threads drive the transport. Polls the transport every kRest,
// in case that no waiting thread does so. Uses a timer, since to wake this thread each time that a waiting
// thread returns would take as long as many calls.
void Client::rest(Lock& lock) {
  for (int idle = 0; idle < kMostIdle && !stopping_ && !work_left_;) {
    const std::uint32_t visits = helper_entries_;
    changed_.wait_for(lock, kRest, [this] { return stopping_ || work_left_; });
    if (!transport_busy_ && !stopping_) {
      with_transport(lock, [this] {
        take_submitted();
        connect_where_needed(Clock::now());
        transport_->poll(std::chrono::microseconds(0));
      });
    }
    idle = visits == helper_entries_ && !helped_ ? idle + 1 : 0;
  }
  work_left_ = false;
}

void Client::take_submitted() {
  std::string give_up;
  {
    const Lock lock(mutex_);
    give_up.swap(give_up_);
    taken_.swap(submitted_);
  }
  if (!give_up.empty()) {
    given_up_ = std::move(give_up);
    fail_waiting();
  }
  if (taken_.empty()) return;
  for (auto& [server, call] : taken_) {
    Link& link = links_[server];
    if (link.state == State::failed) {
      answered(std::move(call), {}, std::make_exception_ptr(StoreError(link.failure)));
      continue;
    }
    if (!given_up_.empty() && !is_push(call) && call.request.kind != Kind::leave) {
      answered(std::move(call), {}, std::make_exception_ptr(StoreError(given_up_)));
      continue;
    }
    const std::uint64_t number = link.next_number++;
    call.request.number = number;
    const Call& kept = link.calls.add(number, std::move(call));
    if (link.state == State::greeted) send(link, number, kept);
  }
  taken_.clear();
  transport_->flush();
}

void Client::answered(Call call, const Reply& reply, std::exception_ptr error) {
  answered_.push_back({std::move(call), reply, std::move(error)});
}

void Client::connect_where_needed(Clock::time_point now) {
  if (rendezvous_) follow_servers(now);
  // If this process was stopped, it has not read what servers sent meanwhile, so their silence does not
  // count.
  const bool was_away = now - std::exchange(looked_, now) > kPing;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (was_away) link.last_heard = now;
    if (link.state == State::greeted) ping(link, now);
    if (link.state == State::greeted || link.state == State::failed) continue;
    if (link.notice.due(now - link.lost_since))
      write_log("KVStore: server " + std::to_string(i) + ", " +
                (link.address.empty() ? "whose address is not known" : link.address) +
                ", has been unreachable for " + seconds_text(now - link.lost_since) + ": " + link.why +
                "; the store gives up after " + seconds_text(options_.timeout));
    if (now - link.lost_since > options_.timeout) {
      fail(link,
           "it has been unreachable for " + seconds_text(now - link.lost_since) + ": " + link.why +
               ". Is it running? A store goes on when all of its servers are there again; start the job "
               "anew, from its last checkpoint");
    } else if (link.state == State::waiting && now >= link.next_try && !link.address.empty()) {
      link.state = State::connecting;
      link.peer = transport_->connect(link.address);
      by_peer_[link.peer] = i;
    }
  }
}

// Pings find a server that is stopped or whose host is lost. Connections to such a server stay open.
void Client::ping(Link& link, Clock::time_point now) {
  const auto interval = std::min<std::chrono::milliseconds>(kPing, options_.timeout / 4);
  if (now - link.last_heard > options_.timeout) {
    transport_->close(link.peer);
    lost(link, "it has not answered for " + seconds_text(now - link.last_heard));
    link.lost_since = link.last_heard;
  } else if (now - link.last_heard > options_.most_silent()) {
    // A router on the way to the server may have forgotten the connection, which then stays open for ever.
    transport_->close(link.peer);
    lost(link, "it has been silent for " + seconds_text(now - link.last_heard));
    link.lost_since = link.last_heard;
  } else if (now - link.last_ping >= interval) {
    send_ping(link, now, kFirst);  // the ping overtakes queued pieces of values
  }
}

void Client::send_ping(Link& link, Clock::time_point now, int priority) {
  link.last_ping = now;
  transport_->send(link.peer, {encode(Request{.kind = Kind::ping, .number = kPingNumber}), {}, priority});
}

Client::Link* Client::link_of(Peer peer) {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : &links_[found->second];
}

void Client::connected(Peer peer, const std::string&) {
  if (rendezvous_ && rendezvous_->member().owns(peer))
    return rendezvous_->member().connected(peer, Clock::now());
  const Link* link = link_of(peer);
  if (!link) return;
  Hello hello{.oldest = options_.versions.oldest,
              .newest = options_.versions.newest,
              .job = options_.job,
              .consistency = job_settings_text(options_.consistency, options_.placement.text()),
              .rank = static_cast<std::uint32_t>(options_.rank),
              .workers = static_cast<std::uint32_t>(options_.workers),
              .server = static_cast<std::uint32_t>(link - links_.data()),
              .servers = static_cast<std::uint32_t>(links_.size()),
              .incarnation = incarnation_};
  transport_->send(peer, {encode(hello)});
}

void Client::disconnected(Peer peer, const std::string& why) {
  if (rendezvous_ && rendezvous_->member().owns(peer))
    return rendezvous_->member().disconnected(peer, why, Clock::now());
  if (Link* link = link_of(peer)) lost(*link, why);
}

void Client::cannot_connect(Peer peer, const std::string& why) {
  if (rendezvous_ && rendezvous_->member().owns(peer))
    return rendezvous_->member().cannot_connect(peer, why, Clock::now());
  if (Link* link = link_of(peer)) fail(*link, why);
}

void Client::lost(Link& link, const std::string& why) {
  by_peer_.erase(link.peer);
  if (link.state == State::failed) return;
  const auto now = Clock::now();
  // A server that sends a welcome and then ends the connection, each time, counts as lost: lost_since stays.
  if (link.state == State::greeted && link.answered) {
    link.lost_since = now;
    link.pause = std::chrono::milliseconds(10);
  }
  link.state = State::waiting;
  link.why = why;
  // The pause is random, so that the workers that have lost one server do not all connect at once.
  link.next_try = now + link.pause * (50 + random_() % 100) / 100;
  link.pause = std::min(2 * link.pause, kLongestPause);
}

void Client::fail(Link& link, const std::string& why) {
  const std::string failure =
      "server " + std::to_string(&link - links_.data()) + " (" + link.address + "): " + why;
  if (link.peer != 0) {
    by_peer_.erase(link.peer);
    transport_->close(link.peer);
  }
  link.state = State::failed;
  has_failed_.store(true);
  link.failure = failure;
  const auto error = std::make_exception_ptr(StoreError(failure));
  link.calls.each([&](std::uint64_t, Call& call) { answered(std::move(call), {}, error); });
  link.calls = {};
}

void Client::greeted(Link& link, const Welcome& welcome) {
  if (!options_.versions.has(welcome.protocol))
    return fail(link, "it speaks version " + std::to_string(welcome.protocol) +
                          " of the protocol, this worker " + std::to_string(options_.versions.oldest) +
                          " to " + std::to_string(options_.versions.newest));
  if (link.incarnation != 0 && link.incarnation != welcome.incarnation)
    return fail(
        link, "it has been started anew, without what it held; start the job anew, from its last checkpoint");
  link.incarnation = welcome.incarnation;
  link.state = State::greeted;
  link.answered = false;
  link.last_heard = Clock::now();
  if (link.collectives != 0 && welcome.protocol >= kResumes)
    transport_->send(
        link.peer,
        {encode(Request{.kind = Kind::resume, .settings = link.settings, .collectives = link.collectives}),
         {},
         kFirst});
  link.calls.each([&](std::uint64_t number, const Call& call) { send(link, number, call); });
  // The answer to this ping shows at once that the server works, even if no other call can be answered yet.
  // The ping goes behind the calls, since a server that ends the connection because of one of them answers
  // nothing.
  send_ping(link, link.last_heard, kLast);
}

// Called when the server refuses the hello: for good, or until the former process of this rank is gone.
void Client::refused(Link& link, const Reply& reply) {
  if (reply.clock == 0) return fail(link, reply.text);
  transport_->close(link.peer);
  lost(link, reply.text);
}

void Client::send(Link& link, std::uint64_t number, const Call& call) {
  Request request = call.request;
  request.number = number;
  const std::span<const std::byte> all = call.payload.bytes;
  if (all.data()) request.bytes = all.size();
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(kPieceBytes, all.size() - offset);
    request.offset = offset;
    transport_->send(link.peer,
                     {encode(request), {call.payload.owner, all.subspan(offset, piece)}, request.priority});
    offset += piece;
  } while (offset < all.size());
}

// The answer to a ping says which workers wait for which, if the job makes no progress.
void Client::pinged(Link& link, const Reply& reply) {
  if (reply.text.empty()) link.moved = link.last_heard;
  if (!link.stall_notice.due(reply.text.empty() ? Clock::duration(0)
                                                : kStalled + (link.last_heard - link.moved)))
    return;
  write_log("KVStore: server " + std::to_string(&link - links_.data()) +
            " has not heard of anything new: " + reply.text);
}

std::span<std::byte> Client::memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) {
  Link* link = link_of(peer);
  if (!link) return {};
  const FromServer message = decode_from_server(head, bytes);
  const auto* reply = std::get_if<Reply>(&message);
  if (!reply) throw MalformedMessage("a payload with a welcome");
  Call* const found = link->calls.find(reply->number);
  if (!found) return {};
  Call& call = *found;
  if (reply->kind == Kind::failed && call.collect) {
    call.collect->resize(bytes);
    return *call.collect;
  }
  if (reply->kind != Kind::value) return {};
  if (call.collect) {
    if (reply->offset == 0) call.collect->resize(reply->bytes);
    call.into = *call.collect;
  }
  const bool compressed = call.request.kind == Kind::pull && !call.request.text.empty();
  if (compressed ? reply->bytes > call.into.size() : reply->bytes != call.into.size())
    throw MalformedMessage("a value of " + std::to_string(reply->bytes) + " bytes instead of " +
                           std::to_string(call.into.size()));
  return call.into.subspan(reply->offset, bytes);
}

void Client::received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) {
  if (rendezvous_ && rendezvous_->member().owns(peer))
    return rendezvous_->member().received(peer, head, Clock::now());
  Link* link = link_of(peer);
  if (!link) return;
  const FromServer message = decode_from_server(head, payload.size());
  link->last_heard = Clock::now();
  if (const auto* welcome = std::get_if<Welcome>(&message)) return greeted(*link, *welcome);
  const auto& reply = std::get<Reply>(message);
  if (reply.number == 0) return refused(*link, reply);
  link->answered = true;
  if (reply.number == kPingNumber) return pinged(*link, reply);
  if (!link->calls.find(reply.number)) return;  // the second answer to a request that was sent twice
  if (reply.kind == Kind::value && reply.offset + payload.size() < reply.bytes) return;
  Call call = link->calls.take(reply.number);
  // The server closes the connection when the job has ended. Connecting again would begin a new job of that
  // name.
  if (call.request.kind == Kind::leave && reply.kind == Kind::done) {
    link->state = State::failed;
    link->failure = "server " + std::to_string(link - links_.data()) + ": this worker has left its job";
  }
  if (reply.kind == Kind::done && counts_settings(call.request.kind)) {
    link->settings = std::max(link->settings, reply.clock);
    link->collectives = std::max(link->collectives, reply.bytes);
  }
  if (reply.kind != Kind::failed) return answered(std::move(call), reply, nullptr);
  has_failed_.store(true);
  const std::string why = "server " + std::to_string(link - links_.data()) + ": " + reply.text;
  answered(std::move(call), reply, std::make_exception_ptr(StoreError(why)));
}

}  // namespace heddle::kv_detail
