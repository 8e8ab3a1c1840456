#include "core_host.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "server/state/state_stream.h"

namespace heddle::kv_detail {

std::vector<Packet> saved_state(const ServerCore& core) {
  std::vector<Packet> all;
  save_state(core, [&all](std::vector<std::byte> head, Payload payload) {
    CHECK(payload.bytes.size() <= kPieceBytes);
    all.push_back({std::move(head), {payload.bytes.begin(), payload.bytes.end()}});
  });
  return all;
}

void Host::receive(Peer peer, const Packet& packet) {
  const std::size_t size = packet.payload.size();
  if (size > 0) {
    const std::span<std::byte> memory = core.memory_for(peer, packet.head, size);
    if (!memory.empty()) std::memcpy(memory.data(), packet.payload.data(), size);
  }
  core.received(peer, packet.head, size, now);
  deliver();
}

void Host::disconnect(Peer peer) {
  core.disconnected(peer, "cut", now);
  to_worker.erase(peer);
  deliver();
}

void Host::tick(Clock::duration time) {
  now += time;
  core.tick(now);
  deliver();
}

void Host::replace_core() {
  const std::vector<Packet> state = saved_state(core);
  std::destroy_at(&core);
  std::construct_at(&core, options_, 43);
  StateLoader loader(core, now);
  for (const Packet& one : state) loader.add(one.head, one.payload);
  CHECK(loader.complete());
}

void Host::deliver() {
  Outbox outbox = core.take_outbox();
  for (auto& [peer, head] : outbox.greetings) to_worker[peer].push_back({std::move(head), {}});
  for (const Outgoing& one : outbox.replies)
    to_worker[one.peer].push_back({encode(one.reply), {one.payload.bytes.begin(), one.payload.bytes.end()}});
  for (const ServerEvent& event : outbox.events) events.push_back(event.name);
}

Link::Link(Host& host, Hello hello) : host_(host), hello_(std::move(hello)) { connect(); }

std::uint64_t Link::send(Request request, Bytes payload) {
  request.number = ++last_number_;
  if (!payload.empty()) request.bytes = payload.size();
  std::vector<Packet>& pieces = unanswered_[request.number];
  do {
    const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(request.offset);
    const std::size_t piece = std::min(piece_bytes, payload.size() - request.offset);
    pieces.push_back({encode(request), Bytes(begin, begin + static_cast<std::ptrdiff_t>(piece))});
    request.offset += piece;
  } while (request.offset < payload.size());
  if (welcome_) to_server_.insert(to_server_.end(), pieces.begin(), pieces.end());
  return request.number;
}

void Link::step() {
  if (to_server_.empty()) return;
  const Packet packet = std::move(to_server_.front());
  to_server_.pop_front();
  host_.receive(peer_, packet);
}

void Link::hear() {
  auto& queue = host_.to_worker[peer_];
  if (queue.empty()) return;
  const Packet packet = std::move(queue.front());
  queue.pop_front();
  const FromServer message = decode_from_server(packet.head, packet.payload.size());
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcome_ = true;
    incarnation = welcome->incarnation;
    for (const auto& [number, pieces] : unanswered_)
      to_server_.insert(to_server_.end(), pieces.begin(), pieces.end());
    return;
  }
  const auto& reply = std::get<Reply>(message);
  if (reply.number == 0) {
    refusal = reply.text;
    return;
  }
  if (!unanswered_.contains(reply.number)) return;
  Bytes& value = values_[reply.number];
  CHECK(reply.offset == value.size());
  value.insert(value.end(), packet.payload.begin(), packet.payload.end());
  if (reply.kind == Kind::value && value.size() < reply.bytes) return;
  replies[reply.number] = {reply, std::move(value)};
  values_.erase(reply.number);
  unanswered_.erase(reply.number);
}

void Link::cut() {
  host_.disconnect(peer_);
  to_server_.clear();
  values_.clear();
  connect();
}

void Link::forget() {
  unanswered_.clear();
  cut();
}

std::pair<Reply, Bytes> Link::take(std::uint64_t number) {
  REQUIRE(replies.contains(number));
  auto result = std::move(replies[number]);
  replies.erase(number);
  return result;
}

void Link::settle() {
  for (int i = 0; i < 100; ++i) step(), hear();
}

std::pair<Reply, Bytes> Link::ask(Request request, Bytes payload) {
  const std::uint64_t number = send(std::move(request), std::move(payload));
  settle();
  return take(number);
}

void Link::connect() {
  peer_ = host_.connect();
  welcome_ = false;
  to_server_.push_back({encode(hello_), {}});
}

}  // namespace heddle::kv_detail
