// Products and convolutions on an engine with few workers run on the engine's threads only, although the
// libraries behind them have threads of their own. Exits with 0 if that holds.
//
// OpenBLAS starts threads when it is loaded, which spin for a while. So rounds are repeated until only the
// engine's threads ran in eight consecutive rounds; a library that used its threads would do so in each.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>

#include <heddle/engine.h>
#include <heddle/ops.h>

namespace {

constexpr int kWorkers = 2;
constexpr int kQuietRounds = 8;
constexpr std::chrono::seconds kLongest{60};  // on a busy machine OpenBLAS's threads spin for long

// Nanoseconds that each thread of this process has run, by thread id.
std::map<std::string, std::uint64_t> running_times() {
  std::map<std::string, std::uint64_t> times;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "schedstat");
    if (std::uint64_t ran = 0; file >> ran) times[task.path().filename()] = ran;
  }
  return times;
}

using Times = std::map<std::string, std::uint64_t>;

// The number of threads that are not in `own` and ran between the readings `before` and `after`.
int strangers(const Times& before, const Times& after, const std::set<std::string>& own) {
  int count = 0;
  for (const auto& [thread, ran] : after) {
    const auto known = before.find(thread);
    count += !own.contains(thread) && (known == before.end() || known->second != ran);
  }
  return count;
}

void compute() {
  const heddle::NDArray a = heddle::ones({384, 384});
  const heddle::NDArray image = heddle::ones({8, 16, 32, 32}), weight = heddle::ones({32, 16, 3, 3});
  const heddle::NDArray product = heddle::matmul(a, a), features = heddle::conv2d(image, weight);
  product.wait();
  features.wait();
}

}  // namespace

int main() {
  // The engine starts further threads while others do not get a core.
  std::mutex mutex;
  std::set<std::string> own{std::to_string(getpid())};
  const auto add = [&] {
    const std::lock_guard guard(mutex);
    own.insert(std::to_string(gettid()));
  };
  const auto engines = [&] {
    const std::lock_guard guard(mutex);
    return own;
  };
  heddle::Engine engine({.workers = kWorkers, .on_thread_start = add});
  const heddle::EngineScope scope(engine);
  int quiet = 0, ran = 0;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (quiet < kQuietRounds && std::chrono::steady_clock::now() < end) {
    const Times start = running_times();
    compute();
    ran = strangers(start, running_times(), engines());
    quiet = ran == 0 ? quiet + 1 : 0;
  }
  const bool good = engines().size() > kWorkers && quiet == kQuietRounds;
  if (!good)
    std::fprintf(stderr, "operators_threads: %zu own threads, %d others ran\n", engines().size(), ran);
  return good ? 0 : 1;
}
