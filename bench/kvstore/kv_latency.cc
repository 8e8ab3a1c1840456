// The latency of one small push and pull at a time, with several workers in parallel:
//   heddle launch -n 8 --servers 1 -- kv_latency
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <heddle/heddle.h>

#include "command_line.h"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::int64_t times = 5000, elements = 256;
  std::string store = "dist_async";
};

double percentile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void run(const Arguments& arguments) {
  const auto store = KVStore::create(arguments.store);
  const NDArray value = ones({arguments.elements}), out({arguments.elements}, DType::f32);
  const Key key = static_cast<Key>(store->rank());
  for (int rank = 0; rank < store->workers(); ++rank) store->init(static_cast<Key>(rank), value);
  store->barrier();
  default_engine().wait_all();
  std::vector<double> all;
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < arguments.times; ++i) {
    const auto before = Clock::now();
    store->push_pull(key, {&value, 1}, {&out, 1});
    out.wait();
    all.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  store->barrier();
  default_engine().wait_all();
  std::sort(all.begin(), all.end());
  std::printf("worker %d: %6.0f a second, p50 %7.1f us, p99 %7.1f us, p99.9 %7.1f us, max %7.1f us\n",
              store->rank(), static_cast<double>(arguments.times) / seconds, percentile(all, 0.5),
              percentile(all, 0.99), percentile(all, 0.999), all.back());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  command_line::Program app("kv_latency", "How long workers wait for one push and pull at a time");
  app.add_option("--times", arguments.times, "pushes and pulls")
      .range(std::int64_t{100}, std::int64_t{1} << 24)
      .show_default();
  app.add_option("--elements", arguments.elements, "f32, of each worker's value")
      .range(std::int64_t{1}, std::int64_t{1} << 24)
      .show_default();
  app.add_option("--store", arguments.store, "what KVStore::create knows").show_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_latency: %s\n", error.what());
    return 1;
  }
  return 0;
}
