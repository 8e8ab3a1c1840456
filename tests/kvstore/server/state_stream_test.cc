// A core that has loaded another core's state gives the same answers from then on; truncated or changed
// streams are refused.
#include "server/state/state_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "arguments.h"
#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t kWorkers = 3;
// Most unanswered requests of a worker: Link::settle() delivers 100 messages at most.
constexpr std::size_t kMostWaiting = 30;

struct ProgramKey {
  DType dtype;
  std::int64_t elements;
};

// Small random numbers of the key's dtype.
Bytes some_values(const ProgramKey& key, std::mt19937_64& random) {
  std::vector<float> values(static_cast<std::size_t>(key.elements));
  for (float& one : values) one = static_cast<float>(random() % 7);
  const NDArray converted = array<float>(values, {key.elements}).astype(key.dtype);
  converted.wait();
  const auto* begin = converted.data<const std::byte>();
  return {begin, begin + values.size() * size_of(key.dtype)};
}

// Workers that act at random, as determined by the seed and the answers.
class Program {
 public:
  Program(std::uint64_t seed, const std::string& consistency, bool replaces)
      : consistency_(consistency), replaces_(replaces), random_(seed) {
    const DType dtypes[] = {DType::f32, DType::f64, DType::i64, DType::f16, DType::bf16, DType::boolean};
    const std::int64_t sizes[] = {0, 1, 5, 33, random_() % 20 == 0 ? 300'001 : 3};
    for (std::uint64_t left = 1 + random_() % 4; left > 0; --left)
      keys_.push_back({random_() % 3 > 0 ? DType::f32 : dtypes[random_() % 6], sizes[random_() % 5]});
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) join(rank);
  }

  // Makes `steps` random steps, then pulls everything. Returns all answers, in order.
  std::vector<std::string> run(int steps) {
    go_on(steps);
    for (int i = 0; i < 2; ++i) {
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        for (std::uint32_t key = 0; key < keys_.size(); ++key) get_all(rank, key);
      }
      settle();
      all_links_cut();
    }
    return std::move(answers_);
  }
  void go_on(int steps) {
    for (int step = 0; step < steps; ++step) {
      do_something();
      settle();
    }
  }
  Host host;

 private:
  struct Worker {
    std::unique_ptr<Link> link;
    std::map<std::uint64_t, Request> waiting;  // waiting requests by number
    std::vector<std::uint64_t> clocks;
    std::uint64_t incarnation = 0;
    bool in_collective() const {
      return std::any_of(waiting.begin(), waiting.end(), [](const auto& one) {
        return one.second.kind == Kind::barrier || one.second.kind == Kind::set_optimizer;
      });
    }
  };

  void join(std::uint32_t rank) {
    Worker& worker = workers_[rank];
    Hello hello = hello_of(rank, kWorkers, consistency_);
    hello.incarnation = 10 * ++worker.incarnation + rank;
    if (!worker.clocks.empty()) worker.link->die();
    worker.waiting.clear();
    worker.clocks.assign(keys_.size(), 0);
    worker.link = std::make_unique<Link>(host, hello);
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      const bool first = rank == 0;
      const Bytes value = some_values(keys_[key], random_);
      send(rank,
           {.kind = Kind::init,
            .has_value = first,
            .dtype = keys_[key].dtype,
            .bytes = value.size(),
            .text = "key" + std::to_string(key)},
           first ? value : Bytes());
    }
  }

  void send(std::uint32_t rank, const Request& request, const Bytes& payload = {}) {
    Worker& worker = workers_[rank];
    worker.waiting[worker.link->send(request, payload)] = request;
  }

  void settle() {
    for (int i = 0; i < 2; ++i) {
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        if (rank != gone_) workers_[rank].link->settle();
      }
    }
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      Worker& worker = workers_[rank];
      for (auto& [number, answer] : std::exchange(worker.link->replies, {})) heard(rank, number, answer);
    }
  }

  void heard(std::uint32_t rank, std::uint64_t number, const std::pair<Reply, Bytes>& answer) {
    const auto& [reply, value] = answer;
    Worker& worker = workers_[rank];
    const Request request = worker.waiting.at(number);
    worker.waiting.erase(number);
    if (request.kind == Kind::init && reply.kind == Kind::done) worker.clocks[reply.key] = reply.clock;
    if (request.kind == Kind::push && reply.kind == Kind::done) worker.clocks[request.key] = request.clock;
    std::string bytes(reinterpret_cast<const char*>(value.data()), value.size());
    answers_.push_back(std::to_string(rank) + " " + std::to_string(static_cast<int>(request.kind)) + " " +
                       std::to_string(request.key) + " -> " + std::to_string(static_cast<int>(reply.kind)) +
                       " " + std::to_string(reply.clock) + " " + reply.text + " " + bytes);
  }

  void do_something() {
    const auto rank = static_cast<std::uint32_t>(random_() % kWorkers);
    const auto key = static_cast<std::uint32_t>(random_() % keys_.size());
    const std::uint64_t what = random_() % 100;
    Worker& worker = workers_[rank];
    if (what < 6) {
      if (replaces_) host.replace_core();
      all_links_cut();
    } else if (what < 8) {
      join(rank);
    } else if (what < 10) {
      pass_time(rank);
    } else if (worker.in_collective() || worker.waiting.size() > kMostWaiting) {
      return;
    } else if (what < 60) {
      push(rank, key);
    } else if (what < 80) {
      send(rank, {.kind = Kind::pull, .key = key, .clock = worker.clocks[key]});
    } else if (what < 90) {
      get_all(rank, key);
    } else if (what < 95) {
      send(rank, {.kind = Kind::barrier, .text = random_() % 10 == 0 ? "odd" : ""});
    } else if (what < 98) {
      const char* const rules[] = {"add", "sgd lr=0.5 momentum=0.9", "adam lr=0.1", "sgd lr=0.25", "lamb"};
      const std::string rule = rules[random_() % 5];
      for (std::uint32_t each = 0; each < kWorkers; ++each) {
        if (!workers_[each].in_collective()) send(each, {.kind = Kind::set_optimizer, .text = rule});
      }
    } else {
      send(rank, {.kind = Kind::clear_errors});
    }
  }

  // Pushes, unless a push of that worker and key has no answer yet: a store also has at most one at a time.
  void push(std::uint32_t rank, std::uint32_t key) {
    Worker& worker = workers_[rank];
    const bool waits = std::any_of(worker.waiting.begin(), worker.waiting.end(), [&](const auto& one) {
      return one.second.kind == Kind::init || (one.second.kind == Kind::push && one.second.key == key);
    });
    if (waits) return;
    Request request{.kind = Kind::push,
                    .dtype = keys_[key].dtype,
                    .key = key,
                    .clock = worker.clocks[key] + 1,
                    .lr = random_() % 16 == 0 ? 0.125 : kNoRate,
                    .scale = random_() % 16 == 0 ? 0.5 : 1};
    Bytes value = some_values(keys_[key], random_);
    if (random_() % 16 == 0) {
      request.overwrite = true;
      request.has_value = rank == 0;
      if (rank != 0) value.clear();
    }
    request.bytes = value.size();
    send(rank, request, value);
  }

  void get_all(std::uint32_t rank, std::uint32_t key) {
    const std::uint64_t clock = workers_[rank].clocks[key];
    send(rank, {.kind = Kind::pull, .key = key, .clock = clock});
    send(rank, {.kind = Kind::get_state, .key = key, .clock = clock});
  }

  // Worker `gone` is away for so long that the other workers continue without it.
  void pass_time(std::uint32_t gone) {
    workers_[gone].link->die();
    gone_ = gone;
    host.now += 31s;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      if (rank != gone) send(rank, {.kind = Kind::ping});
    }
    settle();
    host.tick(0s);
    settle();
    gone_ = kWorkers;
    workers_[gone].link->cut();
  }

  void all_links_cut() {
    for (Worker& worker : workers_) worker.link->cut();
    settle();
  }

  const std::string consistency_;
  const bool replaces_;
  std::mt19937_64 random_;
  std::vector<ProgramKey> keys_;
  Worker workers_[kWorkers];
  std::uint32_t gone_ = kWorkers;  // worker whose connection is cut; kWorkers: none
  std::vector<std::string> answers_;
};

void load(Host& host, const std::vector<Packet>& state) {
  StateLoader loader(host.core, host.now);
  for (const Packet& one : state) loader.add(one.head, one.payload);
  if (!loader.complete()) throw MalformedMessage("it is not complete");
}

// A state with all kinds of records.
std::vector<Packet> rich_state() {
  Program program(7, "sync", false);
  program.run(300);
  return saved_state(program.host.core);
}

// Sends requests of all kinds to a core whose state was changed at random.
void poke(Host& host) {
  try {
    std::vector<std::unique_ptr<Link>> links;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      links.push_back(std::make_unique<Link>(host, hello_of(rank, kWorkers, "sync")));
      Link& link = *links.back();
      link.settle();
      if (link.incarnation == 0) return;  // the changed state has other workers, so the core refuses this one
      for (std::uint32_t key = 0; key < 3; ++key) {
        link.send({.kind = Kind::pull, .key = key, .clock = 1});
        link.send({.kind = Kind::get_state, .key = key});
        link.send({.kind = Kind::push, .key = key, .clock = 1}, Bytes(20));
      }
      link.send({.kind = Kind::barrier});
      link.settle();
    }
    host.tick(31s);
    save_state(host.core, [](std::vector<std::byte>, Payload) {});
  } catch (const MalformedMessage&) {  // expected if the push before this one is missing in the changed state
  }
}

// Loads the state into a core, and uses the core. Returns whether the state was accepted.
bool survives(const std::vector<Packet>& state) {
  Host host;
  try {
    load(host, state);
  } catch (const MalformedMessage&) {
    CHECK(host.core.stats(host.now).jobs == 0);
    return false;
  }
  poke(host);
  return true;
}

}  // namespace

TEST_CASE("state stream: a core that goes on with a saved state gives the same answers, bit for bit") {
  const auto programs = test::argument("programs", test::kSanitized ? 4 : 150);
  for (long long seed = 0; seed < programs; ++seed) {
    for (const char* consistency : {"sync", "async", "ssp:0", "ssp:2"}) {
      CAPTURE(seed);
      CAPTURE(consistency);
      const auto kept = Program(static_cast<std::uint64_t>(seed), consistency, false).run(120);
      const auto replaced = Program(static_cast<std::uint64_t>(seed), consistency, true).run(120);
      REQUIRE(kept.size() == replaced.size());
      for (std::size_t i = 0; i < kept.size(); ++i) REQUIRE(kept[i] == replaced[i]);
    }
  }
}

TEST_CASE("state stream: what is loaded is saved as it was") {
  const std::vector<Packet> state = rich_state();
  Host host;
  load(host, state);
  const std::vector<Packet> again = saved_state(host.core);
  REQUIRE(again.size() == state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    CHECK(again[i].head == state[i].head);
    CHECK(again[i].payload == state[i].payload);
  }
  const ServerStats stats = host.core.stats(host.now);
  CHECK(stats.jobs == 1);
  CHECK(stats.workers.size() == kWorkers);
}

namespace {

void check_same(const std::vector<SavedMessage>& found, const std::vector<Packet>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].head == expected[i].head);
    CHECK(std::ranges::equal(found[i].payload.bytes, expected[i].payload));
  }
}

}  // namespace

TEST_CASE("state stream: a state that is collected while the core goes on is that of the beginning") {
  for (std::uint64_t seed = 0; seed < (test::kSanitized ? 10 : 300); ++seed) {
    CAPTURE(seed);
    const char* const consistencies[] = {"sync", "async", "ssp:1"};
    Program program(seed, consistencies[seed % 3], false);
    program.go_on(static_cast<int>(seed % 40));
    const std::vector<Packet> expected = saved_state(program.host.core);
    StateSaver saver(program.host.core);
    // The saved payloads, which must stay unchanged while the program goes on.
    std::vector<SavedMessage> found;
    const StateSink sink = [&found](std::vector<std::byte> head, Payload payload) {
      found.push_back({std::move(head), std::move(payload)});
    };
    do {
      program.go_on(static_cast<int>(1 + seed % 5));
    } while (!saver.go_on(1, sink));
    program.go_on(3);
    check_same(found, expected);
  }
}

TEST_CASE(
    "state stream: a job that ends, and keys that are made, do not change a state that is being collected") {
  Host host;
  Link link(host, hello_of(0, 1, "async"));
  for (const char* key : {"a", "b", "c"})
    link.ask({.kind = Kind::init, .has_value = true, .text = key}, bytes_of(std::vector<float>{1, 2}));
  const std::vector<Packet> expected = saved_state(host.core);
  StateSaver saver(host.core);
  std::vector<SavedMessage> found;
  const StateSink sink = [&](std::vector<std::byte> head, Payload payload) {
    found.push_back({std::move(head), std::move(payload)});
  };
  CHECK_FALSE(saver.go_on(1, sink));
  Request bundle{.kind = Kind::push_many, .bytes = 24, .lr = kNoRate};
  for (const std::uint32_t key : {0u, 1u, 2u}) bundle.entries.push_back({.key = key, .bytes = 8, .clock = 1});
  CHECK(link.ask(bundle, bytes_of(std::vector<float>(6, 9))).first.kind == Kind::done);
  link.ask({.kind = Kind::init, .has_value = true, .text = "d"}, bytes_of(std::vector<float>{1, 2}));
  link.ask({.kind = Kind::leave});
  host.tick(1s);
  CHECK_FALSE(host.core.has_jobs());
  Link another(host, hello_of(0, 1, "async"));
  CHECK_FALSE(saver.go_on(1, sink));
  CHECK(saver.go_on(5, sink));
  check_same(found, expected);
}

TEST_CASE("state stream: without any one of its messages, or cut anywhere, a state is refused") {
  const std::vector<Packet> state = rich_state();
  for (std::size_t i = 0; i < state.size(); ++i) {
    CAPTURE(i);
    CHECK(!survives({state.begin(), state.begin() + static_cast<std::ptrdiff_t>(i)}));
    std::vector<Packet> changed = state;
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(!survives(changed));
    changed = state;
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(i), state[i]);
    CHECK(!survives(changed));
    for (std::size_t length = 0; length < state[i].head.size(); ++length) {
      changed = state;
      changed[i].head.resize(length);
      CHECK(!survives(changed));
    }
    if (state[i].payload.empty()) continue;
    changed = state;
    changed[i].payload.pop_back();
    CHECK(!survives(changed));
  }
}

TEST_CASE("state stream: bytes that were changed do no harm") {
  const std::vector<Packet> state = rich_state();
  std::mt19937_64 random(1);
  const auto changes = test::argument("changes", test::kSanitized ? 500 : 10'000);
  int taken = 0;
  for (long long i = 0; i < changes; ++i) {
    std::vector<Packet> changed = state;
    for (auto left = 1 + random() % 3; left > 0; --left) {
      Packet& one = changed[random() % changed.size()];
      Bytes& bytes = random() % 8 == 0 && !one.payload.empty() ? one.payload : one.head;
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 << random() % 8);
    }
    taken += survives(changed);
  }
  CHECK(taken > 0);  // a state with a changed clock or value can still be valid
  CHECK(taken < changes);
}

TEST_CASE("state stream: what is announced is not believed before it comes") {
  const auto with = [](std::vector<StateRecord> records, Bytes payload) {
    std::vector<Packet> state;
    for (const StateRecord& one : records) state.push_back({encode(one), {}});
    state.back().payload = std::move(payload);
    return state;
  };
  StateJob job;
  job.name = "job";
  job.consistency = "sync";
  const std::uint64_t huge = std::uint64_t{1} << 60;
  Host host;
  StateLoader loader(host.core, host.now);
  for (const Packet& one :
       with({StateBegin{}, job, StateWorker{}, StateKey{.name = "w", .bytes = huge}}, Bytes(16)))
    loader.add(one.head, one.payload);
  const std::size_t before = cpu_allocator_stats().in_use;
  const Packet array = with({StateArray{.bytes = huge}}, Bytes(kPieceBytes))[0];
  loader.add(array.head, array.payload);
  for (int i = 0; i < 100; ++i) loader.add(encode(StatePiece{}), array.payload);
  CHECK(cpu_allocator_stats().in_use - before <= 5 * 101 * kPieceBytes);
  CHECK(!loader.complete());
}

TEST_CASE("state stream: the state of another server, or of another version, says so") {
  Host host({.number = 1, .servers = 3});
  const std::vector<Packet> state = saved_state(host.core);
  Host other({.number = 2, .servers = 3});
  CHECK_THROWS_WITH_AS(load(other, state), "the state of server 1 of 3; this is server 2 of 3",
                       MalformedMessage);
  std::vector<Packet> later = state;
  later[0].head[1] = std::byte{9};
  CHECK_THROWS_WITH_AS(load(host, later), "a state of version 9; this program reads versions 1 to 3",
                       MalformedMessage);
}

TEST_CASE("state stream: a value that is saved stays as it is while the core goes on") {
  Host host;
  Link link(host, hello_of(0, 1, "async"));
  CHECK(link.ask({.kind = Kind::set_optimizer, .text = "add"}).first.kind == Kind::done);
  link.ask({.kind = Kind::init, .has_value = true, .text = "w"}, bytes_of(std::vector<float>{1, 2}));
  std::vector<Payload> payloads;
  save_state(host.core,
             [&](std::vector<std::byte>, Payload payload) { payloads.push_back(std::move(payload)); });
  link.ask({.kind = Kind::push, .clock = 1}, bytes_of(std::vector<float>{10, 20}));
  CHECK(values_in<float>(link.ask({.kind = Kind::pull, .clock = 1}).second) == std::vector<float>{11, 22});
  const auto same = [](const Payload& one) {
    return values_in<float>({one.bytes.begin(), one.bytes.end()}) == std::vector<float>{1, 2};
  };
  CHECK(std::count_if(payloads.begin(), payloads.end(), same) == 1);
}
