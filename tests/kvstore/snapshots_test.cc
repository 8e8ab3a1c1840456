// Snapshots of a server's core: what a server restores from them, what it then tells workers, and disk
// errors.
#include "server/state/snapshots.h"

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "core_host.h"
#include "files.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;
using heddle::test::message_of;
using heddle::test::read_file;
using heddle::test::write_file;

namespace {

using Floats = std::vector<float>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

// A core that snapshots are taken of, and the events that they log.
struct Served : Host {
  explicit Served(const ServerOptions& given, std::uint64_t incarnation = 7) : Host(given) {
    snapshots = std::make_unique<Snapshots>(
        given, incarnation, core,
        [this](ServerEvent::Level level, const char* name, Snapshots::Fields fields) {
          log.push_back({level, name, std::move(fields)});
        });
    snapshots->restore(incarnation);
  }
  std::string field(const std::string& event, const std::string& name) const {
    for (auto one = log.rbegin(); one != log.rend(); ++one) {
      if (one->name != event) continue;
      for (const auto& [key, value] : one->fields) {
        if (key == name) return value;
      }
    }
    return "no such event";
  }
  std::vector<ServerEvent> log;
  std::unique_ptr<Snapshots> snapshots;
};

ServerOptions options_of(const test::TemporaryDirectory& folder) {
  ServerOptions options;
  options.snapshots = folder.path.string();
  return options;
}

Hello alone(const std::string& consistency = "async") { return hello_of(0, 1, consistency); }

void init(Link& link, const std::string& key = "w", const Floats& value = {1, 2}) {
  const Request request{.kind = Kind::init, .has_value = true, .text = key};
  REQUIRE(link.ask(request, bytes_of(value)).first.kind == Kind::done);
}

std::pair<Reply, Bytes> push(Link& link, std::uint64_t clock, const Floats& value = {1, 1},
                             std::uint32_t key = 0) {
  return link.ask({.kind = Kind::push, .key = key, .clock = clock, .lr = kNoRate}, bytes_of(value));
}

std::pair<Reply, Bytes> pull(Link& link, std::uint64_t clock, std::uint32_t key = 0) {
  return link.ask({.kind = Kind::pull, .key = key, .clock = clock});
}

std::vector<std::string> files_in(const test::TemporaryDirectory& folder) {
  std::vector<std::string> all;
  for (const SnapshotName& one : snapshots_in(folder.path.string())) all.push_back(one.path);
  return all;
}

}  // namespace

TEST_CASE("snapshots: workers go on with a restored server as if nothing had been") {
  const test::TemporaryDirectory folder;
  std::uint64_t incarnation = 0;
  {
    Served server(options_of(folder));
    Link link(server, alone());
    link.ask({.kind = Kind::set_optimizer, .text = "sgd lr=1 momentum=0.5"});
    init(link);
    push(link, 1);
    incarnation = link.incarnation;
    server.snapshots->finish();
    CHECK(server.field("snapshot_written", "file") == files_in(folder)[0]);
    CHECK(server.snapshots->stats(Clock::now()).written == 1);
  }
  Served server(options_of(folder), 8);
  CHECK(server.field("snapshot_loaded", "keys") == "1");
  Link link(server, alone());
  CHECK(values_in<float>(pull(link, 1).second) == Floats{0, 1});
  CHECK(link.incarnation == incarnation);
  push(link, 2);
  CHECK(values_in<float>(pull(link, 2).second) == Floats{-1.5, -0.5});
}

TEST_CASE("snapshots: a worker whose acknowledged pushes are lost is told what to do") {
  const test::TemporaryDirectory folder;
  const auto before = [&folder](Served& server, const std::string& consistency) {
    Link link(server, alone(consistency));
    link.ask({.kind = Kind::set_optimizer, .text = "add"});
    init(link);
    push(link, 1);
    server.snapshots->finish();
    link.die();
  };
  for (const char* consistency : {"sync", "async", "ssp:2"}) {
    CAPTURE(consistency);
    std::filesystem::remove_all(folder.path);
    {
      Served server(options_of(folder));
      before(server, consistency);
    }
    Served server(options_of(folder));
    Link link(server, alone(consistency));
    const std::string when = "the server was restored from a snapshot of " +
                             server.field("snapshot_loaded", "taken"),
                      anew = "; start the job anew from its last checkpoint",
                      of_key = "pushes of key w that it had acknowledged are lost";
    CHECK(push(link, 5).first.text == when + ", 3 " + of_key + anew);
    CHECK(pull(link, 4).first.text == when + ", " + of_key + anew);
    CHECK(link.ask({.kind = Kind::get_state, .clock = 4}).first.text == when + ", " + of_key + anew);
    CHECK(pull(link, 2).first.text ==
          "the push of key w before the pull has failed, or " + when + ", it is lost" + anew);
    // Nothing is lost: the snapshot has the only push before this one.
    CHECK(push(link, 2).first.kind == Kind::done);
    CHECK(pull(link, 2).first.kind == Kind::value);
  }
}

TEST_CASE("snapshots: a key that was made after the snapshot is not taken for another one") {
  const test::TemporaryDirectory folder;
  {
    Served server(options_of(folder));
    Link link(server, alone());
    init(link, "first");
    server.snapshots->finish();
    init(link, "second");
    CHECK(pull(link, 0, 1).first.kind == Kind::value);
  }
  Served server(options_of(folder));
  Link link(server, alone());
  const std::string lost = "the init of a key that it had acknowledged is lost";
  CHECK(pull(link, 0, 1).first.text.find(lost) != std::string::npos);
  init(link, "third", {5, 6});
  CHECK(pull(link, 0, 1).first.text.find(lost) != std::string::npos);
  CHECK(push(link, 1, {1, 1}, 1).first.text.find(lost) != std::string::npos);
  const Reply reply = link.ask({.kind = Kind::init, .bytes = 8, .text = "third"}).first;
  CHECK(values_in<float>(pull(link, 0, reply.key).second) == Floats{5, 6});
  CHECK(pull(link, 0, 0).first.kind == Kind::value);
  server.snapshots->finish();
  server.snapshots = nullptr;
  Served again(options_of(folder));
  Link later(again, alone());
  CHECK(values_in<float>(pull(later, 0, reply.key).second) == Floats{5, 6});
}

TEST_CASE("snapshots: a job that begins after a restore is another one than those that are lost") {
  const test::TemporaryDirectory folder;
  std::uint64_t lost = 0;
  {
    Served server(options_of(folder), 7);
    Link first(server, alone());
    first.settle();
    server.snapshots->finish();
    Hello hello = alone();
    hello.job = "other";
    Link second(server, hello);
    second.settle();
    lost = second.incarnation;
  }
  Served server(options_of(folder), 5000);
  Hello hello = alone();
  hello.job = "other";
  Link second(server, hello);
  second.settle();
  CHECK(second.incarnation != lost);
}

TEST_CASE(
    "snapshots: a bad one is refused by name, and the one before is taken; without a good one nothing "
    "starts") {
  const test::TemporaryDirectory folder;
  {
    Served server(options_of(folder));
    Link link(server, alone());
    link.ask({.kind = Kind::set_optimizer, .text = "add"});
    init(link);
    server.snapshots->finish();
    push(link, 1);
    server.snapshots->finish();
  }
  const std::vector<std::string> files = files_in(folder);
  REQUIRE(files.size() == 2);
  std::string bytes = read_file(files[0]);
  bytes[bytes.size() / 2] ^= 1;
  write_file(files[0], bytes);
  {
    Served server(options_of(folder));
    CHECK(server.field("snapshot_refused", "why").starts_with(files[0] + ", byte "));
    CHECK(server.field("snapshot_loaded", "file") == files[1]);
    Link link(server, alone());
    CHECK(values_in<float>(pull(link, 0).second) == Floats{1, 2});
    server.snapshots->finish();
  }
  CHECK(files_in(folder).size() == 3);
  for (const std::string& file : files_in(folder)) write_file(file, "");
  CHECK(message_of<Error>([&] { Served server(options_of(folder)); })
            .starts_with("none of the 3 snapshots of server 0 of 1 in " + folder.path.string() +
                         " can be read; move them away to start without what they hold. The newest: " +
                         files_in(folder)[0] + ", byte 0: the file is torn"));
}

TEST_CASE("snapshots: those of another number of servers are not passed over") {
  const test::TemporaryDirectory folder;
  {
    ServerOptions options = options_of(folder);
    options.servers = 2;
    Served server(options);
    Link link(server, [] {
      Hello hello = alone();
      hello.servers = 2;
      return hello;
    }());
    link.settle();
    server.snapshots->finish();
  }
  const std::string why = message_of<Error>([&] { Served server(options_of(folder)); });
  CHECK(why.find("heddle server restore " + folder.path.string() + " --servers 1") != std::string::npos);
}

TEST_CASE("snapshots: written when they are due and something has changed") {
  const test::TemporaryDirectory folder;
  ServerOptions options = options_of(folder);
  options.snapshot_interval = 60s;
  options.snapshots_kept = 2;
  Served server(options);
  const auto begin = Clock::now();
  const auto ticks = [&](Clock::duration at) {
    const auto written = [&] { return server.snapshots->stats(begin).written; };
    const std::uint64_t before = written();
    server.snapshots->tick(begin + at);
    // Waits until the snapshot that tick() has begun is written.
    while (server.snapshots->go_on()) std::this_thread::yield();
    return written() - before;
  };
  CHECK(ticks(61s) == 0);  // writes nothing: nothing has changed
  Link link(server, alone());
  init(link);
  CHECK(ticks(62s) == 0);
  CHECK(ticks(122s) == 1);
  CHECK(ticks(190s) == 0);
  push(link, 1);
  CHECK(ticks(191s) == 0);
  CHECK(ticks(251s) == 1);
  link.ask({.kind = Kind::leave});
  server.tick(1s);
  CHECK(ticks(252s) == 1);  // writes at once, since the job has ended
  CHECK(files_in(folder).size() == 2);
  server.core.drain();
  CHECK(ticks(253s) == 0);
  server.snapshots = nullptr;
  Served after(options);
  CHECK(after.field("snapshot_loaded", "jobs") == "0");
}

TEST_CASE("snapshots: many keys are collected in pieces, and what changes meanwhile is not in the snapshot") {
  const test::TemporaryDirectory folder;
  ServerOptions options = options_of(folder);
  options.keys_at_once = 1;
  {
    Served server(options);
    Link link(server, alone());
    for (std::uint32_t key = 0; key < 5; ++key) {
      init(link, "key" + std::to_string(key));
      push(link, 1, {5, 5}, key);
    }
    server.snapshots->tick(Clock::now() + 1h);
    CHECK(server.snapshots->has_more());
    for (std::uint32_t key = 0; key < 5; ++key) push(link, 2, {7, 7}, key);
    while (server.snapshots->go_on()) std::this_thread::yield();
    CHECK(server.snapshots->stats(Clock::now()).written == 1);
    link.die();
  }
  {
    Served server(options);
    Link link(server, alone());
    for (std::uint32_t key = 0; key < 5; ++key)
      CHECK(values_in<float>(pull(link, 1, key).second) == Floats{5, 5});
    push(link, 2, {7, 7}, 4);
    server.snapshots->tick(Clock::now() + 1h);
    server.snapshots->leave_core();  // a server does this when another server becomes the primary
    CHECK_FALSE(server.snapshots->go_on());
    CHECK(files_in(folder).size() == 1);
    server.snapshots->adopt();
    server.snapshots->tick(Clock::now() + 2h);
    server.snapshots->finish();  // writes the rest of the snapshot at once
    CHECK(files_in(folder).size() == 2);
    link.die();
  }
  Served server(options);
  Link link(server, alone());
  CHECK(values_in<float>(pull(link, 2, 4).second) == Floats{7, 7});
}

TEST_CASE("snapshots: a folder that is gone is an error in the log, and the server goes on") {
  const test::TemporaryDirectory folder;
  ServerOptions options = options_of(folder);
  options.snapshots = folder.file("in");
  Served server(options);
  Link link(server, alone());
  init(link);
  std::filesystem::rename(folder.file("in"), folder.file("away"));
  server.snapshots->finish();
  CHECK(server.field("snapshot_failed", "why").find("No such file or directory") != std::string::npos);
  CHECK(server.snapshots->stats(Clock::now()).failed == 1);
  CHECK(push(link, 1).first.kind == Kind::done);
  std::filesystem::rename(folder.file("away"), folder.file("in"));
  server.snapshots->finish();
  CHECK(server.snapshots->stats(Clock::now()).written == 1);
}
