// A key of comm.allowed may be limited to jobs of some names.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/store_error.h>
#include <heddle/store_scheduler.h>

#include "core_host.h"
#include "dist_job.h"
#include "key_directory.h"
#include "membership/scheduler_core.h"
#include "message_of.h"
#include "server/server_node.h"
#include "wire/membership.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const KeyRoles kTeam{.worker = true, .jobs = {"team-a-*", "eval"}};

// A transport that only records the heads of the messages sent. The peers' keys have the roles of kTeam.
class Sent final : public Transport {
 public:
  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string&) override { return 99; }
  void send(Peer, Message message) override { all.push_back(std::move(message.head)); }
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  KeyRoles roles_of(const std::string&) const override { return kTeam; }
  std::vector<Bytes> all;
};

Hello hello_to(const std::string& job) {
  Hello hello = hello_of(0, 1, "async");
  hello.job = job;
  return hello;
}

// A running server that asks for keys, and the events it has logged.
struct Guarded {
  Guarded(const char* transport, const KeyDirectory& keys)
      : running({.transport = transport,
                 .keys = keys.directory.path,
                 .encrypt_loopback = true,
                 .log = [this](const ServerEvent& event) {
                   const std::lock_guard guard(mutex);
                   log.push_back(event);
                 }}) {}
  // The number of logged events of that name; if `job` is given, only of events of that job. The server logs
  // events after it has sent the answers they tell of, but before it answers stats().
  long count(const std::string& event, const std::string& job = "") {
    running.server.stats();
    const std::lock_guard guard(mutex);
    const std::pair<std::string, std::string> field{"job", job};
    return std::count_if(log.begin(), log.end(), [&](const ServerEvent& one) {
      return one.name == event &&
             (job.empty() || std::count(one.fields.begin(), one.fields.end(), field) > 0);
    });
  }
  std::mutex mutex;  // guards log
  std::vector<ServerEvent> log;
  Running running;
};

ClientOptions client_options(const char* transport, const KeyDirectory& keys, const std::string& job) {
  ClientOptions options;
  options.job = job;
  options.transport = {.kind = transport, .keys = keys.directory.path, .encrypt_loopback = true};
  return options;
}

std::string call_barrier(Client& worker) {
  return message_of<StoreError>([&] { worker.call(0, {.request = {.kind = Kind::barrier}}); });
}

class RunningScheduler {
 public:
  explicit RunningScheduler(StoreSchedulerOptions options)
      : program(std::move(options)), thread_([this] { program.run(); }) {}
  ~RunningScheduler() {
    program.stop();
    thread_.join();
  }
  StoreScheduler program;

 private:
  std::thread thread_;
};

}  // namespace

TEST_CASE("jobs of a key: a server refuses other jobs for good, and names no job but the one asked for") {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  const Clock::time_point now{};
  Sent sent;
  ServerNode node({}, 42, sent, now);
  auto answer_to = [&, peer = Peer{0}](const std::string& job) mutable {
    node.connected(++peer, "sha256:a", now);
    node.received(peer, encode(hello_to(job)), {}, now);
    return decode_from_server(sent.all.back(), 0);
  };
  CHECK(std::holds_alternative<Welcome>(answer_to("team-a-7")));
  CHECK(std::holds_alternative<Welcome>(answer_to("eval")));
  CHECK(node.stats(now).unauthorized == 0);
  node.take_events();
  for (const char* const job : {"team-b-7", "evaluation", "", "team-a"}) {
    const auto reply = std::get<Reply>(answer_to(job));
    CHECK(reply.kind == Kind::failed);
    CHECK(reply.clock == 0);  // 0: the refusal is permanent
    CHECK(reply.text ==
          "its key may not join job '" + std::string(job) + "': see jobs: in the server's comm.allowed");
    const auto events = node.take_events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].name == "worker_refused");
    for (const auto& [name, value] : events[0].fields) {
      CHECK_FALSE(holds(value, "team-a-"));
      if (name == "job") CHECK(value == job);
    }
  }
  CHECK(node.stats(now).unauthorized == 4);
  CHECK(node.stats(now).jobs == 2);
}

TEST_CASE("jobs of a key: the scheduler registers no worker of another job") {
  const Clock::time_point now{};
  SchedulerCore core({.servers = 1}, {.cluster = 1, .secret = 7}, now);
  auto answer_to = [&, peer = Peer{0}](const std::string& job) mutable {
    core.connected(++peer, kTeam);
    core.received(
        peer, encode(Registration{.role = Role::worker, .workers = 1, .incarnation = peer, .job = job}), now);
    return decode_from_scheduler(core.take_outbox().messages.at(0).second);
  };
  CHECK(std::holds_alternative<Registered>(answer_to("team-a-1")));
  CHECK(std::holds_alternative<Registered>(answer_to("eval")));
  const auto refused = std::get<Refused>(answer_to("secret"));
  CHECK(refused.retry == 0);  // 0: the refusal is permanent
  CHECK(refused.text ==
        "the key of this process may not join job 'secret': see jobs: in the scheduler's comm.allowed");
  CHECK(core.stats().unauthorized == 1);
  CHECK(core.stats().refused == 1);
}

TEST_CASE("jobs of a key: a worker that waits for servers hears nothing of other jobs") {
  Clock::time_point now{std::chrono::hours(1)};
  SchedulerCore core({.servers = 2}, {.cluster = 1, .secret = 7, .servers = 2}, now);
  const auto register_one = [&](Peer peer, Role role, const std::string& job) {
    core.connected(peer);
    core.received(
        peer,
        encode(Registration{.role = role, .workers = 2, .incarnation = peer, .job = job, .address = "h:1"}),
        now);
  };
  register_one(1, Role::worker, "ours");
  register_one(2, Role::worker, "theirs");
  register_one(3, Role::server, "");
  core.take_outbox();
  for (const Peer peer : {1, 2, 3}) core.received(peer, encode(Heartbeat{}), now);
  const auto messages = core.take_outbox().messages;
  const auto told = [&](Peer peer) {
    for (const auto& [to, message] : messages) {
      if (to == peer) return std::get<Status>(decode_from_scheduler(message)).text;
    }
    return std::string();
  };
  CHECK(holds(told(1), "server 1 of 2, worker 1 of 2 of job 'ours'"));
  CHECK_FALSE(holds(told(1), "theirs"));
  CHECK(holds(told(2), "server 1 of 2, worker 1 of 2 of job 'theirs'"));
  CHECK_FALSE(holds(told(2), "ours"));
  CHECK(holds(told(3), "job 'ours'"));
  CHECK(holds(told(3), "job 'theirs'"));
}

TEST_CASE("jobs of a key: over every transport a worker gets an error if its key may not join the job") {
  for (const char* const kind : kTransports) {
    CAPTURE(std::string(kind));
    const KeyDirectory server, client;
    server.allow(client, "roles:worker jobs:team-a-*,eval");
    client.allow(server, "roles:server");
    Guarded guarded(kind, server);
    for (const auto& [job, allowed] : {std::pair("team-a-1", true), std::pair("team-b-1", false)}) {
      CAPTURE(std::string(job));
      ClientOptions options = client_options(kind, client, job);
      options.servers = {guarded.running.server.address()};
      Client worker(options);
      const std::string error = call_barrier(worker);
      CHECK(holds(error, allowed ? "no error" : "its key may not join job 'team-b-1'"));
    }
    CHECK(guarded.count("worker_refused") == 1);  // the worker has not tried to join again after the refusal
    CHECK(guarded.running.server.stats().unauthorized == 1);
  }
}

TEST_CASE("jobs of a key: a changed list puts out who may no longer join, and the others connect anew") {
  for (const char* const kind : kTransports) {
    CAPTURE(std::string(kind));
    const KeyDirectory server, client;
    server.allow(client, "roles:worker jobs:team-*");
    client.allow(server, "roles:server");
    Guarded guarded(kind, server);
    ClientOptions options = client_options(kind, client, "team-a");
    options.servers = {guarded.running.server.address()};
    Client worker(options);
    REQUIRE(call_barrier(worker) == "no error");
    // Fewer jobs than before; the worker's job, team-a, is still one of them.
    server.allow(client, "roles:worker jobs:team-a,team-c");
    while (guarded.count("worker_joined") < 2) REQUIRE(call_barrier(worker) == "no error");
    CHECK(guarded.count("worker_refused") == 0);
    server.allow(client, "roles:worker jobs:team-c");
    std::string error = "no error";
    while (error == "no error") error = call_barrier(worker);
    CHECK(holds(error, "its key may not join job 'team-a'"));
    CHECK(guarded.count("worker_refused") == 1);
  }
}

TEST_CASE("jobs of a key: more jobs are no reason to close a connection") {
  for (const char* const kind : kTransports) {
    CAPTURE(std::string(kind));
    const KeyDirectory server, client;
    server.allow(client, "roles:worker jobs:team-a");
    client.allow(server, "roles:server");
    Guarded guarded(kind, server);
    ClientOptions options = client_options(kind, client, "team-a");
    options.servers = {guarded.running.server.address()};
    Client worker(options);
    REQUIRE(call_barrier(worker) == "no error");
    ClientOptions other_options = client_options(kind, client, "team-b");
    other_options.servers = options.servers;
    REQUIRE(holds(message_of<StoreError>([&] {
                    Client other(other_options);
                    other.call(0, {.request = {.kind = Kind::barrier}});
                  }),
                  "may not join"));
    server.allow(client, "roles:worker jobs:team-*");
    std::string error = "may not join";
    while (holds(error, "may not join")) {
      Client other(other_options);
      error = call_barrier(other);
    }
    CHECK(error == "no error");
    CHECK(call_barrier(worker) == "no error");
    CHECK(guarded.count("worker_joined", "team-a") == 1);
  }
}

TEST_CASE("jobs of a key: a worker that the scheduler does not let in gives up with that error") {
  for (const char* const kind : kTransports) {
    CAPTURE(std::string(kind));
    const KeyDirectory server, client;
    server.allow(client, "roles:worker jobs:team-a-*");
    client.allow(server, "roles:server");
    RunningScheduler scheduler({.transport = kind, .keys = server.directory.path, .encrypt_loopback = true});
    const Running running({.transport = kind,
                           .keys = server.directory.path,
                           .number = -1,
                           .servers = 0,
                           .scheduler = scheduler.program.address(),
                           .encrypt_loopback = true});
    const auto error_of = [&](const std::string& job) {
      ClientOptions options = client_options(kind, client, job);
      options.scheduler = scheduler.program.address();
      return message_of<StoreError>([&] {
        Client worker(options);
        worker.call(0, {.request = {.kind = Kind::barrier}});
      });
    };
    CHECK(error_of("team-a-1") == "no error");
    CHECK(holds(error_of("team-b-1"),
                "may not join job 'team-b-1': see jobs: in the scheduler's comm.allowed"));
    CHECK(scheduler.program.stats().unauthorized == 1);
  }
}
