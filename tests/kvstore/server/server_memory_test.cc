// A server refuses requests that would exceed the memory limit, also because of the optimizer state, buffers
// and copies that they need.
#include <atomic>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/server.h>

#include "core_host.h"
#include "server/job/held_memory.h"
#include "server/replica/keep_alive.h"
#include "server/state/state_stream.h"
#include "wire/state_blob.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

using Floats = std::vector<float>;

constexpr std::size_t kElements = 100, kBytes = kElements * sizeof(float);
// Bytes of adam's state of a key: two arrays of the value's size, and a count.
constexpr std::uint64_t kAdam = 2 * kBytes + 8;

Request init_of(const std::string& key, bool has_value = true) {
  return {.kind = Kind::init, .has_value = has_value, .bytes = kBytes, .text = key};
}
Request push_of(std::uint32_t key, std::uint64_t clock) {
  // NaN: the learning rate of the optimizer's settings.
  return {.kind = Kind::push, .key = key, .clock = clock, .lr = std::nan("")};
}
const Bytes kOnes = bytes_of(Floats(kElements, 1));

bool is_done(const std::pair<Reply, Bytes>& answer) {
  CAPTURE(answer.first.text);
  return answer.first.kind == Kind::done;
}

bool is_refused(const std::pair<Reply, Bytes>& answer) {
  CAPTURE(answer.first.text);
  return answer.first.kind == Kind::failed &&
         answer.first.text.find("would exceed the memory limit of the server") != std::string::npos;
}

std::uint64_t used(const ServerCore& core) {
  const ServerStats stats = core.stats({});
  return stats.value_bytes + stats.state_bytes + stats.waiting_bytes;
}

// A push of these rows, which have 4 elements each, all of them 1. Sets `payload` to what belongs to it.
Request rows_of(std::uint64_t clock, const std::vector<std::int64_t>& rows, Bytes& payload) {
  payload = bytes_of(rows);
  const Bytes values = bytes_of(Floats(rows.size() * 4, 1));
  payload.insert(payload.end(), values.begin(), values.end());
  Request push = push_of(0, clock);
  push.row_bytes = 16;
  return push;
}

// A job with one worker, two keys and the optimizer adam.
struct One {
  explicit One(const char* consistency, std::uint64_t limit)
      : host({.memory_limit = limit}), link(host, hello_of(0, 1, consistency)) {
    for (const char* const key : {"a", "b"}) CHECK(is_done(link.ask(init_of(key), kOnes)));
    CHECK(is_done(link.ask({.kind = Kind::set_optimizer, .text = "adam lr=0.1"})));
  }
  Host host;
  Link link;
};

}  // namespace

TEST_CASE(
    "server memory: a push asks for the room of the state that it makes, and loses nothing if there is "
    "none") {
  for (const char* const consistency : {"sync", "async", "ssp:1"}) {
    CAPTURE(std::string(consistency));
    const std::uint64_t limit = 3 * kBytes + kAdam + 10;
    One one(consistency, limit);
    CHECK(is_done(one.link.ask(push_of(0, 1), kOnes)));
    CHECK(one.host.core.stats(one.host.now).state_bytes == kAdam);
    CHECK(is_refused(one.link.ask(push_of(1, 1), kOnes)));
    CHECK(used(one.host.core) == 2 * kBytes + kAdam);
    CHECK(is_done(one.link.ask({.kind = Kind::clear_errors})));
    CHECK(values_in<float>(one.link.ask({.kind = Kind::pull, .key = 1}).second) == Floats(kElements, 1));
    // Key 0, which already has its optimizer state, can still be updated.
    CHECK(is_done(one.link.ask(push_of(0, 2), kOnes)));
    // The worker can repeat the refused push once there is room.
    CHECK(is_done(one.link.ask({.kind = Kind::set_optimizer, .text = "sgd lr=0.5"})));
    CHECK(is_done(one.link.ask(push_of(1, 1), kOnes)));
    // Repeats an acknowledged push, which must not count twice.
    CHECK(is_done(one.link.ask(push_of(1, 1), kOnes)));
    CHECK(values_in<float>(one.link.ask({.kind = Kind::pull, .key = 1, .clock = 1}).second) ==
          Floats(kElements, 0.5f));
  }
}

TEST_CASE("server memory: a push of a later round keeps the room of its state until the round is complete") {
  Host host({.memory_limit = 3 * kBytes + kAdam});
  Link a(host, hello_of(0, 2, "sync")), b(host, hello_of(1, 2, "sync"));
  const auto both = [&](const Request& request) {
    for (Link* one : {&a, &b}) one->send(request);
    for (int i = 0; i < 3; ++i) a.settle(), b.settle();
  };
  CHECK(is_done(a.ask(init_of("a"), kOnes)));
  CHECK(is_done(b.ask(init_of("a", false))));
  both({.kind = Kind::set_optimizer, .text = "adam lr=0.1"});
  CHECK(is_done(a.ask(push_of(0, 1), kOnes)));
  CHECK(used(host.core) == 2 * kBytes + kAdam);
  // Completes the round; the room for the optimizer's state was reserved at the first push.
  CHECK(is_done(b.ask(push_of(0, 1), kOnes)));
  CHECK(used(host.core) == kBytes + kAdam);
  // A change of the optimizer reserves room for the state of keys with waiting pushes again. Without room the
  // key would fail.
  CHECK(is_done(a.ask(push_of(0, 2), kOnes)));
  both({.kind = Kind::set_optimizer, .text = "sgd lr=0.1"});
  CHECK(used(host.core) == 2 * kBytes + 8);  // sgd's state is a count of updates, 8 bytes
  both({.kind = Kind::set_optimizer, .text = "adam lr=0.1"});
  CHECK(used(host.core) == 2 * kBytes + kAdam);
  CHECK(is_done(b.ask(push_of(0, 2), kOnes)));
  CHECK(used(host.core) == kBytes + kAdam);
}

TEST_CASE("server memory: rows ask for the room of those that have no state yet") {
  // kRow: bytes of a row's state. kPushed: bytes of a push of two rows.
  constexpr std::uint64_t kRow = 56 + 2 * 16 + 8, kPushed = 2 * (8 + 16);
  Host host({.memory_limit = kBytes + 4 * kRow + kPushed});
  Link link(host, hello_of(0, 1, "async"));
  CHECK(is_done(link.ask(init_of("a"), kOnes)));
  CHECK(is_done(link.ask({.kind = Kind::set_optimizer, .text = "adam lr=0.1"})));
  Bytes payload;
  std::uint64_t clock = 0;
  const auto push = [&](const std::vector<std::int64_t>& rows) {
    const Request request = rows_of(clock + 1, rows, payload);
    const auto answer = link.ask(request, payload);
    if (answer.first.kind == Kind::done) ++clock;
    return answer;
  };
  CHECK(is_done(push({1, 2})));
  CHECK(is_done(push({2, 5})));
  CHECK(host.core.stats(host.now).state_bytes == 3 * kRow);
  CHECK(is_refused(push({7, 8})));
  CHECK(is_done(push({1, 7})));
  CHECK(host.core.stats(host.now).state_bytes == 4 * kRow);
  CHECK(is_done(push({5, 7})));
  CHECK(is_refused(push({8})));
  CHECK(used(host.core) == kBytes + 4 * kRow);
  // A push of the whole value would need room for the state of all rows.
  Request whole = push_of(0, clock + 1);
  CHECK(is_refused(link.ask(whole, kOnes)));
}

TEST_CASE("server memory: a set_state that does not fit is refused when all pieces have come") {
  One one("async", 2 * kBytes + kAdam + kBytes);
  CHECK(is_done(one.link.ask(push_of(0, 1), kOnes)));
  const Bytes state = one.link.ask({.kind = Kind::get_state, .key = 0, .clock = 1}).second;
  CHECK(state.empty());  // there is no room for a copy of the state
  Host other;
  Link link(other, hello_of(0, 1, "async"));
  CHECK(is_done(link.ask(init_of("a"), kOnes)));
  CHECK(is_done(link.ask({.kind = Kind::set_optimizer, .text = "adam lr=0.1"})));
  CHECK(is_done(link.ask(push_of(0, 1), kOnes)));
  const Bytes good = link.ask({.kind = Kind::get_state, .key = 0, .clock = 1}).second;
  CHECK(good.size() > kAdam);
  one.link.piece_bytes = 100;
  CHECK(is_refused(one.link.ask({.kind = Kind::set_state, .key = 1}, good)));
  CHECK(used(one.host.core) == 2 * kBytes + kAdam);
  CHECK(is_done(link.ask({.kind = Kind::set_state, .key = 0}, good)));
  // The pieces of an incomplete request count for the limit. They are freed with the connection.
  Request first{.kind = Kind::set_state, .number = 100, .bytes = good.size()};
  other.receive(1, {encode(first), Bytes(8)});
  CHECK(other.core.stats(other.now).waiting_bytes == good.size());
  link.forget();
  link.settle();
  CHECK(other.core.stats(other.now).waiting_bytes == 0);
}

TEST_CASE("server memory: the arrays that a set_state is decoded to count beside the bytes that have come") {
  Host other;
  Link link(other, hello_of(0, 1, "async"));
  CHECK(is_done(link.ask(init_of("a"), kOnes)));
  CHECK(is_done(link.ask({.kind = Kind::set_optimizer, .text = "adam lr=0.1"})));
  CHECK(is_done(link.ask(push_of(0, 1), kOnes)));
  const Bytes state = link.ask({.kind = Kind::get_state, .key = 0, .clock = 1}).second;
  for (const std::uint64_t room : {state.size() - 1, state.size()}) {
    CAPTURE(room);
    One one("async", 2 * kBytes + state.size() + room);
    const auto answer = one.link.ask({.kind = Kind::set_state, .key = 0}, state);
    CHECK((room < state.size() ? is_refused(answer) : is_done(answer)));
    CHECK(used(one.host.core) == 2 * kBytes + (room < state.size() ? 0 : kAdam));
  }
}

TEST_CASE("server memory: lists of rows count while they come, and while the pull waits") {
  Host host;
  Link a(host, hello_of(0, 2, "ssp:0")), b(host, hello_of(1, 2, "ssp:0"));
  CHECK(is_done(a.ask(init_of("a"), kOnes)));
  CHECK(is_done(b.ask(init_of("a", false))));
  CHECK(is_done(a.ask(push_of(0, 1), kOnes)));
  Request pull{.kind = Kind::pull, .clock = 1, .row_bytes = 16};
  a.piece_bytes = 8;
  a.send(pull, bytes_of(std::vector<std::int64_t>{1, 2, 3}));
  a.step();
  CHECK(host.core.stats(host.now).waiting_bytes == 24);
  a.settle();
  CHECK(host.core.stats(host.now).waiting_bytes == 24);
  CHECK(host.core.stats(host.now).workers.at(0).pulls_waiting == 1);
  CHECK(is_done(b.ask(push_of(0, 1), kOnes)));
  CHECK(host.core.stats(host.now).waiting_bytes == 0);
  CHECK(host.core.stats(host.now).workers.at(0).pulls_waiting == 0);
  // After worker a has reconnected, the server drops the requests of the former connection.
  CHECK(is_done(a.ask(push_of(0, 2), kOnes)));
  pull.clock = 2;
  a.send(pull, bytes_of(std::vector<std::int64_t>{1, 2}));
  a.settle();
  CHECK(host.core.stats(host.now).workers.at(0).pulls_waiting == 1);
  a.forget();
  a.settle();
  CHECK(host.core.stats(host.now).workers.at(0).pulls_waiting == 0);
  CHECK(host.core.stats(host.now).waiting_bytes == 0);
}

TEST_CASE("server memory: copies of rows that are not sent yet count") {
  Host host({.memory_limit = kBytes + 80});
  Link link(host, hello_of(0, 1, "async"));
  CHECK(is_done(link.ask(init_of("a"), kOnes)));
  Request pull{.kind = Kind::pull, .number = 50, .bytes = 24, .row_bytes = 16};
  const Bytes rows = bytes_of(std::vector<std::int64_t>{1, 2, 3});
  std::vector<Outbox> unsent;
  const auto ask = [&] {
    ++pull.number;
    const std::span<std::byte> memory = host.core.memory_for(1, encode(pull), rows.size());
    std::copy(rows.begin(), rows.end(), memory.begin());
    host.core.received(1, encode(pull), rows.size(), host.now);
    unsent.push_back(host.core.take_outbox());
    REQUIRE(unsent.back().replies.size() == 1);
    return unsent.back().replies[0].reply;
  };
  CHECK(ask().kind == Kind::value);
  CHECK(host.core.held_bytes() == 48);
  CHECK(ask().text.find("would exceed the memory limit") != std::string::npos);
  unsent.clear();
  CHECK(ask().kind == Kind::value);
  CHECK(host.core.held_bytes() == 48);
}

TEST_CASE("server memory: what is held is forgotten when nobody holds it") {
  HeldMemory held;
  auto one = std::make_shared<int>(1);
  for (int i = 0; i < 1000; ++i) held.add(std::make_shared<int>(i), 10);
  CHECK(held.bytes() < 1000);
  held.add(one, 7);
  held.forget_released();
  CHECK(held.bytes() == 7);
  one = nullptr;
  held.forget_released();
  CHECK(held.bytes() == 0);
}

TEST_CASE("server memory: a state that is being saved stays as it was, while updates go on") {
  One one("async", 0);
  CHECK(is_done(one.link.ask(push_of(0, 1), kOnes)));
  std::vector<std::pair<Payload, Bytes>> saved;
  save_state(one.host.core, [&](const std::vector<std::byte>&, Payload payload) {
    saved.emplace_back(payload, Bytes(payload.bytes.begin(), payload.bytes.end()));
  });
  const std::vector<Packet> before = saved_state(one.host.core);
  CHECK(is_done(one.link.ask(push_of(0, 2), kOnes)));
  CHECK(is_done(one.link.ask(push_of(0, 3), kOnes)));
  for (const auto& [payload, bytes] : saved)
    CHECK(Bytes(payload.bytes.begin(), payload.bytes.end()) == bytes);
  saved.clear();
  // After saved.clear() nothing else refers to the state, so this push updates it in place.
  CHECK(is_done(one.link.ask(push_of(0, 4), kOnes)));
  One other("async", 0);
  for (std::uint64_t clock = 1; clock <= 4; ++clock) CHECK(is_done(other.link.ask(push_of(0, clock), kOnes)));
  CHECK(one.link.ask({.kind = Kind::pull, .clock = 4}).second ==
        other.link.ask({.kind = Kind::pull, .clock = 4}).second);
}

namespace {

// A primary with a memory limit, and a backup core that applies the primary's changes.
struct Pair {
  Pair(const ServerOptions& options, const std::vector<Packet>& state)
      : primary(options, 1), backup({.memory_limit = 1}, 1) {
    backup.follow();
    StateLoader loader(backup, {});
    for (const Packet& one : state) loader.add(one.head, one.payload);
    primary.record_changes(true);
    for (const Peer peer : {1, 2}) {
      primary.connected(peer, "");
      primary.received(peer, encode(hello_of(static_cast<std::uint32_t>(peer) - 1, 2, "sync")), 0, {});
    }
    follow();
  }
  // Sends a request of worker `peer` - 1. Returns the kind of the reply.
  Kind ask(Peer peer, Request request, const Bytes& payload = {}) {
    request.number = ++last;
    request.bytes = payload.empty() ? request.bytes : payload.size();
    if (!payload.empty()) {
      const std::span<std::byte> memory = primary.memory_for(peer, encode(request), payload.size());
      if (!memory.empty()) std::copy(payload.begin(), payload.end(), memory.begin());
    }
    primary.received(peer, encode(request), payload.size(), {});
    return follow();
  }
  Kind follow() {
    const Outbox outbox = primary.take_outbox();
    for (const Change& change : outbox.changes) {
      const std::size_t bytes = change.payload.bytes.size();
      const Record record = decode_record(change.record, bytes);
      if (bytes > 0) {
        const std::span<std::byte> memory = backup.memory_for(record, bytes);
        std::copy(change.payload.bytes.begin(), change.payload.bytes.end(), memory.begin());
      }
      backup.apply(record, bytes, {});
    }
    for (const Outgoing& one : outbox.replies) {
      if (one.reply.number == last) return one.reply.kind;
    }
    return Kind::ping;
  }
  bool is_same() const { return keys_of(primary) == keys_of(backup); }
  // The state records of the keys, without those of the workers.
  static std::vector<std::pair<Bytes, Bytes>> keys_of(const ServerCore& core) {
    std::vector<std::pair<Bytes, Bytes>> all;
    for (const Packet& one : saved_state(core)) {
      const StateRecord record = decode_state_record(one.head);
      if (std::holds_alternative<StateKey>(record) || std::holds_alternative<StateArray>(record))
        all.emplace_back(one.head, one.payload);
    }
    return all;
  }
  ServerCore primary, backup;
  std::uint64_t last = 0;
};

}  // namespace

TEST_CASE("server memory: a backup without room makes what its primary had room for, and nothing else") {
  Host empty;
  // The limit has room for the adam state and a push of one key, or for the values of two keys and a waiting
  // push for each.
  Pair pair({.memory_limit = 4 * kBytes + kAdam - 10}, saved_state(empty.core));
  CHECK(pair.ask(1, init_of("a"), kOnes) == Kind::done);
  CHECK(pair.ask(1, init_of("b"), kOnes) == Kind::done);
  CHECK(pair.ask(1, push_of(0, 1), kOnes) == Kind::done);
  CHECK(pair.ask(1, push_of(1, 1), kOnes) == Kind::done);
  for (const Peer peer : {1, 2}) pair.ask(peer, {.kind = Kind::set_optimizer, .text = "adam lr=0.1"});
  CHECK(pair.is_same());
  CHECK(used(pair.primary) <= 4 * kBytes + kAdam - 10);
  pair.ask(2, push_of(0, 1), kOnes);
  pair.ask(2, push_of(1, 1), kOnes);
  CHECK(pair.is_same());
  CHECK(used(pair.primary) <= 4 * kBytes + kAdam - 10);
}

TEST_CASE("server memory: long work says that it is there while it goes on, and only then") {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope_of_engine(engine);
  int said = 0;
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 30;
  {
    std::atomic<int> heard{0};
    const KeepAliveScope scope([&] { heard = ++said; });
    keep_alive();
    CHECK(said == 1);
    run_long(kMuch, [&] {
      while (heard < 3) std::this_thread::yield();
    });
    CHECK(said >= 3);
    CHECK_THROWS_AS(run_long(kMuch, [] { throw std::runtime_error("no"); }), std::runtime_error);
    said = 0;
    const std::thread::id here = std::this_thread::get_id();
    run_long(100, [&] { CHECK(std::this_thread::get_id() == here); });
    CHECK(said == 0);
  }
  keep_alive();
  CHECK(said == 0);
}
