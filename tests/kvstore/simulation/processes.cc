#include "simulation/processes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {
namespace {

std::vector<std::byte> bytes_of(std::size_t elements, std::int64_t value) {
  const std::vector<std::int64_t> values(elements, value);
  std::vector<std::byte> bytes(elements * sizeof(std::int64_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

WorkerProcess::WorkerProcess(Network& network, SimTransport& transport, const Plan& plan)
    : network_(network), transport_(transport), plan_(plan), links_(plan.shards), keys_(plan.keys) {
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    ask(shard, {.kind = Kind::set_optimizer, .text = "add"}, {}, [this](const Reply& reply, const auto&) {
      CHECK(reply.kind == Kind::done);
      if (++optimizers_ == plan_.shards) begin();
    });
  }
}

void WorkerProcess::begin() {
  for (std::uint32_t key = 0; key < plan_.keys; ++key) {
    Request request{.kind = Kind::init,
                    .has_value = plan_.rank == 0,
                    .dtype = DType::i64,
                    .bytes = plan_.elements * sizeof(std::int64_t),
                    .text = "key" + std::to_string(key)};
    ask(shard_of_key(key), request, plan_.rank == 0 ? bytes_of(plan_.elements, 0) : std::vector<std::byte>(),
        [this, key](const Reply& reply, const auto&) {
          REQUIRE(reply.kind == Kind::done);
          keys_[key].number = reply.key;
          keys_[key].round = 1;
          push(key);
        });
  }
}

void WorkerProcess::push(std::uint32_t key) {
  Request request{.kind = Kind::push,
                  .dtype = DType::i64,
                  .key = keys_[key].number,
                  .clock = keys_[key].round,
                  .lr = std::numeric_limits<double>::quiet_NaN()};
  ask(shard_of_key(key), request, bytes_of(plan_.elements, plan_.rank + 1),
      [](const Reply& reply, const auto&) { CHECK(reply.kind == Kind::done); });
  pull(key);  // right behind the push
}

void WorkerProcess::pull(std::uint32_t key) {
  Request request{.kind = Kind::pull, .key = keys_[key].number, .clock = keys_[key].round};
  ask(shard_of_key(key), request, {}, [this, key](const Reply& reply, const std::vector<std::byte>& value) {
    CAPTURE(reply.text);
    REQUIRE(reply.kind == Kind::value);
    pulled(key, value);
  });
}

void WorkerProcess::pulled(std::uint32_t key, const std::vector<std::byte>& value) {
  std::vector<std::int64_t> values(value.size() / sizeof(std::int64_t));
  REQUIRE(values.size() == plan_.elements);
  if (!values.empty()) std::memcpy(values.data(), value.data(), value.size());
  Key& mine = keys_[key];
  const std::int64_t a_round = plan_.workers * (plan_.workers + 1) / 2;
  for (const std::int64_t one : values) REQUIRE(one == values[0]);
  const std::int64_t seen = values.empty() ? a_round * mine.round : values[0];
  if (plan_.consistency == "sync") CHECK(seen == mine.round * a_round);
  CHECK(seen >= mine.last_value);  // what a worker has seen is not undone
  CHECK(seen >= mine.round * static_cast<std::int64_t>(plan_.rank + 1));
  CHECK(seen <= plan_.rounds * a_round);
  mine.last_value = seen;
  if (++mine.round <= plan_.rounds) push(key);
}

bool WorkerProcess::is_over() const {
  return std::all_of(keys_.begin(), keys_.end(), [&](const Key& key) { return key.round > plan_.rounds; });
}

std::string WorkerProcess::state() const {
  std::string text = "worker " + std::to_string(plan_.rank) + ":";
  for (const Key& key : keys_) text += " round " + std::to_string(key.round);
  for (const Link& link : links_)
    text += "; " + link.address + (link.greeted ? " greeted, " : " away, ") +
            std::to_string(link.calls.size()) + " calls";
  return text;
}

void WorkerProcess::ask(std::uint32_t shard, Request request, std::vector<std::byte> payload,
                        std::function<void(const Reply&, const std::vector<std::byte>&)> done) {
  Link& link = links_[shard];
  request.number = ++link.last_number;
  if (!payload.empty()) request.bytes = payload.size();
  Call& call = link.calls[request.number];
  call.head = encode(request);
  call.payload = std::move(payload);
  call.done = std::move(done);
  if (link.greeted) send(link, call);
}

void WorkerProcess::send(Link& link, const Call& call) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(call.payload);
  std::size_t offset = 0;
  do {
    const FromWorker message = decode_from_worker(call.head, 0);
    Request request = std::get<Request>(message);
    const std::size_t piece = std::min(kPieceBytes, bytes->size() - offset);
    request.offset = offset;
    transport_.send(link.peer, {encode(request), {bytes, std::span(*bytes).subspan(offset, piece)}});
    offset += piece;
  } while (offset < bytes->size());
}

void WorkerProcess::tick() {
  for (Link& link : links_) {
    if (link.peer == 0 && !link.address.empty() && network_.now >= link.next_try)
      link.peer = transport_.connect(link.address);
    if (!link.greeted || network_.now < link.next_ping) continue;
    link.next_ping = network_.now + std::chrono::seconds(1);
    transport_.send(link.peer, {encode(Request{.kind = Kind::ping, .number = ++link.last_number})});
  }
}

void WorkerProcess::drop(Link& link) {
  link.peer = 0;
  link.greeted = false;
  link.next_try = network_.now + std::chrono::milliseconds(5 + network_.below(20));
  for (auto& [number, call] : link.calls) call.value.clear();
}

void WorkerProcess::set_views(const Views& views) {
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    const ServerInfo* primary = find_server(views, views.shards[shard].primary);
    Link& link = links_[shard];
    if (!primary || primary->address == link.address) continue;
    if (link.peer != 0) transport_.close(link.peer);
    drop(link);
    link.address = primary->address;
    link.next_try = network_.now;
  }
}

WorkerProcess::Link* WorkerProcess::link_of(Peer peer) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [&](const Link& one) { return one.peer == peer; });
  return found == links_.end() ? nullptr : &*found;
}

int WorkerProcess::shard_of(Peer peer) const {
  for (std::size_t shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].peer == peer) return static_cast<int>(shard);
  }
  return -1;
}

void WorkerProcess::connected(Peer peer, const std::string&) {
  Link* link = link_of(peer);
  if (!link) return;
  const Hello hello{.job = "job",
                    .consistency = plan_.consistency,
                    .rank = plan_.rank,
                    .workers = plan_.workers,
                    .server = static_cast<std::uint32_t>(link - links_.data()),
                    .servers = plan_.shards,
                    .incarnation = 1000 + plan_.rank};
  transport_.send(peer, {encode(hello)});
}

void WorkerProcess::disconnected(Peer peer, const std::string&) {
  if (Link* link = link_of(peer)) drop(*link);
}

std::span<std::byte> WorkerProcess::memory_for(Peer, std::span<const std::byte>, std::size_t) { return {}; }

void WorkerProcess::received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) {
  Link* link = link_of(peer);
  if (!link) return;
  const FromServer message = decode_from_server(head, payload.size());
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    CHECK((link->incarnation == 0 || link->incarnation == welcome->incarnation));
    link->incarnation = welcome->incarnation;
    link->greeted = true;
    for (const auto& [number, call] : link->calls) send(*link, call);
    return;
  }
  const auto& reply = std::get<Reply>(message);
  if (reply.number == 0) {
    CAPTURE(reply.text);
    CHECK(reply.clock == 1);
    transport_.close(peer);
    return drop(*link);
  }
  const auto found = link->calls.find(reply.number);
  if (found == link->calls.end()) return;
  Call& call = found->second;
  CHECK(reply.offset == call.value.size());
  call.value.insert(call.value.end(), payload.begin(), payload.end());
  if (reply.kind == Kind::value && call.value.size() < reply.bytes) return;
  const Call mine = std::move(call);
  link->calls.erase(found);
  mine.done(reply, mine.value);
}

}  // namespace heddle::kv_detail::sim
