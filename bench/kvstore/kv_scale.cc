// Many keys, or one large value: a scheduler, servers with replicas and a worker as threads of this process.
// Prints the time of each step, the longest time in which a server answered nobody, and whether a server was
// declared lost.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <heddle/heddle.h>
#include <heddle/server.h>
#include <heddle/store_scheduler.h>

#include "command_line.h"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::int64_t keys = 100'000, elements = 1;
  int servers = 2, replicas = 2, steps = 2;
  bool log = false;
  std::string store = "dist_async", optimizer = "adam", snapshots;
};

constexpr const char* kExplanation = R"(
  kv_scale --keys 1000000 --snapshots /tmp/snapshots
  kv_scale --keys 1 --elements 590000000 --servers 1 --replicas 1     # a value of 2.2 GiB, and adam's state
)";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Prints the log events of servers and the scheduler: connections, shards and snapshots.
std::function<void(const ServerEvent&)> log_of(const char* who, bool wanted) {
  if (!wanted) return {};
  return [who](const ServerEvent& event) {
    std::string text = std::string(who) + ": " + event.name;
    for (const auto& [name, value] : event.fields) text += " " + name + "=" + value;
    std::fprintf(stderr, "%s\n", text.c_str());
  };
}

template <class Program> class Running {
 public:
  template <class Options>
  explicit Running(Options options) : program(std::move(options)), thread_([this] { program.run(); }) {}
  ~Running() {
    program.stop();
    thread_.join();
  }
  Program program;

 private:
  std::thread thread_;
};

constexpr std::size_t kInFlight = 20'000;  // number of keys pushed or pulled between two waits

using RunningServer = Running<Server>;

// Calls a server periodically, as a health probe does, and keeps the longest time until an answer.
class Probe {
 public:
  explicit Probe(const Server& server) : thread_([this, &server] { run(server); }) {}
  ~Probe() {
    stop_ = true;
    thread_.join();
  }
  // The longest time in seconds that the server took to answer since the last call of this function.
  double take_longest() { return longest_.exchange(0); }

 private:
  void run(const Server& server) {
    while (!stop_) {
      const auto begin = Clock::now();
      server.is_draining();
      longest_ = std::max(longest_.load(), seconds_since(begin));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::atomic<bool> stop_{false};
  std::atomic<double> longest_{0};
  std::thread thread_;
};

class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments), scheduler_(scheduler_options()) {
    ::setenv("HEDDLE_STORE_SCHEDULER", scheduler_.program.address().c_str(), 1);
    for (int i = 0; i < arguments.servers; ++i) start_server();
  }

  void run() {
    auto store = KVStore::create(arguments_.store);
    std::vector<Key> keys(static_cast<std::size_t>(arguments_.keys));
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<Key>(i);
    const NDArray value = zeros({arguments_.elements});
    std::vector<NDArray> values(keys.size(), value),
        out(keys.size(), NDArray({arguments_.elements}, DType::f32));
    timed("init", [&] {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        store->init(keys[i], value);
        if (i % kInFlight == kInFlight - 1) default_engine().wait_all();
      }
    });
    const auto in_parts = [&](const auto& work) {
      for (std::size_t begin = 0; begin < keys.size(); begin += kInFlight) {
        work(begin, std::min(kInFlight, keys.size() - begin));
        default_engine().wait_all();
      }
    };
    const auto push = [&] {
      in_parts([&](std::size_t begin, std::size_t count) {
        store->push(std::span(keys).subspan(begin, count), std::span(values).subspan(begin, count));
      });
    };
    if (arguments_.optimizer != "none") store->set_optimizer(arguments_.optimizer);
    for (int step = 0; step < arguments_.steps; ++step) {
      timed("push", push);
      timed("pull", [&] {
        in_parts([&](std::size_t begin, std::size_t count) {
          store->pull(std::span(keys).subspan(begin, count), std::span(out).subspan(begin, count));
        });
      });
    }
    timed("barrier", [&] { store->barrier(); });
    if (arguments_.replicas > 1) {
      timed("copies", [&] { wait_for_copies(); });
      if (arguments_.servers > 1) lose_a_server(push);
    }
    timed("statistics", [&] { servers_.back()->program.stats(); });
    if (!arguments_.snapshots.empty()) timed("snapshot", [&] { wait_for_snapshot(); });
    const StoreSchedulerStats stats = scheduler_.program.stats();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    std::printf("%llu failovers, %llu lost, %.1f GiB at most\n",
                static_cast<unsigned long long>(stats.failovers), static_cast<unsigned long long>(stats.lost),
                static_cast<double>(usage.ru_maxrss) / (1 << 20));
  }

 private:
  StoreSchedulerOptions scheduler_options() const {
    StoreSchedulerOptions options{.servers = arguments_.servers, .workers = 1};
    options.log = log_of("scheduler", arguments_.log);
    return options;
  }

  void start_server() {
    ServerOptions options{.number = -1,
                          .servers = 0,
                          .scheduler = scheduler_.program.address(),
                          .replicas = arguments_.replicas,
                          .snapshots = arguments_.snapshots};
    options.log = log_of("server", arguments_.log);
    options.snapshot_interval = std::chrono::seconds(20);
    servers_.push_back(std::make_unique<RunningServer>(std::move(options)));
    probes_.push_back(std::make_unique<Probe>(servers_.back()->program));
  }

  void timed(const char* what, const std::function<void()>& work) {
    for (const auto& one : probes_) one->take_longest();
    const auto begin = Clock::now();
    work();
    default_engine().wait_all();
    const double seconds = seconds_since(begin);
    double longest = 0;
    for (const auto& one : probes_) longest = std::max(longest, one->take_longest());
    std::printf("%-12s %8.3f s; silent for %.3f s at most\n", what, seconds, longest);
    std::fflush(stdout);
  }

  void wait_for_copies() {
    const auto is_synced = [](const ShardAssignment& one) { return one.synced; };
    for (;;) {
      const StoreSchedulerStats stats = scheduler_.program.stats();
      if (std::all_of(stats.shards.begin(), stats.shards.end(), is_synced)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Stops one of two servers: the remaining server takes over its shards. Then starts a new server, to which
  // all shards are copied.
  void lose_a_server(const std::function<void()>& push) {
    probes_.erase(probes_.begin());
    timed("drain", [&] { servers_.erase(servers_.begin()); });
    timed("start", [&] { start_server(); });
    timed("push", push);
    timed("first copy", [&] { wait_for_copies(); });
  }

  void wait_for_snapshot() {
    const std::uint64_t before = servers_.back()->program.stats().snapshots.written;
    while (servers_.back()->program.stats().snapshots.written < before + 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  const Arguments& arguments_;
  Running<StoreScheduler> scheduler_;
  std::vector<std::unique_ptr<RunningServer>> servers_;
  std::vector<std::unique_ptr<Probe>> probes_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  command_line::Program app("kv_scale", "What a key-value store costs with many keys, or with large values");
  app.footer(kExplanation);
  app.add_option("--keys", arguments.keys, "how many")
      .range(std::int64_t{1}, std::int64_t{1} << 24)
      .show_default();
  app.add_option("--elements", arguments.elements, "f32, of each")
      .range(std::int64_t{1}, std::int64_t{1} << 34)
      .show_default();
  app.add_option("--servers", arguments.servers, "of the store").range(1, 16).show_default();
  app.add_option("--replicas", arguments.replicas, "copies of each part").range(1, 2).show_default();
  app.add_option("--steps", arguments.steps, "pushes and pulls of all keys").range(1, 1000).show_default();
  app.add_option("--store", arguments.store, "what KVStore::create knows").show_default();
  app.add_option("--optimizer", arguments.optimizer, "of the servers; none: pushes replace values")
      .show_default();
  app.add_option("--snapshots", arguments.snapshots, "folder for snapshots; empty: none");
  app.add_flag("--log", arguments.log, "print what servers and the scheduler log");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    Run(arguments).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_scale: %s\n", error.what());
    return 1;
  }
  return 0;
}
