// How many steps per second each worker of a store does, if one worker is always slow or if the slow worker
// changes, and how much of the communication overlaps with computation. The computation is a sleep, like one
// on a device, which needs no core. Each worker is a process:
//
//     heddle launch -n 2 --servers 2 -- kv_pace --store dist_async --slow one
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <heddle/heddle.h>

#include "command_line.h"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Arguments {
  std::string store = "dist_sync", slow = "none";
  int layers = 8, spell = 2;
  std::int64_t bytes = 1 << 20;  // bytes of a layer
  double work = 0.02, factor = 3, seconds = 10;
};

constexpr const char* kExplanation = R"(
A step computes the gradients of all layers, the last one first, and pushes and pulls each layer as soon as it has its gradient;
the next step computes with what was pulled. Each worker prints a line: its steps in a second, how long a step took, and which
part of the communication was hidden, 1 - (step - work) / communication, where the communication is that of steps without work.

  heddle launch -n 2 --servers 2 -- kv_pace --store dist_sync
  heddle launch -n 2 --servers 2 -- kv_pace --store dist_async --slow one
  heddle launch -n 2 --servers 2 -- kv_pace --store dist_ssp:3 --slow moving --spell 2
)";

class Worker {
 public:
  explicit Worker(const Arguments& arguments)
      : arguments_(arguments), store_(KVStore::create(arguments.store)), device_(engine().new_var()) {
    const std::int64_t elements = arguments.bytes / static_cast<std::int64_t>(sizeof(float));
    for (int layer = 0; layer < arguments.layers; ++layer) {
      weights_.push_back(zeros({elements}));
      gradients_.push_back(zeros({elements}));
      store_->init(layer, weights_.back());
    }
    store_->set_optimizer("sgd", {{"lr", 0.01}});
  }

  void run() {
    for (int step = 0; step < 5; ++step) do_step(Seconds(0));
    const double alone = pace(1, [](int) { return Seconds(0); }).second;
    const auto [steps, seconds] =
        pace(arguments_.seconds, [this](int step) { return Seconds(arguments_.work * factor(step)); });
    const double work = worked_ / steps;
    std::printf(
        "rank %d of %d, %s: %.1f steps/s, %.2f ms a step; work %.2f ms, communication alone %.2f ms; "
        "hidden %.2f\n",
        store_->rank(), store_->workers(), arguments_.store.c_str(), 1 / seconds, seconds * 1e3, work * 1e3,
        alone * 1e3, 1 - (seconds - work) / alone);
  }

 private:
  static Engine& engine() { return default_engine(); }

  double factor(int step) const {
    const bool mine = arguments_.slow == "one"
                          ? store_->rank() == 0
                          : step / arguments_.spell % store_->workers() == store_->rank();
    return arguments_.slow != "none" && mine ? arguments_.factor : 1;
  }

  // Pushes one training step and waits for its computation, not for its communication. The next step's
  // computation reads the weights, so it waits for the pulls of this step.
  void do_step(Seconds work) {
    const auto part = work / arguments_.layers;
    for (int layer = arguments_.layers; layer-- > 0;) {
      const auto index = static_cast<std::size_t>(layer);
      engine().push(
          [this, part] {
            if (part.count() == 0) return;
            const auto begin = Clock::now();
            std::this_thread::sleep_for(part);
            worked_ += Seconds(Clock::now() - begin).count();
          },
          {.read = {weights_[index].var()}, .mutate = {gradients_[index].var(), device_}, .name = "compute"});
      store_->push_pull(layer, {&gradients_[index], 1}, {&weights_[index], 1});
    }
    engine().wait(device_);
  }

  // Does steps for the given number of seconds. Returns the number of steps and the seconds of a step.
  template <class Work> std::pair<int, double> pace(double seconds, const Work& work) {
    store_->barrier();
    engine().wait_all();
    worked_ = 0;
    int steps = 0;
    const auto begin = Clock::now();
    while (Seconds(Clock::now() - begin).count() < seconds) do_step(work(steps++));
    engine().wait_all();
    return {steps, Seconds(Clock::now() - begin).count() / steps};
  }

  const Arguments& arguments_;
  std::unique_ptr<KVStore> store_;
  Var device_;
  std::vector<NDArray> weights_, gradients_;
  double worked_ = 0;  // seconds spent in the compute ops; only these ops, which mutate device_, change it
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  command_line::Program app("kv_pace", "How fast the workers of a key-value store go on beside each other");
  app.footer(kExplanation);
  app.add_option("--store", arguments.store, "what KVStore::create knows").show_default();
  app.add_option("--slow", arguments.slow, "who works longer: nobody, rank 0, or one worker after the other")
      .one_of({"none", "one", "moving"})
      .show_default();
  app.add_option("--factor", arguments.factor, "how much longer").range(1.0, 1000.0).show_default();
  app.add_option("--spell", arguments.spell, "steps after which slowness moves").positive().show_default();
  app.add_option("--layers", arguments.layers, "keys").range(1, 10'000).show_default();
  app.add_option("--bytes", arguments.bytes, "of a layer")
      .range(std::int64_t{4}, std::int64_t{1} << 32)
      .show_default();
  app.add_option("--work", arguments.work, "seconds that a step computes").range(0.0, 60.0).show_default();
  app.add_option("--seconds", arguments.seconds, "of measuring").range(0.1, 3600.0).show_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    Worker(arguments).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_pace: %s\n", error.what());
    return 1;
  }
  return 0;
}
