#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>

#include "arguments.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Values are small integers, so that rounding does not hide a wrong order or a missing part. They are not
// periodic, so that no shift is hidden.
template <class T> std::vector<T> values_of(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t mixed = (first + i + 1) * 0x9E3779B97F4A7C15u >> 40;
    values[i] = static_cast<T>(1 + (mixed + static_cast<std::uint64_t>(rank) * 3) % 5);
  }
  return values;
}

// The type in which elements of type T are combined.
template <class T> using Wide = std::conditional_t<is_half_type<T>, float, T>;

template <class T> T reduced(ReduceOp op, T left, T right) {
  const auto a = static_cast<Wide<T>>(left), b = static_cast<Wide<T>>(right);
  switch (op) {
    case ReduceOp::prod:
      return static_cast<T>(a * b);
    case ReduceOp::min:
      return static_cast<T>(std::min(a, b));
    case ReduceOp::max:
      return static_cast<T>(std::max(a, b));
    default:
      return static_cast<T>(a + b);
  }
}

template <class T> std::vector<T> serial_reduction(ReduceOp op, int ranks, std::size_t count) {
  std::vector<T> all = values_of<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> theirs = values_of<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) all[i] = reduced(op, all[i], theirs[i]);
  }
  if (op == ReduceOp::avg) {
    for (T& value : all) value = static_cast<T>(static_cast<Wide<T>>(value) / static_cast<Wide<T>>(ranks));
  }
  return all;
}

// Expected results are kept for all ranks, algorithms and back ends, since a long sweep would otherwise spend
// most of its time on them. Those of a former number of ranks are dropped, to bound the memory.
template <class T>
std::shared_ptr<const std::vector<T>> expected_reduction(ReduceOp op, int ranks, std::size_t count) {
  static std::mutex mutex;
  static int kept_ranks = 0;
  static std::map<std::pair<ReduceOp, std::size_t>, std::shared_ptr<const std::vector<T>>> kept;
  const std::scoped_lock lock(mutex);
  if (kept_ranks != ranks) kept.clear();
  kept_ranks = ranks;
  auto& result = kept[{op, count}];
  if (!result) result = std::make_shared<const std::vector<T>>(serial_reduction<T>(op, ranks, count));
  return result;
}

const std::vector<std::size_t> kSizes = kSanitized ? std::vector<std::size_t>{0, 7, 5000, 70'001}
                                                   : std::vector<std::size_t>{0, 1, 7, 1000, 5000, 300'007};

template <class T> NDArray array_of(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

// Calls every collective once and compares it with a serial reduction.
template <class T> void sweep(Communicator& comm, std::size_t count) {
  const int size = comm.size(), rank = comm.rank();
  const auto ranks = static_cast<std::size_t>(size);
  CAPTURE(count);
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    NDArray in = array_of(values_of<T>(rank, count)), out = array_of(std::vector<T>(count));
    comm.all_reduce(in, out, op);
    comm.all_reduce(in, op);
    REQUIRE(out.to_vector<T>() == *expected_reduction<T>(op, size, count));
    REQUIRE(in.to_vector<T>() == out.to_vector<T>());
  }
  const int root = size - 1;
  NDArray reduced = array_of(values_of<T>(rank, count)), spread = array_of(values_of<T>(rank, count));
  comm.reduce(reduced, root, ReduceOp::sum);
  comm.broadcast(spread, root);
  REQUIRE(reduced.to_vector<T>() ==
          (rank == root ? *expected_reduction<T>(ReduceOp::sum, size, count) : values_of<T>(rank, count)));
  REQUIRE(spread.to_vector<T>() == values_of<T>(root, count));

  NDArray mine = array_of(values_of<T>(rank, count)), all = array_of(std::vector<T>(count * ranks));
  comm.all_gather(mine, all);
  std::vector<T> gathered;
  for (int other = 0; other < size; ++other) {
    const std::vector<T> theirs = values_of<T>(other, count);
    gathered.insert(gathered.end(), theirs.begin(), theirs.end());
  }
  REQUIRE(all.to_vector<T>() == gathered);

  NDArray whole = array_of(values_of<T>(rank, count * ranks)), part = array_of(std::vector<T>(count));
  comm.reduce_scatter(whole, part, ReduceOp::sum);
  const auto sums = expected_reduction<T>(ReduceOp::sum, size, count * ranks);
  const auto begin = sums->begin() + static_cast<std::ptrdiff_t>(count) * rank;
  REQUIRE(part.to_vector<T>() == std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count)));

  NDArray there = array_of(values_of<T>(rank, count * ranks)), here = array_of(std::vector<T>(count * ranks));
  comm.all_to_all(there, here);
  std::vector<T> exchanged;
  for (int other = 0; other < size; ++other) {
    const std::vector<T> theirs = values_of<T>(other, count, count * static_cast<std::size_t>(rank));
    exchanged.insert(exchanged.end(), theirs.begin(), theirs.end());
  }
  REQUIRE(here.to_vector<T>() == exchanged);

  NDArray passed = array_of(std::vector<T>(count));
  if (size > 1 && rank == 0) comm.send(mine, size - 1);
  if (size > 1 && rank == size - 1) {
    comm.recv(passed, 0);
    REQUIRE(passed.to_vector<T>() == values_of<T>(0, count));
  }
  comm.barrier();
  comm.wait();
}

void sweep_all_dtypes(Communicator& comm, std::size_t count) {
  sweep<float>(comm, count);
  sweep<double>(comm, count);
  sweep<std::int32_t>(comm, count);
  sweep<std::int64_t>(comm, count);
  sweep<std::uint8_t>(comm, count);
  sweep<std::int8_t>(comm, count);
  sweep<Float16>(comm, count);
  sweep<BFloat16>(comm, count);
}

}  // namespace

TEST_CASE("collectives give what a serial program gives, for ranks, sizes, dtypes and algorithms") {
  for (const char* algorithm : {"auto", "ring", "tree", "recursive_doubling", "halving_doubling"}) {
    const bool automatic = std::string(algorithm) == "auto";
    for (int ranks : {1, 2, 3, 4, 5, 7, 8}) {
      if (kSanitized && (ranks == 4 || ranks == 7)) continue;
      CAPTURE(std::string(algorithm));
      CAPTURE(ranks);
      run_local(ranks, {.algorithm = algorithm}, [&](Communicator& comm) {
        for (std::size_t count : kSizes) {
          if (count > 10'000 && ranks > (automatic ? 4 : 2)) continue;
          const bool all = automatic && (kSanitized ? count == 7 : count <= 1000);
          all ? sweep_all_dtypes(comm, count) : sweep<float>(comm, count);
        }
      });
    }
  }
}

// Long run: --sweep=1048579, with all numbers of ranks and up to that many elements; the default has three
// ranks. --backend=N takes one of all_backends() only.
TEST_CASE("the whole sweep of back ends, algorithms, ranks, sizes and dtypes") {
  const auto most = static_cast<std::size_t>(argument("sweep", 1));
  const bool everyday = most == 1;
  const long long only = argument("backend", -1);
  const std::vector<std::string> backends = all_backends();
  const auto sweep_all = [&](Communicator& comm) {
    for (std::size_t count : {0u, 1u, 7u, 1024u, (1u << 20) + 3}) {
      if (count > most) continue;
      sweep_all_dtypes(comm, count);
    }
  };
  for (int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    if (everyday && ranks != 3) continue;
    for (std::size_t backend = 0; backend < backends.size(); ++backend) {
      if (only >= 0 && static_cast<std::size_t>(only) != backend) continue;
      for (const char* algorithm :
           {"auto", "direct", "ring", "tree", "recursive_doubling", "halving_doubling", "hierarchical"}) {
        if (std::string(algorithm) == "direct" && backends[backend] == "tcp")
          continue;  // the algorithm direct needs shared memory, which tcp has not
        CAPTURE(backends[backend]);
        CAPTURE(std::string(algorithm));
        CAPTURE(ranks);
        const auto begin = std::chrono::steady_clock::now();
        const CommOptions options{.algorithm = algorithm};
        run_job(backends[backend], ranks, options, sweep_all);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (most > 1024) MESSAGE(took.count(), " s");
      }
    }
  }
}

TEST_CASE("the same between ranks that share memory without a name, and over TCP") {
  for (const char* backend : {"shm", "tcp"}) {
    for (const char* algorithm : {"auto", "ring", "tree", "recursive_doubling", "halving_doubling"}) {
      for (int ranks : {2, 3, 8}) {
        if (kSanitized && ranks == 8 && std::string(algorithm) != "auto") continue;
        CAPTURE(std::string(backend));
        CAPTURE(std::string(algorithm));
        CAPTURE(ranks);
        run_job(backend, ranks, {.algorithm = algorithm}, [&](Communicator& comm) {
          REQUIRE(comm.backend() == backend);
          for (std::size_t count : kSizes) {
            if (count > 10'000 && ranks > 2) continue;
            sweep<float>(comm, count);
            if (count <= 7 && !kSanitized) sweep<std::int64_t>(comm, count);
          }
        });
      }
    }
  }
}
