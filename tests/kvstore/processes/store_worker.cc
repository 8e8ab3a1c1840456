// A worker of servers_test.py: adds rank + 1 to two keys, a small one and one that is split over servers, and checks sums.
//   store_worker TYPE ROUNDS [DIE]
// With DIE, rank 1 kills itself after that round, and goes on with the next one when it is started again.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

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

// Without rounds, the parts of a key on different servers may have different sums at one moment.
void check_all(const NDArray& array, std::int64_t least, std::int64_t most, const char* what) {
  for (const std::int64_t one : array.to_vector<std::int64_t>()) check(one, least, most, what);
}

int run(const std::string& type, int rounds, int die) {
  const char* const restarts = std::getenv("HEDDLE_RESTART");
  const bool again = restarts && std::string(restarts) != "0";
  const auto store = KVStore::create(type);
  const int workers = store->workers(), rank = store->rank();
  const std::int64_t a_round = workers * (workers + 1) / 2;
  store->set_optimizer("add");
  NDArray out[2];
  for (KVStore::Key key : {0, 1}) {
    out[key] = zeros({kElements[key]}, DType::i64);
    store->init(key, out[key]);
  }
  for (int round = again ? die + 1 : 1; round <= rounds; ++round) {
    for (KVStore::Key key : {0, 1}) {
      store->push(key, full({kElements[key]}, rank + 1, DType::i64));
      store->pull(key, out[key]);
    }
    for (const NDArray& one : out) {
      const std::int64_t all = a_round * round, mine = std::int64_t{round} * (rank + 1);
      check_all(one, type == "dist_sync" ? all : mine, type == "dist_sync" ? all : a_round * rounds,
                "sum of a round");
    }
    if (round == die && rank == 1) std::raise(SIGKILL);
  }
  store->barrier();
  for (KVStore::Key key : {0, 1}) {
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
    return run(argv[1], std::atoi(argv[2]), argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_worker: %s\n", error.what());
    return 1;
  }
}
