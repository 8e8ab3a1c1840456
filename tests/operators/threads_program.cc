// Products and convolutions on an engine with few workers: no thread but the engine's own computes anything, though the
// libraries behind them have threads of their own. Exits with 0 if that holds.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>

#include <heddle/engine.h>
#include <heddle/ops.h>

namespace {

constexpr int kWorkers = 2;

// Nanoseconds that each thread of this process has run for, by its id.
std::map<std::string, std::uint64_t> running_times() {
  std::map<std::string, std::uint64_t> times;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "schedstat");
    if (std::uint64_t ran = 0; file >> ran) times[task.path().filename()] = ran;
  }
  return times;
}

}  // namespace

int main() {
  const auto before = running_times();
  heddle::Engine engine({.workers = kWorkers});
  const heddle::EngineScope scope(engine);
  const auto started = running_times();
  for (int round = 0; round < 8; ++round) {
    const heddle::NDArray a = heddle::ones({384, 384});
    const heddle::NDArray image = heddle::ones({8, 16, 32, 32}), weight = heddle::ones({32, 16, 3, 3});
    const heddle::NDArray product = heddle::matmul(a, a), features = heddle::conv2d(image, weight);
    product.wait();
    features.wait();
  }
  engine.wait_all();
  int wrong = started.size() == before.size() + kWorkers ? 0 : 1;
  for (const auto& [thread, ran] : running_times()) {
    const bool own =
        (started.contains(thread) && !before.contains(thread)) || thread == std::to_string(getpid());
    const auto known = before.find(thread);
    if (own || (known != before.end() && known->second == ran)) continue;
    std::fprintf(stderr, "operators_threads: thread %s is not the engine's and has run\n", thread.c_str());
    ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}
