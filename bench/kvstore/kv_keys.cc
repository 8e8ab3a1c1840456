// Many small keys, pushed and pulled by all workers of a job:
//   heddle launch -n 3 --servers 3 -- kv_keys --keys 100000 --calls single
// Rank 0 prints two times of a step: until all calls have returned, and until all values have arrived.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <heddle/heddle.h>

#include "command_line.h"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::int64_t keys = 100'000;
  int steps = 3;
  std::string store = "dist_sync", calls = "single";
};

class Run {
 public:
  explicit Run(const Arguments& arguments)
      : arguments_(arguments), store_(KVStore::create(arguments.store)), begin_(Clock::now()) {
    for (std::int64_t key = 0; key < arguments.keys; ++key) {
      keys_.emplace_back("key" + std::to_string(key));
      values_.push_back(ones({1}));
      out_.push_back(zeros({1}));
    }
  }

  void run() {
    const NDArray value = zeros({1});
    for (const Key& key : keys_) store_->init(key, value);
    finish("init");
    for (int step = 0; step < arguments_.steps; ++step) {
      store_->barrier();
      default_engine().wait_all();
      begin_ = Clock::now();
      call();
      lap("calls");
      finish("step");
    }
    store_->barrier();
    finish("end");
  }

 private:
  void call() {
    if (arguments_.calls == "lists") {
      store_->push(keys_, values_);
      store_->pull(keys_, out_);
      return;
    }
    if (arguments_.calls == "pairs") return store_->push_pull(keys_, values_, out_);
    for (std::size_t i = 0; i < keys_.size(); ++i) store_->push(keys_[i], values_[i]);
    for (std::size_t i = 0; i < keys_.size(); ++i) store_->pull(keys_[i], out_[i]);
  }
  void lap(const char* what) const {
    if (store_->rank() > 0) return;
    std::printf("%-6s %6.2f s\n", what, std::chrono::duration<double>(Clock::now() - begin_).count());
    std::fflush(stdout);
  }
  void finish(const char* what) {
    default_engine().wait_all();
    lap(what);
  }

  Arguments arguments_;
  std::unique_ptr<KVStore> store_;
  Clock::time_point begin_;
  std::vector<Key> keys_;
  std::vector<NDArray> values_, out_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  command_line::Program app("kv_keys", "What many small keys cost the workers of a job");
  app.add_option("--keys", arguments.keys, "how many")
      .range(std::int64_t{1}, std::int64_t{1} << 24)
      .show_default();
  app.add_option("--steps", arguments.steps, "pushes and pulls of all keys").range(1, 1000).show_default();
  app.add_option("--store", arguments.store, "what KVStore::create knows").show_default();
  app.add_option("--calls", arguments.calls,
                 "single: one call a key, first all pushes; lists: one call of all pushes, one of all pulls; "
                 "pairs: one call of all that pushes and pulls")
      .show_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    Run(arguments).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_keys: %s\n", error.what());
    return 1;
  }
  return 0;
}
