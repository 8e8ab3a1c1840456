// A server's core among workers that lose their connections at any moment, in one thread and in an order that follows from
// a seed: no push is lost, none counts twice, and nobody is further ahead than the consistency allows.
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "arguments.h"
#include "server/server_core.h"
#include "wire/update_rule.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;

struct Packet {
  Bytes head, payload;
};

template <class T> Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T> std::vector<T> values_in(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A server and its connections. Time passes when a test says so.
class Host {
 public:
  explicit Host(ServerOptions options = {}) : core(with_log(std::move(options)), 42) {}

  Peer connect() {
    core.connected(++last_peer_, "");
    return last_peer_;
  }
  void receive(Peer peer, const Packet& packet) {
    std::size_t size = packet.payload.size();
    if (size > 0) {
      const std::span<std::byte> memory = core.memory_for(peer, packet.head, size);
      if (!memory.empty()) std::memcpy(memory.data(), packet.payload.data(), size);
    }
    core.received(peer, packet.head, size, now);
    deliver();
  }
  void disconnect(Peer peer) {
    core.disconnected(peer, "cut", now);
    to_worker.erase(peer);
    deliver();
  }
  void tick(Clock::duration time) {
    now += time;
    core.tick(now);
    deliver();
  }
  std::vector<std::string> events;
  std::map<Peer, std::deque<Packet>> to_worker;
  Clock::time_point now{};
  Engine engine{{.scheduler = Scheduler::naive}};
  EngineScope scope{engine};
  ServerCore core;

 private:
  static ServerOptions with_log(ServerOptions options) { return options; }
  void deliver() {
    Outbox outbox = core.take_outbox();
    for (auto& [peer, head] : outbox.greetings) to_worker[peer].push_back({std::move(head), {}});
    for (const Outgoing& one : outbox.replies)
      to_worker[one.peer].push_back({encode(one.reply), {one.payload.bytes.begin(), one.payload.bytes.end()}});
    for (const ServerEvent& event : outbox.events) events.push_back(event.name);
  }
  Peer last_peer_ = 0;
};

// A worker's connection to the server, which repeats what has no reply when it was cut.
class Link {
 public:
  Link(Host& host, Hello hello) : host_(host), hello_(std::move(hello)) { connect(); }

  std::uint64_t send(Request request, Bytes payload = {}) {
    request.number = ++last_number_;
    if (!payload.empty()) request.bytes = payload.size();
    unanswered_[request.number] = {encode(request), payload};
    if (welcome_) to_server_.push_back(unanswered_[request.number]);
    return request.number;
  }
  // The next message to the server.
  void step() {
    if (to_server_.empty()) return;
    const Packet packet = std::move(to_server_.front());
    to_server_.pop_front();
    host_.receive(peer_, packet);
  }
  // The next message from the server. Its answers are in `replies`.
  void hear() {
    auto& queue = host_.to_worker[peer_];
    if (queue.empty()) return;
    const Packet packet = std::move(queue.front());
    queue.pop_front();
    const FromServer message = decode_from_server(packet.head, packet.payload.size());
    if (std::holds_alternative<Welcome>(message)) {
      welcome_ = true;
      for (const auto& [number, one] : unanswered_) to_server_.push_back(one);
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
  void cut() {
    host_.disconnect(peer_);
    to_server_.clear();
    values_.clear();
    connect();
  }
  void die() { host_.disconnect(peer_); }
  bool has_reply(std::uint64_t number) const { return replies.contains(number); }
  std::pair<Reply, Bytes> take(std::uint64_t number) {
    REQUIRE(replies.contains(number));
    auto result = std::move(replies[number]);
    replies.erase(number);
    return result;
  }
  // For tests without chance: all that there is to do.
  void settle() {
    for (int i = 0; i < 100; ++i) step(), hear();
  }
  std::pair<Reply, Bytes> ask(Request request, Bytes payload = {}) {
    const std::uint64_t number = send(std::move(request), std::move(payload));
    settle();
    return take(number);
  }
  std::map<std::uint64_t, std::pair<Reply, Bytes>> replies;
  std::string refusal;

 private:
  void connect() {
    peer_ = host_.connect();
    welcome_ = false;
    to_server_.push_back({encode(hello_), {}});
  }
  Host& host_;
  Hello hello_;
  Peer peer_ = 0;
  bool welcome_ = false;
  std::uint64_t last_number_ = 0;
  std::deque<Packet> to_server_;
  std::map<std::uint64_t, Packet> unanswered_;
  std::map<std::uint64_t, Bytes> values_;
};

Hello hello_of(std::uint32_t rank, std::uint32_t workers, std::string consistency) {
  return {.job = "job", .consistency = std::move(consistency), .rank = rank, .workers = workers,
          .incarnation = 1000 + rank};
}

// Adds rank + 1 to `keys` keys, `rounds` times, and pulls each after each push.
class Adder {
 public:
  Adder(Host& host, std::uint32_t rank, std::uint32_t workers, const std::string& consistency, int keys, int rounds)
      : link(host, hello_of(rank, workers, consistency)), rank_(rank), rounds_(rounds), keys_(static_cast<std::size_t>(keys)) {
    waiting_ = link.send({.kind = Kind::set_optimizer, .text = "add"});
  }
  bool over() const { return over_; }
  // What it can do now.
  void go_on() {
    if (over_ || (waiting_ != 0 && !link.has_reply(waiting_))) return;
    if (waiting_ != 0) {
      CHECK(link.take(std::exchange(waiting_, 0)).first.kind == Kind::done);
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        const bool first = rank_ == 0;
        keys_[i].number = link.send({.kind = Kind::init, .has_value = first, .dtype = DType::i64, .bytes = kBytes,
                                     .text = "key" + std::to_string(i)},
                                    first ? bytes_of(std::vector<std::int64_t>(kElements)) : Bytes());
      }
    }
    over_ = true;
    for (Key& key : keys_) {
      if (key.number != 0 && link.has_reply(key.number)) next(key);
      over_ = over_ && key.round > rounds_;
    }
  }
  std::vector<std::vector<std::int64_t>> seen;  // what each pull gave, in order
  Link link;

 private:
  static constexpr std::size_t kElements = 5, kBytes = kElements * sizeof(std::int64_t);
  struct Key {
    std::uint64_t number = 0;  // of the request that is on its way
    Kind last = Kind::init;
    std::uint32_t key = 0;
    int round = 0;
  };
  void next(Key& key) {
    auto [reply, value] = link.take(std::exchange(key.number, 0));
    if (key.last == Kind::init) key.key = reply.key;
    if (key.last == Kind::pull) {
      const auto values = values_in<std::int64_t>(value);
      REQUIRE(values.size() == kElements);
      for (const std::int64_t one : values) CHECK(one == values[0]);
      seen.push_back({static_cast<std::int64_t>(key.key), key.round, values[0]});
    }
    if (key.last != Kind::push) {
      if (++key.round > rounds_) return;
      key.last = Kind::push;
      key.number = link.send({.kind = Kind::push, .dtype = DType::i64, .key = key.key,
                              .clock = static_cast<std::uint64_t>(key.round),
                              .lr = std::numeric_limits<double>::quiet_NaN()},
                             bytes_of(std::vector<std::int64_t>(kElements, rank_ + 1)));
    } else {
      CHECK(reply.kind == Kind::done);
      key.last = Kind::pull;
      key.number = link.send(
          {.kind = Kind::pull, .key = key.key, .clock = static_cast<std::uint64_t>(key.round)});
    }
  }
  std::uint32_t rank_;
  int rounds_;
  std::uint64_t waiting_ = 0;
  bool over_ = false;
  std::vector<Key> keys_;
};

void run_program(std::uint64_t seed, const std::string& consistency, std::uint64_t slack) {
  CAPTURE(seed);
  CAPTURE(consistency);
  std::mt19937_64 random(seed);
  const int workers = 1 + static_cast<int>(random() % 4), keys = 1 + static_cast<int>(random() % 3),
            rounds = 1 + static_cast<int>(random() % 6);
  const auto cuts = random() % 40;  // of 1000 steps
  Host host;
  std::vector<std::unique_ptr<Adder>> adders;
  for (int rank = 0; rank < workers; ++rank)
    adders.push_back(std::make_unique<Adder>(host, static_cast<std::uint32_t>(rank),
                                             static_cast<std::uint32_t>(workers), consistency, keys, rounds));
  const auto all_over = [&] {
    return std::all_of(adders.begin(), adders.end(), [](const auto& one) { return one->over(); });
  };
  for (int step = 0; !all_over(); ++step) {
    REQUIRE(step < 100'000);
    Adder& one = *adders[random() % adders.size()];
    const auto what = random() % 1000;
    if (what < cuts) {
      one.link.cut();
    } else if (what < 400) {
      one.link.step();
    } else if (what < 700) {
      one.link.hear();
    } else {
      one.go_on();
    }
  }
  const std::int64_t a_round = workers * (workers + 1) / 2;
  for (const auto& adder : adders) {
    for (const auto& seen : adder->seen) {
      if (consistency == "sync") CHECK(seen[2] == seen[1] * a_round);
      CHECK(seen[2] <= rounds * a_round);
    }
  }
  const ServerStats stats = host.core.stats(host.now);
  CHECK(stats.pushes == static_cast<std::uint64_t>(workers * keys * rounds));
  if (consistency.starts_with("ssp")) CHECK(stats.worst_staleness <= static_cast<std::int64_t>(slack));
  for (std::uint32_t key = 0; key < static_cast<std::uint32_t>(keys); ++key) {
    auto [reply, value] = adders[0]->link.ask({.kind = Kind::pull, .key = key, .clock = static_cast<std::uint64_t>(rounds)});
    REQUIRE(reply.kind == Kind::value);
    CHECK(values_in<std::int64_t>(value)[0] == rounds * a_round);
  }
}

}  // namespace

TEST_CASE("server core: no push is lost or counts twice, wherever connections are cut") {
  const auto programs = test::argument("programs", test::kSanitized ? 60 : 500);
  for (long long seed = 0; seed < programs; ++seed) {
    run_program(static_cast<std::uint64_t>(seed), "sync", 0);
    run_program(static_cast<std::uint64_t>(seed), "async", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:0", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:2", 2);
  }
}
