// A worker for tests: adds rank + 1 to a small key and to one that is split over servers, and checks sums.
//   store_worker TYPE ROUNDS [DIE [PAUSE]]
// With DIE, rank 1 kills itself after that round; 0: never. A restarted worker continues after the round that
// its element of the key "rounds" names (docs/kvstore.md). PAUSE: milliseconds between rounds, to make a job
// long enough. If HEDDLE_LAST_ROUND is set, the worker waits for that file before the last round.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

constexpr std::int64_t kElements[] = {3, 400'001};

void check(std::int64_t seen, std::int64_t least, std::int64_t most, const char* what) {
  if (seen >= least && seen <= most) return;
  std::fprintf(stderr, "%s: %lld instead of %lld to %lld\n", what, static_cast<long long>(seen),
               static_cast<long long>(least), static_cast<long long>(most));
  std::exit(1);
}

// Checks that each element lies in the range. Without synchronous rounds, parts of a key on different servers
// may have different sums.
void check_all(const NDArray& array, std::int64_t least, std::int64_t most, const char* what) {
  for (const std::int64_t one : array.to_vector<std::int64_t>()) check(one, least, most, what);
}

void wait_for_file(const char* path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int run(const std::string& type, int rounds, int die, std::chrono::milliseconds pause) {
  const char* const restarts = std::getenv("HEDDLE_RESTART");
  const bool again = restarts && std::string(restarts) != "0";
  const auto store = KVStore::create(type);
  const int workers = store->workers(), rank = store->rank();
  const std::int64_t a_round = workers * (workers + 1) / 2;
  store->set_optimizer("add");
  NDArray out[2];
  for (const std::int64_t key : {0, 1}) {
    out[key] = zeros({kElements[key]}, DType::i64);
    store->init(key, out[key]);
  }
  NDArray done = zeros({workers}, DType::i64), one_more = zeros({workers}, DType::i64);
  one_more.slice(0, {rank, rank + 1}).fill(1);
  store->init("rounds", done);
  if (again) store->pull("rounds", done);
  const auto before = static_cast<int>(done.to_vector<std::int64_t>()[static_cast<std::size_t>(rank)]);
  const char* const last_round = std::getenv("HEDDLE_LAST_ROUND");
  for (int round = before + 1; round <= rounds; ++round) {
    if (last_round && round == rounds) wait_for_file(last_round);
    for (const std::int64_t key : {0, 1}) {
      store->push(key, full({kElements[key]}, rank + 1, DType::i64));
      store->pull(key, out[key]);
    }
    for (const NDArray& one : out) {
      const std::int64_t all = a_round * round, mine = std::int64_t{round} * (rank + 1);
      check_all(one, type == "dist_sync" ? all : mine, type == "dist_sync" ? all : a_round * rounds,
                "sum of a round");
    }
    store->push("rounds", one_more);
    if (round == die && rank == 1) {
      store->pull("rounds", done);
      // Waits until the push of "rounds" has counted: if it were lost, the restarted worker would repeat the
      // round.
      done.wait();
      std::raise(SIGKILL);
    }
    std::this_thread::sleep_for(pause);
  }
  store->barrier();
  for (const std::int64_t key : {0, 1}) {
    store->pull(key, out[key]);
    check_all(out[key], a_round * rounds, a_round * rounds, "sum of all rounds");
  }
  std::puts("done");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return run(argv[1], std::atoi(argv[2]), argc > 3 ? std::atoi(argv[3]) : 0,
               std::chrono::milliseconds(argc > 4 ? std::atoi(argv[4]) : 0));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_worker: %s\n", error.what());
    return 1;
  }
}
