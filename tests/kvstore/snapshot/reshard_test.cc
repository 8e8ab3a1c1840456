// Snapshots rewritten for other numbers of servers keep values, optimizer state and waiting pushes.
#include "snapshot/reshard.h"

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "arguments.h"
#include "client/placement.h"
#include "core_host.h"
#include "files.h"
#include "message_of.h"
#include "server/state/snapshots.h"
#include "snapshot/snapshot_folder.h"
#include "wire/job_settings.h"
#include "wire/state_blob.h"

using namespace heddle;
using namespace heddle::kv_detail;
using heddle::test::message_of;

namespace {

using Floats = std::vector<float>;
constexpr std::uint32_t kWorkers = 2;

// The one engine that all servers of a test use.
struct OneEngine {
  Engine engine{{.scheduler = Scheduler::naive}};
  EngineScope scope{engine};
};

struct Value {
  std::string key;
  Floats elements;
  std::uint32_t rows;
};

std::vector<Value> some_values() {
  std::mt19937 random(3);
  std::vector<Value> values = {{"small", Floats(3), 3},
                               {"other", Floats(1000), 10},
                               {"empty", Floats(), 0},
                               {"wide", Floats(900'000), 3},
                               {"tall", Floats(1'200'000), 100'000}};
  for (Value& one : values) {
    for (float& element : one.elements) element = static_cast<float>(random() % 1000);
  }
  return values;
}

// A job on several servers, with keys laid out as in a store.
class Servers {
 public:
  Servers(const std::string& folder, std::uint32_t count, const PlacementRule& rule = {},
          const std::string& optimizer = update_rule_text("sgd", {{"lr", 0.5}, {"momentum", 0.5}}),
          const std::vector<Value>& values = some_values()) {
    KeyPlacer placer(rule, static_cast<int>(count));
    for (const Value& value : values) {
      const std::uint64_t bytes = 4 * value.elements.size();
      parts_[value.key] = placer.place({value.key, bytes, value.rows > 0 ? bytes / value.rows : 0});
    }
    for (std::uint32_t number = 0; number < count; ++number) {
      ServerOptions options;
      options.snapshots = folder;
      options.number = static_cast<int>(number);
      options.servers = static_cast<int>(count);
      hosts_.push_back(std::make_unique<Host>(options, false));
      snapshots_.push_back(std::make_unique<Snapshots>(
          options, 1, hosts_.back()->core, [](ServerEvent::Level, const char*, const Snapshots::Fields&) {}));
      snapshots_.back()->restore(number);
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        Hello hello = hello_of(rank, kWorkers, job_settings_text("sync", rule.text()));
        hello.server = number;
        hello.servers = count;
        // Differs from the incarnations of the rank's former processes.
        hello.incarnation = 100 * count + rank;
        links_.push_back(std::make_unique<Link>(*hosts_.back(), hello));
      }
    }
    all([&](std::uint32_t) { return Request{.kind = Kind::set_optimizer, .text = optimizer}; });
    for (const Value& value : values) init(value);
  }
  Link& link(std::uint32_t server, std::uint32_t rank) { return *links_[server * kWorkers + rank]; }

  void push(const Value& value, std::uint32_t rank, float by) {
    for (const KeyPart& part : parts_of(value)) {
      const std::uint64_t clock = ++clocks_[{value.key, part.server, rank}];
      Request request{.kind = Kind::push, .key = number_of(value, part), .clock = clock, .lr = 0.5};
      Floats pushed(part.bytes / 4, by);
      const auto server = static_cast<std::uint32_t>(part.server);
      CHECK(link(server, rank).ask(request, bytes_of(pushed)).first.text == "");
    }
  }
  // Pushes some rows of the value. Each server gets the rows that are in its part.
  void push_rows(const Value& value, std::uint32_t rank, const std::vector<std::int64_t>& rows, float by) {
    const std::uint64_t width = value.elements.size() / value.rows;
    for (const KeyPart& part : parts_of(value)) {
      const auto first = static_cast<std::int64_t>(part.offset / (4 * width)),
                 count = static_cast<std::int64_t>(part.bytes / (4 * width));
      std::vector<std::int64_t> mine;
      for (const std::int64_t row : rows) {
        if (row >= first && row < first + count) mine.push_back(row - first);
      }
      Bytes payload = bytes_of(mine);
      const Bytes values = bytes_of(Floats(mine.size() * width, by));
      payload.insert(payload.end(), values.begin(), values.end());
      const Request request{.kind = Kind::push,
                            .key = number_of(value, part),
                            .clock = ++clocks_[{value.key, part.server, rank}],
                            .row_bytes = 4 * width,
                            .lr = 0.5};
      CHECK(link(static_cast<std::uint32_t>(part.server), rank).ask(request, payload).first.text == "");
    }
  }
  // Sets the optimizer state of all parts of the value. A server stores the state of each row for
  // itself, and one array for its part of the value once most rows have state.
  void set_state(const Value& value, const std::map<std::string, Floats>& state, std::int64_t updates) {
    for (const KeyPart& part : parts_of(value)) {
      StateArrays arrays{{"updates", full({1}, static_cast<double>(updates), DType::i64)}};
      for (const auto& [name, elements] : state) {
        const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(part.offset / 4);
        const Floats mine(begin, begin + static_cast<std::ptrdiff_t>(part.bytes / 4));
        arrays[name] = array<float>(mine, {std::ssize(mine)});
      }
      const Request request{.kind = Kind::set_state,
                            .key = number_of(value, part),
                            .row_bytes = 4 * value.elements.size() / value.rows};
      CHECK(link(static_cast<std::uint32_t>(part.server), 0).ask(request, encode_state(arrays)).first.text ==
            "");
    }
  }
  // Pulls all parts of the value and joins them.
  Floats pull(const Value& value) {
    Floats result;
    for (const KeyPart& part : parts_of(value)) {
      const auto [reply, bytes] = link(static_cast<std::uint32_t>(part.server), 0)
                                      .ask({.kind = Kind::pull, .key = number_of(value, part)});
      CHECK(reply.text == "");
      const Floats some = values_in<float>(bytes);
      result.insert(result.end(), some.begin(), some.end());
    }
    return result;
  }
  void finish() {
    for (const auto& one : snapshots_) one->finish();
  }
  void finish(std::uint32_t server) { snapshots_[server]->finish(); }

 private:
  const std::vector<KeyPart>& parts_of(const Value& value) const { return parts_.at(value.key); }
  std::uint32_t number_of(const Value& value, const KeyPart& part) const {
    return numbers_.at({value.key, part.server});
  }
  template <class Make> void all(Make make) {
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < links_.size(); ++i)
      numbers.push_back(links_[i]->send(make(static_cast<std::uint32_t>(i % kWorkers))));
    for (int round = 0; round < 2; ++round) {
      for (const auto& one : links_) one->settle();
    }
    for (std::size_t i = 0; i < links_.size(); ++i) CHECK(links_[i]->take(numbers[i]).first.text == "");
  }
  void init(const Value& value) {
    for (const KeyPart& part : parts_of(value)) {
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        Request request{.kind = Kind::init,
                        .has_value = rank == 0,
                        .bytes = part.bytes,
                        .priority = -initialised_,
                        .text = value.key,
                        .whole = {4 * value.elements.size(), value.rows}};
        const auto begin = value.elements.begin() + static_cast<std::ptrdiff_t>(part.offset / 4);
        const Floats mine(begin, begin + static_cast<std::ptrdiff_t>(part.bytes / 4));
        const Reply reply = link(static_cast<std::uint32_t>(part.server), rank)
                                .ask(request, rank == 0 ? bytes_of(mine) : Bytes())
                                .first;
        CHECK(reply.text == "");
        numbers_[{value.key, part.server}] = reply.key;
        clocks_[{value.key, part.server, rank}] = reply.clock;
      }
    }
    ++initialised_;
  }

  std::map<std::string, std::vector<KeyPart>> parts_;
  std::int32_t initialised_ = 0;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Snapshots>> snapshots_;
  std::vector<std::unique_ptr<Link>> links_;  // the workers' connections, by server and rank
  std::map<std::pair<std::string, int>, std::uint32_t> numbers_;
  std::map<std::tuple<std::string, int, std::uint32_t>, std::uint64_t> clocks_;
};

std::vector<SnapshotIndex> newest(const std::string& folder, std::uint32_t servers) {
  std::vector<SnapshotIndex> parts;
  for (std::uint32_t number = 0; number < servers; ++number)
    parts.push_back(index_snapshot(snapshots_of(folder, number, servers).at(0).path));
  return parts;
}

}  // namespace

TEST_CASE("reshard: from one server to three, two and one, everything goes on as it would have") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  const std::vector<Value> values = some_values();
  const std::uint32_t counts[] = {1, 3, 2, 1};
  // For comparison: gets the same pushes, but its servers are never stopped.
  Servers kept(folder.file("kept"), 1);
  float by = 1;
  const auto work = [&](Servers& servers) {
    for (const Value& value : values) {
      servers.push(value, 0, by);
      servers.push(value, 1, by + 1);
      servers.push(value, 1, by + 2);  // this push of worker 1 waits for worker 0's next push
    }
  };
  const auto finish_round = [&](Servers& servers) {
    for (const Value& value : values) servers.push(value, 0, by + 3);
  };
  for (int step = 0; step < 4; ++step) {
    CAPTURE(step);
    const std::string mine = folder.file(std::to_string(step));
    if (step > 0)
      reshard(newest(folder.file(std::to_string(step - 1)), counts[step - 1]),
              {.out = mine, .servers = counts[step]});
    Servers servers(mine, counts[step]);
    if (step > 0) finish_round(servers), finish_round(kept), ++by;
    work(servers);
    work(kept);
    for (const Value& value : values) REQUIRE(servers.pull(value) == kept.pull(value));
    servers.finish();
  }
}

TEST_CASE("reshard: state of rows and pushes of rows that wait go on, on any number of servers") {
  const OneEngine engine;
  const std::vector<Value> values = {{"table", Floats(1'200'000, 1), 100'000}, {"small", Floats(60, 1), 20}};
  std::string optimizer;
  SUBCASE("momentum") { optimizer = update_rule_text("sgd", {{"lr", 0.5}, {"momentum", 0.5}}); }
  SUBCASE("counts of rows' updates") { optimizer = update_rule_text("adam", {{"lr", 0.5}}); }
  const test::TemporaryDirectory folder;
  const std::uint32_t counts[] = {1, 3, 2, 1, 2};
  Servers kept(folder.file("kept"), 1, {}, optimizer, values);
  std::mt19937 random(5);
  for (int step = 0; step < (test::kSanitized ? 3 : 5); ++step) {
    CAPTURE(step);
    const std::string mine = folder.file(std::to_string(step));
    if (step > 0)
      reshard(newest(folder.file(std::to_string(step - 1)), counts[step - 1]),
              {.out = mine, .servers = counts[step]});
    Servers servers(mine, counts[step], {}, optimizer, values);
    const auto both = [&](const Value& value, std::uint32_t rank, const std::vector<std::int64_t>& rows) {
      const float by = static_cast<float>(random() % 8);
      servers.push_rows(value, rank, rows, by);
      kept.push_rows(value, rank, rows, by);
    };
    for (const Value& value : values) {
      const auto some_rows = [&] {
        std::vector<std::int64_t> rows;
        for (std::int64_t row = random() % 3; row < value.rows; row += 1 + random() % (value.rows / 10))
          rows.push_back(row);
        return rows;
      };
      // Completes the round that worker 1's waiting push belongs to.
      if (step > 0) both(value, 0, some_rows());
      both(value, 0, {}), both(value, 1, some_rows());
      // Worker 0 has not pushed for these rounds, so these pushes wait.
      both(value, 1, some_rows()), both(value, 1, {value.rows - 1});
      both(value, 0, some_rows());
      REQUIRE(servers.pull(value) == kept.pull(value));
      // From this step on the optimizer state is of the whole value, and its counts of updates are of rows.
      if (step == 3) {
        for (Servers* one : {&servers, &kept}) one->push(value, 0, 1);
        both(value, 1, {}), both(value, 0, {1});
        REQUIRE(servers.pull(value) == kept.pull(value));
      }
    }
    servers.finish();
  }
}

TEST_CASE("reshard: parts that keep state of rows are put together with those that keep that of all") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  const Value table{"table", Floats(1'200'000, 1), 100'000};
  const std::string optimizer = update_rule_text("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
  Floats velocity(1'200'000);
  for (std::size_t i = 0; i < velocity.size(); i += i < 600'000 ? 12 : 2400) velocity[i] = 1;
  Servers kept(folder.file("kept"), 1, {}, optimizer, {table});
  const std::uint32_t counts[] = {2, 3, 1};
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    const std::string mine = folder.file(std::to_string(step));
    if (step > 0)
      reshard(newest(folder.file(std::to_string(step - 1)), counts[step - 1]),
              {.out = mine, .servers = counts[step]});
    Servers servers(mine, counts[step], {}, optimizer, {table});
    for (Servers* one : {&servers, &kept}) {
      if (step == 0) one->set_state(table, {{"velocity", velocity}}, 3);
      for (const std::uint32_t rank : {0u, 1u})
        one->push_rows(table, rank, {0, 7, 49'999, 50'000, 99'800}, 1);
    }
    REQUIRE(servers.pull(table) == kept.pull(table));
    servers.finish();
  }
}

TEST_CASE("reshard: rows that new parts would cut are refused before anything is written") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  // With 20 rows on three servers, parts end within rows.
  const Value few{"few", Floats(1'200'000, 1), 20};
  const std::string optimizer = update_rule_text("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
  {
    Servers servers(folder.file("in"), 2, {}, optimizer, {few});
    for (const std::uint32_t rank : {0u, 1u}) servers.push_rows(few, rank, {0, 19}, 1);
    servers.finish();
  }
  CHECK(message_of<Error>(
            [&] { reshard(newest(folder.file("in"), 2), {.out = folder.file("out"), .servers = 3}); }) ==
        "job 'job', key few: the new servers' parts of it would cut rows of which there is an optimizer's "
        "state, or a push that waits: it can be restored for as many servers as there were, or for fewer");
  CHECK(snapshots_in(folder.file("out")).empty());
  CHECK(reshard(newest(folder.file("in"), 2), {.out = folder.file("out"), .servers = 1}).files.size() == 1);
}

TEST_CASE("reshard: each placement is as workers of the new servers have it") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  const std::vector<Value> values = some_values();
  const auto list = [](int wide, int small) {
    PlacementRule rule(Placement::by_list);
    rule.servers = {{"wide", wide}, {"small", small}};
    return rule;
  };
  const std::pair<PlacementRule, PlacementRule> rules[] = {{Placement::round_robin, Placement::round_robin},
                                                           {Placement::greedy, Placement::greedy},
                                                           {list(1, 0), list(2, 1)}};
  for (const auto& [before, after] : rules) {
    CAPTURE(before.text());
    std::map<std::string, Floats> wanted;
    const std::string in = folder.file("in " + before.text()), out = folder.file("out " + before.text());
    {
      Servers servers(in, 2, before);
      for (const Value& value : values) {
        servers.push(value, 0, 1), servers.push(value, 1, 2);
        wanted[value.key] = servers.pull(value);
      }
      servers.finish();
    }
    reshard(newest(in, 2), {.out = out, .servers = 3, .placement = after});
    Servers servers(out, 3, after);  // the workers' inits find the keys that the snapshots contain
    for (const Value& value : values) CHECK(servers.pull(value) == wanted[value.key]);
  }
  CHECK(message_of<Error>([&] {
          reshard(newest(folder.file("in " + list(1, 0).text()), 2),
                  {.out = folder.file("none"), .servers = 3});
        }) ==
        "job 'job' has an explicit placement, for as many servers as there were: --placement says where its "
        "keys will be");
  std::vector<SnapshotIndex> parts = newest(folder.file("in greedy"), 2);
  for (SnapshotIndex& part : parts)
    std::erase_if(part.jobs[0].keys, [](const KeyIndex& one) { return one.key.name == "other"; });
  CHECK(message_of<Error>([&] {
          reshard(parts, {.out = folder.file("none"), .servers = 3});
        }).find("some of these are missing") != std::string::npos);
}

TEST_CASE("reshard: parts of different moments are named, and taken only if that is wanted") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  const std::vector<Value> values = some_values();
  const Value& split = values[4];
  {
    Servers servers(folder.file("in"), 2);
    servers.push(split, 0, 1), servers.push(split, 1, 1);
    servers.finish();
    servers.push(split, 0, 1), servers.push(split, 1, 1);
    servers.finish(1);
  }
  const std::vector<SnapshotIndex> parts = newest(folder.file("in"), 2);
  ReshardOptions options{.out = folder.file("out"), .servers = 3};
  CHECK(message_of<Error>([&] { reshard(parts, options); }) ==
        "job 'job', key tall: server 0 has 1 pushes of worker 0, server 1 2: the snapshots are of different "
        "moments. "
        "--newest-parts takes each part as it is, which no program has ever seen together");
  CHECK(snapshots_in(folder.file("out")).empty());
  options.newest_parts = true;
  const Resharded made = reshard(parts, options);
  CHECK(made.files.size() == 3);
  // On a slow machine there is another note before these two: that the times of the snapshots differ.
  REQUIRE(made.notes.size() >= 2);
  CHECK(made.notes[made.notes.size() - 2] ==
        "job 'job': keys have from 0 to 2 pushes of worker 0: their values are of different moments");
  Servers servers(folder.file("out"), 3);
  const Floats value = servers.pull(split);
  CHECK(value.front() == split.elements.front() - 0.5f * 2);
  CHECK(value.back() == split.elements.back() - 0.5f * 2 - 0.5f * 3);
  CHECK(message_of<Error>([&] { reshard(parts, options); }).find("has snapshots of 3 servers already") !=
        std::string::npos);
}

TEST_CASE("reshard: a part that is missing is missed") {
  const test::TemporaryDirectory folder;
  const OneEngine engine;
  Servers(folder.file("in"), 2).finish();
  std::vector<SnapshotIndex> parts = newest(folder.file("in"), 2);
  std::vector<KeyIndex>& keys = parts[1].jobs[0].keys;
  std::erase_if(keys, [](const KeyIndex& one) { return one.key.name == "tall"; });
  const ReshardOptions options{.out = folder.file("out"), .servers = 1};
  CHECK(message_of<Error>([&] {
          reshard(parts, options);
        }).find("key tall: it has 2400000 bytes on server 0") != std::string::npos);
  parts[1].jobs.clear();
  CHECK(message_of<Error>([&] { reshard(parts, options); }) ==
        "job 'job' is on 1 of 2 servers: the snapshots are of different moments");
}
