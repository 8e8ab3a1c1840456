// A server restored from a snapshot lacks answers that its workers have got since the snapshot.
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "core_host.h"
#include "dist_job.h"
#include "files.h"
#include "message_of.h"
#include "server/state/snapshots.h"
#include "wire/state_blob.h"

using namespace heddle;
using namespace heddle::kv_detail;
using heddle::test::message_of;

namespace {

using Floats = std::vector<float>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();
const std::string kLostSettings =
    "calls of set_optimizer or set_optimizer_state that it had acknowledged are lost; start the job anew "
    "from "
    "its last checkpoint";

struct Served : Host {
  explicit Served(const test::TemporaryDirectory& folder)
      : options{.snapshots = folder.path.string()},
        snapshots(options, 7, core, [](ServerEvent::Level, const char*, const Snapshots::Fields&) {}) {
    snapshots.restore(7);
  }
  const ServerOptions options;
  Snapshots snapshots;
};

// A worker's connection. With `former_requests` it has used as many request numbers as an earlier connection,
// so its further requests have new numbers.
struct Worker : Link {
  Worker(Host& host, std::uint32_t rank, std::uint32_t workers, const std::string& consistency,
         int former_requests = 0)
      : Link(host, hello_of(rank, workers, consistency)) {
    for (int i = 0; i < former_requests; ++i) ask({.kind = Kind::ping});
  }
  // Sends what a client sends when it reconnects and the last answer it has got is `had`.
  void resume(const Reply& had) {
    send({.kind = Kind::resume, .settings = had.clock, .collectives = had.bytes});
    settle();
  }
  std::string push(std::uint64_t clock) {
    return ask({.kind = Kind::push, .clock = clock, .lr = kNoRate}, bytes_of(Floats{1, 1})).first.text;
  }
  std::pair<Reply, Bytes> pull(std::uint64_t clock) { return ask({.kind = Kind::pull, .clock = clock}); }
  Reply barrier() { return ask({.kind = Kind::barrier}).first; }
  Reply set_optimizer(const std::string& rule) {
    return ask({.kind = Kind::set_optimizer, .text = rule}).first;
  }
};

void init(Link& link) {
  link.ask({.kind = Kind::init, .has_value = true, .text = "w"}, bytes_of(Floats{10, 10}));
}

// Both workers call a barrier. Returns the answer to `one`. If `other_hears` is false, `other` gets no
// answer.
Reply barrier_of(Worker& one, Worker& other, bool other_hears = true) {
  const std::uint64_t first = one.send({.kind = Kind::barrier}), second = other.send({.kind = Kind::barrier});
  one.step();
  other.step();
  one.settle();
  if (other_hears) other.settle();
  if (other_hears) other.take(second);
  return one.take(first).first;
}

}  // namespace

TEST_CASE("restored: a worker that has set an optimizer since the snapshot is told that it is lost") {
  for (const char* const consistency : {"sync", "async"}) {
    const test::TemporaryDirectory folder;
    Reply had;
    {
      Served server(folder);
      Worker worker(server, 0, 1, consistency);
      worker.set_optimizer("sgd lr=1");
      init(worker);
      CHECK(worker.push(1).empty());
      server.snapshots.finish();
      had = worker.set_optimizer("sgd lr=100");
    }
    Served server(folder);
    Worker worker(server, 0, 1, consistency, 9);
    worker.resume(had);
    CHECK(worker.push(2).ends_with(kLostSettings));
    CHECK(worker.pull(1).first.text.starts_with("the server was restored from a snapshot of "));
    const std::vector<BundleEntry> entries{{.bytes = 8, .clock = 2}};
    CHECK(worker.ask({.kind = Kind::push_many, .bytes = 8, .entries = entries}, bytes_of(Floats{1, 1}))
              .first.text.ends_with(kLostSettings));
    CHECK(worker.ask({.kind = Kind::pull_many, .bytes = 8, .entries = entries})
              .first.text.ends_with(kLostSettings));
    CHECK(worker.ask({.kind = Kind::get_state, .clock = 1}).first.text.ends_with(kLostSettings));
    worker.forget();  // reconnects; resume() then says that the worker's last answer is `had`
    worker.resume(had);
    CHECK(worker.push(2).ends_with(kLostSettings));
    // Setting a new optimizer replaces the setting that the server has lost.
    const Reply again = worker.set_optimizer("sgd lr=100");
    CHECK(again.clock > had.clock);
    worker.resume(again);
    CHECK(worker.push(2).empty());
    CHECK(values_in<float>(worker.pull(2).second) == Floats{-91, -91});
  }
}

TEST_CASE("restored: state that was set since the snapshot is lost, for all workers that know of it") {
  const test::TemporaryDirectory folder;
  Reply had;
  {
    Served server(folder);
    Worker one(server, 0, 2, "async"), other(server, 1, 2, "async");
    const std::uint64_t first = one.send({.kind = Kind::set_optimizer, .text = "sgd lr=1 momentum=0.5"});
    one.settle();
    other.set_optimizer("sgd lr=1 momentum=0.5");
    one.settle();
    one.take(first);
    init(one);
    one.push(1);
    server.snapshots.finish();
    const Engine engine({.scheduler = Scheduler::naive});
    const StateArrays state{{"velocity", full({2}, 100)}, {"updates", full({1}, 1, DType::i64)}};
    CHECK(one.ask({.kind = Kind::set_state}, encode_state(state)).first.text.empty());
    had = barrier_of(one, other);
  }
  Served server(folder);
  Worker one(server, 0, 2, "async", 9), other(server, 1, 2, "async", 9);
  one.resume(had);
  other.resume(had);
  CHECK(one.push(2).ends_with(kLostSettings));
  CHECK(other.push(1).ends_with(kLostSettings));
}

TEST_CASE("restored: what came before the snapshot, and barriers, are not lost") {
  const test::TemporaryDirectory folder;
  Reply had;
  {
    Served server(folder);
    Worker worker(server, 0, 1, "sync");
    worker.set_optimizer("sgd lr=1");
    init(worker);
    server.snapshots.finish();
    had = worker.barrier();
  }
  Served server(folder);
  Worker worker(server, 0, 1, "sync", 9);
  worker.resume(had);
  CHECK(worker.push(1).empty());
  CHECK(values_in<float>(worker.pull(1).second) == Floats{9, 9});
  CHECK(worker.barrier().bytes == had.bytes + 1);
}

// Before the restart worker 0 has passed a barrier, but worker 1 has not got the answer to it.
TEST_CASE("restored: a barrier that is asked for again does not take the place of the next one") {
  for (const bool first_there : {true, false}) {
    CAPTURE(first_there);
    const test::TemporaryDirectory folder;
    Reply had, before;
    {
      Served server(folder);
      Worker one(server, 0, 2, "sync"), other(server, 1, 2, "sync");
      init(one);
      before = other.ask({.kind = Kind::ping}).first;
      server.snapshots.finish();
      had = barrier_of(one, other, false);
      CHECK(had.bytes == before.bytes + 1);
    }
    Served server(folder);
    Worker one(server, 0, 2, "sync", 9), other(server, 1, 2, "sync", 9);
    if (first_there) one.resume(had);
    other.resume(before);
    const std::uint64_t again = other.send({.kind = Kind::barrier});
    other.settle();
    CHECK(other.has_reply(again) == first_there);
    if (!first_there) one.resume(had);
    other.settle();
    CHECK(other.take(again).first.kind == Kind::done);
    one.push(1);
    const std::uint64_t pulled = one.send({.kind = Kind::pull, .clock = 1});
    one.settle();
    CHECK_FALSE(one.has_reply(pulled));  // worker 1 has not pushed in this round yet
    other.push(1);
    one.settle();
    CHECK(one.take(pulled).first.kind == Kind::value);
    CHECK(barrier_of(one, other).bytes == had.bytes + 1);
  }
}

TEST_CASE("restored: a worker that waited in a barrier when the snapshot was taken waits there no longer") {
  const test::TemporaryDirectory folder;
  Reply had;
  {
    Served server(folder);
    Worker one(server, 0, 2, "sync"), other(server, 1, 2, "sync");
    init(one);
    const std::uint64_t waits = other.send({.kind = Kind::barrier});
    other.settle();
    server.snapshots.finish();
    had = one.barrier();
    other.settle();
    CHECK(other.take(waits).first.kind == Kind::done);
  }
  Served server(folder);
  Worker one(server, 0, 2, "sync", 9), other(server, 1, 2, "sync", 9);
  one.resume(had);
  other.resume(had);
  one.push(1);
  const std::uint64_t pulled = one.send({.kind = Kind::pull, .clock = 1});
  one.settle();
  CHECK_FALSE(one.has_reply(pulled));
  other.push(1);
  one.settle();
  CHECK(one.take(pulled).first.kind == Kind::value);
}

TEST_CASE("restored: the value of a key that came after the snapshot is an init that is lost") {
  const test::TemporaryDirectory folder;
  {
    Served server(folder);
    Worker one(server, 0, 2, "async"), other(server, 1, 2, "async");
    other.send({.kind = Kind::init, .bytes = 8, .text = "w"});
    other.settle();
    server.snapshots.finish();
    init(one);
    CHECK(one.pull(0).first.kind == Kind::value);
  }
  Served server(folder);
  Worker one(server, 0, 2, "async", 9);
  const std::string lost = "the init of a key that it had acknowledged is lost";
  CHECK(one.pull(0).first.text.find(lost) != std::string::npos);
  CHECK(one.push(1).find(lost) != std::string::npos);
  init(one);
  CHECK(one.pull(0).first.kind == Kind::value);
}

// Over real connections: the server is stopped after it has written a last snapshot, and restarted from an
// older one.
TEST_CASE("restored: a store says what its server has lost") {
  const test::TemporaryDirectory folder;
  ServerOptions options{.listen = "127.0.0.1:0", .snapshots = folder.file("in")};
  std::filesystem::create_directory(options.snapshots);
  test::Servers servers;
  const auto start = [&] {
    servers.clear();
    servers.push_back(std::make_unique<test::Running>(options));
    options.listen = servers[0]->server.address();
  };
  start();
  const auto store = test::make_store({.workers = 1}, servers);
  NDArray out({2}, DType::f32);
  store->init("w", full({2}, 10));
  store->set_optimizer("sgd", {{"lr", 1}});
  store->push("w", full({2}, 1));
  store->barrier();
  start();
  store->pull("w", out);
  CHECK(out.to_vector<float>() == Floats{9, 9});
  std::filesystem::copy(options.snapshots, folder.file("older"));
  store->set_optimizer("sgd", {{"lr", 100}});
  servers.clear();
  std::filesystem::remove_all(options.snapshots);
  std::filesystem::rename(folder.file("older"), options.snapshots);
  start();
  store->push("w", full({2}, 1));
  store->pull("w", out);
  CHECK(message_of<StoreError>([&] { out.wait(); }).find(kLostSettings) != std::string::npos);
  store->clear_errors();
  store->set_optimizer("sgd", {{"lr", 100}});
  store->push("w", full({2}, 1));
  store->pull("w", out);
  CHECK(out.to_vector<float>() == Floats{-91, -91});
}
