#include "client/client.h"

#include <algorithm>
#include <future>
#include <utility>

#include <heddle/store_error.h>

#include "transport/address.h"

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::milliseconds kPoll{100}, kLongestPause{1000}, kPing{1000};

std::string seconds_text(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)) {
  std::random_device device;
  incarnation_ = std::uint64_t{device()} << 32 | device();
  transport_ = make_transport(options_.transport, *this);
  if (!options_.scheduler.empty()) find_servers();
  for (const std::string& address : options_.servers) {
    if (!rendezvous_) parse_address(address);  // throws InvalidArgument
    links_.push_back({.address = address});
    links_.back().lost_since = links_.back().next_try = Clock::now();
  }
  thread_ = std::thread([this] { loop(); });
}

Client::~Client() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  transport_->wake();
  thread_.join();
  take_submitted();
  for (Link& link : links_) fail(link, "the store is closed");
  if (!rendezvous_) return;
  rendezvous_->member().depart();
  transport_->poll(std::chrono::microseconds(0));
}

void Client::find_servers() {
  parse_address(options_.scheduler);  // throws InvalidArgument
  rendezvous_ = std::make_unique<Rendezvous>(
      *transport_, MemberOptions{.scheduler = options_.scheduler,
                                 .role = Role::worker,
                                 .number = static_cast<std::uint32_t>(options_.rank),  // -1: kAnyNumber
                                 .workers = static_cast<std::uint32_t>(options_.workers),
                                 .incarnation = incarnation_ | 1,
                                 .job = options_.job});
  rendezvous_->wait(options_.timeout);
  options_.servers = rendezvous_->addresses();
  options_.rank = static_cast<int>(rendezvous_->rank());
  options_.workers = static_cast<int>(rendezvous_->workers());
}

// Another process keeps what this link is about: it is asked at once.
void Client::follow_servers() {
  for (const std::size_t moved : rendezvous_->take_moved()) {
    Link& link = links_[moved];
    link.address = rendezvous_->addresses()[moved];
    if (link.state == State::failed) continue;
    if (link.state != State::waiting) {
      transport_->close(link.peer);
      lost(link, "the scheduler has moved what it keeps to another server");
    }
    link.next_try = Clock::now();
    link.pause = std::chrono::milliseconds(10);
  }
}

void Client::submit(std::size_t server, Call call) {
  {
    std::lock_guard guard(mutex_);
    submitted_.emplace_back(server, std::move(call));
  }
  transport_->wake();
}

Reply Client::call(std::size_t server, Call call) {
  std::promise<Reply> promise;
  call.done = [&promise](const Reply& reply, std::exception_ptr error) {
    error ? promise.set_exception(std::move(error)) : promise.set_value(reply);
  };
  submit(server, std::move(call));
  return promise.get_future().get();
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
    return;  // the servers will find out by themselves
  }
}

void Client::loop() {
  for (;;) {
    {
      std::lock_guard guard(mutex_);
      if (stopping_) return;
    }
    try {
      take_submitted();
      if (rendezvous_) rendezvous_->member().tick(Clock::now()), follow_servers();
      connect_where_needed(Clock::now());
      transport_->poll(kPoll);
    } catch (const std::exception& error) {  // there is no memory: it is not known for whom
      for (Link& link : links_) fail(link, error.what());
    }
  }
}

void Client::take_submitted() {
  std::vector<std::pair<std::size_t, Call>> submitted;
  {
    std::lock_guard guard(mutex_);
    submitted.swap(submitted_);
  }
  for (auto& [server, call] : submitted) {
    Link& link = links_[server];
    if (link.state == State::failed) {
      call.done({}, std::make_exception_ptr(StoreError(link.failure)));
      continue;
    }
    const std::uint64_t number = link.next_number++;
    call.request.number = number;
    const Call& kept = link.calls.emplace(number, std::move(call)).first->second;
    if (link.state == State::greeted) send(link, number, kept);
  }
}

void Client::connect_where_needed(Clock::time_point now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (link.state == State::greeted) ping(link, now);
    if (link.state == State::greeted || link.state == State::failed) continue;
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

// A server that is stopped, or whose host is lost, keeps its connections.
void Client::ping(Link& link, Clock::time_point now) {
  const auto interval = std::min<std::chrono::milliseconds>(kPing, options_.timeout / 4);
  if (now - link.last_heard > options_.timeout) {
    transport_->close(link.peer);
    lost(link, "it has not answered for " + seconds_text(now - link.last_heard));
    link.lost_since = link.last_heard;
  } else if (now - link.last_ping >= interval) {
    link.last_ping = now;
    transport_->send(link.peer, {encode(Request{.kind = Kind::ping, .number = link.next_number++})});
  }
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
  Hello hello{.job = options_.job,
              .consistency = options_.consistency,
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

void Client::lost(Link& link, const std::string& why) {
  by_peer_.erase(link.peer);
  const auto now = Clock::now();
  // A server that lets the worker in and then ends the connection each time is as good as lost.
  if (link.state == State::greeted && link.answered) {
    link.lost_since = now;
    link.pause = std::chrono::milliseconds(10);
  }
  link.state = State::waiting;
  link.why = why;
  // Many workers that have lost one server do not come back in step.
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
  link.failure = failure;
  for (auto& [number, call] : std::exchange(link.calls, {}))
    call.done({}, std::make_exception_ptr(StoreError(failure)));
}

void Client::greeted(Link& link, const Welcome& welcome) {
  if (link.incarnation != 0 && link.incarnation != welcome.incarnation)
    return fail(
        link, "it has been started anew, without what it held; start the job anew, from its last checkpoint");
  link.incarnation = welcome.incarnation;
  link.state = State::greeted;
  link.answered = false;
  link.last_heard = link.last_ping = Clock::now();
  for (const auto& [number, call] : link.calls) send(link, number, call);
}

// Refused for good, or only until the former process of this rank is gone.
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

std::span<std::byte> Client::memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) {
  Link* link = link_of(peer);
  if (!link) return {};
  const FromServer message = decode_from_server(head, bytes);
  const auto* reply = std::get_if<Reply>(&message);
  if (!reply) throw MalformedMessage("a payload with a welcome");
  const auto found = link->calls.find(reply->number);
  if (found == link->calls.end() || reply->kind != Kind::value) return {};
  Call& call = found->second;
  if (call.collect) {
    if (reply->offset == 0) call.collect->resize(reply->bytes);
    call.into = *call.collect;
  }
  if (reply->bytes != call.into.size())
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
  const auto found = link->calls.find(reply.number);
  if (found == link->calls.end()) return;  // an answer to what was sent twice
  if (reply.kind == Kind::value && reply.offset + payload.size() < reply.bytes) return;
  const Call call = std::move(found->second);
  link->calls.erase(found);
  if (reply.kind == Kind::failed)
    return call.done(reply, std::make_exception_ptr(StoreError(
                                "server " + std::to_string(link - links_.data()) + ": " + reply.text)));
  call.done(reply, nullptr);
}

}  // namespace heddle::kv_detail
