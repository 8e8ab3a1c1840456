// Programs that push a little and wait for it, on a quiet machine or beside busy processes: Heddle beside
// oneTBB and OpenMP.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <heddle/engine.h>

#include "command_line.h"
#include "engine/wait_peer.h"
#include "support/support.h"

namespace {

using namespace heddle::bench;

struct Arguments {
  Options options;
  std::vector<int> busy{0};
  std::vector<std::string> subjects;  // names of the subjects to measure; empty: all subjects
};

// Child processes that spin, each using as much of a core as it gets, until this object is destroyed.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child < 0) throw std::runtime_error("cannot start a busy process");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (std::atomic<unsigned long> spins{0};; spins.fetch_add(1, std::memory_order_relaxed)) {
        }
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> children_;
};

struct NamedPeer {
  std::string name;
  std::shared_ptr<WaitPeer> peer;
};

std::vector<NamedPeer> peers(const Arguments& arguments, int workers) {
  std::vector<NamedPeer> all;
  const auto add = [&](const std::string& name, auto make) {
    const auto& wanted = arguments.subjects;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) return;
    if (std::shared_ptr<WaitPeer> peer = make()) all.push_back({name, std::move(peer)});
  };
  add("heddle", [&] { return heddle_waits(workers); });
  add("tbb", [&] { return tbb_waits(workers); });
  add("tbb_flow_graph", [&] { return tbb_flow_graph_waits(workers); });
  add("gcc_omp", [&] { return std::unique_ptr<WaitPeer>(heddle_bench_openmp_waits(workers)); });
  add("clang_omp", [&] { return clang_openmp_waits(workers); });
  return all;
}

void run_rate(const Arguments& arguments, const std::vector<NamedPeer>& all, int workers,
              const std::string& name, double count, const std::function<double(WaitPeer&)>& seconds) {
  if (name.find(arguments.options.filter) == std::string::npos) return;
  Case the_case{"wait", name, "1/s", workers, {}};
  for (const NamedPeer& subject : all) {
    if (subject.name == "tbb_flow_graph" && !name.starts_with("step_wait")) continue;
    the_case.subjects.push_back({subject.name, [=] { return count / seconds(*subject.peer); }});
  }
  const std::vector<Result> results = measure(the_case, arguments.options);
  print_table(results);
  append_json(results, arguments.options);
}

// Measures wake-up latencies in nanoseconds: from `wake`, which pushes an op or notifies a condition
// variable, until the other thread runs. Makes one try each millisecond.
class Latencies {
 public:
  explicit Latencies(int tries) : tries_(tries) {}

  template <class Wake> std::vector<double> measure(Wake wake) {
    std::vector<double> times;
    for (int i = 0; i < tries_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::atomic<double> started{0};
      const double start = now();
      wake(started);
      started.wait(0);
      times.push_back((started - start) * 1e9);
    }
    std::sort(times.begin(), times.end());
    return times;
  }

 private:
  int tries_;
};

void set(std::atomic<double>& started) {
  started = now();
  started.notify_one();
}

std::vector<double> push_latencies(int tries, int workers) {
  heddle::Engine engine({.workers = workers});
  const heddle::Var var = engine.new_var();
  return Latencies(tries).measure(
      [&](std::atomic<double>& started) { engine.push([&] { set(started); }, {.mutate = {var}}); });
}

std::vector<double> condition_latencies(int tries) {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<double>* wanted = nullptr;
  bool stop = false;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return wanted || stop; });
      if (stop) return;
      set(*std::exchange(wanted, nullptr));
    }
  });
  std::vector<double> times = Latencies(tries).measure([&](std::atomic<double>& started) {
    {
      std::lock_guard guard(mutex);
      wanted = &started;
    }
    changed.notify_one();
  });
  {
    std::lock_guard guard(mutex);
    stop = true;
  }
  changed.notify_one();
  waiter.join();
  return times;
}

void run_latency(const Arguments& arguments, int workers, const std::string& busy) {
  if (("latency" + busy).find(arguments.options.filter) == std::string::npos) return;
  const int tries = arguments.options.quick ? 200 : 1000;
  for (double quantile : {0.5, 0.99}) {
    const auto at = [&](const std::vector<double>& times) {
      return times[static_cast<std::size_t>(quantile * static_cast<double>(times.size() - 1))];
    };
    const std::string name = std::string(quantile == 0.5 ? "latency_p50" : "latency_p99") + busy;
    Case the_case{"wait",
                  name,
                  "ns",
                  workers,
                  {{"heddle", [=] { return at(push_latencies(tries, workers)); }},
                   {"condition_variable", [=] { return at(condition_latencies(tries)); }}}};
    const std::vector<Result> measured = measure(the_case, arguments.options);
    print_table(measured);
    append_json(measured, arguments.options);
  }
}

void run(const Arguments& arguments, int workers) {
  const std::vector<NamedPeer> all = peers(arguments, workers);
  const bool quick = arguments.options.quick;
  for (int count : arguments.busy) {
    const std::string busy = count == 0 ? "" : "_busy" + std::to_string(count);
    std::printf("\n%d workers beside %d busy processes\n", workers, count);
    std::fflush(stdout);  // flushed before the fork, which would copy buffered output
    const BusyProcesses processes(count);
    const int steps = quick ? 1000 : 10'000, waits = quick ? 5000 : 50'000, n = quick ? 16 : 20;
    run_rate(arguments, all, workers, "step_wait" + busy, steps,
             [=](WaitPeer& peer) { return peer.step_wait(steps); });
    run_rate(arguments, all, workers, "nested_wait" + busy, waits,
             [=](WaitPeer& peer) { return peer.nested_wait(waits); });
    run_rate(arguments, all, workers, "fib" + busy, static_cast<double>(fib_calls(n)),
             [=](WaitPeer& peer) { return peer.fib(n); });
    run_latency(arguments, workers, busy);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  heddle::command_line::Program app("wait_bench",
                                    "Programs that push a little and wait for it: Heddle beside oneTBB and "
                                    "OpenMP. Rates are a second: more is better");
  add_options(app, arguments.options);
  app.add_option("--busy", arguments.busy,
                 "processes beside it that use all the time they get; one set of cases for each number")
      .delimiter(',');
  app.add_option("--subjects", arguments.subjects, "only these, separated by commas").delimiter(',');
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    for (int workers : arguments.options.workers) run(arguments, workers);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wait_bench: %s\n", error.what());
    return 1;
  }
}
