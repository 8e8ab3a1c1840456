// One rank of a job, for ranks_test.py: rank_program SCENARIO. It prints one event per line:
// going              calls are being answered; repeated from time to time
// error KIND NS TEXT a call threw, at NS on CLOCK_MONOTONIC
// shrunk SIZE        the rank continues with the survivors, whose results are right
// refused KIND TEXT  the rank could not shrink
// shrinking          the rank has heard of a death, and calls shrink
// grown SIZE         the rank has met the others again, and results are right
// done               the scenario has ended
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <heddle/communicator.h>

#include "fork_with_asan.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using Random = std::mt19937;
using Ranks = std::shared_ptr<Communicator>;

namespace {

void say(const std::string& line) {
  const std::string text = line + "\n";
  // Fails if the test, which reads the output, has ended.
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(9);
}

void say_error(const char* word, bool when) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::exception_ptr error = std::current_exception();
  const auto ns = static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  say(word + (" " + kind_of(error)) + (when ? " " + std::to_string(ns) : "") + " " + text_of(error));
}

void want(bool right, const char* what) {
  if (!right) throw Error(std::string("wrong result: ") + what);
}

std::vector<float> of(std::size_t count, int value) {
  return std::vector<float>(count, static_cast<float>(value));
}

int sum_to(int size) { return size * (size + 1) / 2; }

void check(const NDArray& data, int value, const char* what) {
  want(data.to_vector<float>() == of(static_cast<std::size_t>(data.size()), value), what);
}

void reduce(Communicator& comm, std::size_t count) {
  NDArray data = array(of(count, comm.rank() + 1), {static_cast<std::int64_t>(count)});
  comm.all_reduce(data);
  check(data, sum_to(comm.size()), "all_reduce");
}

void reduce_raw(Communicator& comm, std::size_t count) {
  std::vector<float> data = of(count, comm.rank() + 1);
  comm.all_reduce(data.data(), count, DType::f32);
  want(data == of(count, sum_to(comm.size())), "all_reduce of a buffer");
}

void reduce_shared(Communicator& comm, std::size_t count) {
  NDArray data = comm.shared_array({static_cast<std::int64_t>(count)});
  data.fill(comm.rank() + 1);
  comm.all_reduce(data, ReduceOp::max);
  check(data, comm.size(), "all_reduce of a shared array");
}

void gather(Communicator& comm, std::size_t count) {
  const auto each = static_cast<std::int64_t>(count);
  NDArray mine = array(of(count, comm.rank()), {each}), all = zeros({each * comm.size()});
  comm.all_gather(mine, all);
  const std::vector<float> values = all.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    want(values[i] == static_cast<float>(i / count), "all_gather");
  }
}

void exchange(Communicator& comm, std::size_t count) {
  const auto each = static_cast<std::int64_t>(count);
  NDArray in = array(of(count * static_cast<std::size_t>(comm.size()), comm.rank()), {each * comm.size()});
  NDArray out = zeros({each * comm.size()});
  comm.all_to_all(in, out);
  const std::vector<float> values = out.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    want(values[i] == static_cast<float>(i / count), "all_to_all");
  }
}

void pass_on(Communicator& comm, std::size_t count) {
  if (comm.size() == 1) return;
  const int next = (comm.rank() + 1) % comm.size(), last = (comm.rank() + comm.size() - 1) % comm.size();
  NDArray out = array(of(count, comm.rank()), {static_cast<std::int64_t>(count)}), in = zeros(out.shape());
  if (comm.rank() == 0) comm.send(out, next);
  comm.recv(in, last);
  if (comm.rank() != 0) comm.send(out, next);
  check(in, last, "recv");
}

constexpr std::size_t kCounts[] = {1, 300, 5000, 200'000};

// Makes one random call. Ranks whose generators have the same state make the same call.
void step(Communicator& comm, Random& random) {
  static constexpr void (*kCalls[])(Communicator&, std::size_t) = {reduce, reduce_raw, reduce_shared,
                                                                   gather, exchange,   pass_on};
  const auto call = random() % std::size(kCalls);
  kCalls[call](comm, kCounts[random() % std::size(kCounts)]);
}

void steps(Communicator& comm, int count, unsigned seed) {
  Random random(seed);
  for (int i = 0; i < count; ++i) step(comm, random);
}

void go_on_without(Communicator& comm) {
  try {
    const Ranks rest = comm.shrink();
    steps(*rest, 5, 7);
    say("shrunk " + std::to_string(rest->size()));
  } catch (const CommError&) {
    say_error("refused", false);
  }
}

// Makes random calls until one fails.
void loop(Communicator& comm) {
  Random random(3);
  try {
    for (auto told = std::chrono::steady_clock::time_point();;) {
      step(comm, random);
      if (const auto now = std::chrono::steady_clock::now(); now - told > std::chrono::milliseconds(100)) {
        told = now;
        say("going");
      }
    }
  } catch (const CommError&) {
    say_error("error", true);
  }
  go_on_without(comm);
}

// An integer from the environment; 0 if it is not set.
int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

// Shrinks after each death until SURVIVORS ranks are left.
void survive(Ranks& comm) {
  const int last = number("SURVIVORS");
  for (bool whole = false; !whole;) {
    try {
      Random random(3);
      for (say("going"); !whole;) step(*comm, random);
    } catch (const CommError&) {
      say_error("error", true);
    }
    say("shrinking");
    comm = comm->shrink();
    try {
      steps(*comm, 5, 7);
      whole = comm->size() == last;
    } catch (const PeerLost&) {  // another rank has died since shrink()
      continue;
    }
    say("shrunk " + std::to_string(comm->size()));
  }
}

// Meets restarted ranks MEETINGS times. A new rank learns from an all_reduce how many meetings there were
// before it came.
void regrow(Ranks& comm) {
  for (std::int64_t met = 0;; ++met) {
    try {
      NDArray most = full({1}, static_cast<double>(met), DType::i64);
      comm->all_reduce(most, ReduceOp::max);
      met = most.to_vector<std::int64_t>()[0];
      steps(*comm, 5, 7);
      say("grown " + std::to_string(comm->size()));
      if (met == number("MEETINGS")) return;
      // With GROW rank 0 stops calling and grows, though there was no fault, while the other ranks still
      // call.
      Random random(3);
      for (say("going"); number("GROW") == 0 || comm->rank() != 0;) step(*comm, random);
    } catch (const CommError&) {
      say_error("error", true);
    }
    if (number("SHRINK")) comm = comm->shrink();
    comm = comm->grow(number("GROW"), std::chrono::seconds(30));
  }
}

void compute_for(std::chrono::milliseconds time) {
  volatile double sink = 1;
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
    for (int i = 0; i < 10'000; ++i) sink = sink * 1.0000001;
  }
}

void sweep(Ranks& comm) {
  for (std::size_t count : {1u, 7u, 1000u, 300'007u}) {
    for (const auto call : {reduce, reduce_raw, reduce_shared, gather, exchange, pass_on}) call(*comm, count);
  }
  for (int root = 0; root < comm->size(); ++root) {
    NDArray spread = array(of(5000, comm->rank()), {5000}), reduced = array(of(5000, 1), {5000});
    comm->broadcast(spread, root);
    comm->reduce(reduced, root);
    check(spread, root, "broadcast");
    check(reduced, comm->rank() == root ? comm->size() : 1, "reduce");
    NDArray whole = array(of(static_cast<std::size_t>(100 * comm->size()), 1), {100 * comm->size()});
    NDArray part = zeros({100});
    comm->reduce_scatter(whole, part);
    check(part, comm->size(), "reduce_scatter");
  }
  comm->barrier();
  comm->wait();
}

// Reduces and exchanges empty arrays, and arrays larger than any buffer, among all ranks and among half of
// them.
void large(Ranks& comm) {
  const Ranks half = comm->split(comm->rank() % 2);
  say("backends " + comm->backend() + " " + half->backend());
  for (Communicator* each : {comm.get(), half.get()}) {
    for (std::size_t count : {0u, 3'000'001u}) {
      for (const auto call : {reduce, reduce_raw, gather, exchange, pass_on}) call(*each, count);
    }
  }
}

void leave(Ranks& comm) {
  steps(*comm, 10, 1);
  if (comm->rank() == comm->size() - 1) {
    comm.reset();
  } else {
    loop(*comm);
  }
}

// Rank 0 computes for longer than the timeout. The other ranks wait for it, which is no error.
void compute_long(Ranks& comm) {
  reduce(*comm, 4);
  if (comm->rank() == 0) compute_for(std::chrono::milliseconds(4000));
  reduce(*comm, 4);
}

void fork_inside(Ranks& comm) {
  NDArray kept = comm->shared_array({5000});
  kept.fill(1);
  kept.wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      reduce_raw(*comm, 4);
      _exit(4);
    } catch (const CommError&) {
    }
    kept = NDArray();
    comm.reset();
    _exit(0);
  }
  want(wait_for(child) == "", "the child's end");
  comm->all_reduce(kept);
  check(kept, comm->size(), "after fork");
}

void mismatch(Ranks& comm) {
  steps(*comm, 10, 1);
  try {
    reduce(*comm, comm->rank() == 1 ? 5 : 4);
  } catch (const CommError&) {
    say_error("error", true);
  }
}

// The last rank exits without the communicator's destructor. Other ranks may notice its loss in any step from
// then on, or already in the tenth.
void just_exit(Ranks& comm) {
  if (comm->rank() != comm->size() - 1) return loop(*comm);
  steps(*comm, 10, 3);  // the same ten steps as the other ranks make in loop()
  new Ranks(comm);
  say("done");
  std::_Exit(0);
}

void two(Ranks& comm) {
  const Ranks turned = comm->split(0, -comm->rank());
  for (int i = 0; i < 50; ++i) {
    NDArray a = array(of(3000, 1), {3000}), b = array(of(3000, 2), {3000});
    // Odd ranks make the two calls in reverse order, which is allowed: order matters only within a
    // communicator.
    for (int k = 0; k < 2; ++k) k == comm->rank() % 2 ? comm->all_reduce(a) : turned->all_reduce(b);
    check(a, comm->size(), "the first of two");
    check(b, 2 * comm->size(), "the second of two");
  }
}

// The test puts each half of the ranks on one host, so each half uses shared memory.
void two_hosts(Ranks& comm) {
  const Ranks half = comm->split(2 * comm->rank() / comm->size());
  say("backends " + comm->backend() + " " + half->backend());
  for (int i = 0; i < 20; ++i) {
    NDArray a = array(of(50'000, 1), {50'000}), b = array(of(3000, 2), {3000});
    comm->all_reduce(a);
    half->all_reduce(b);
    check(a, comm->size(), "all");
    check(b, 2 * half->size(), "a half");
  }
}

// The last rank dies. The ranks of its half get an error in the half's communicator, the other ranks only in
// the communicator of all ranks.
void split_death(Ranks& comm) {
  const Ranks half = comm->split(comm->rank() % 2);
  const bool concerned = comm->rank() % 2 == (comm->size() - 1) % 2;
  steps(*half, 10, 1);
  if (comm->rank() == comm->size() - 1) {
    say("done");
    std::raise(SIGKILL);
  }
  if (!concerned) steps(*half, 50, 2);
  try {
    reduce(concerned ? *half : *comm, 100);
  } catch (const PeerLost&) {
    say_error("error", true);
  }
  if (concerned) go_on_without(*half);
}

const std::map<std::string, std::function<void(Ranks&)>> kScenarios{
    {"sweep", sweep},         {"loop", [](Ranks& comm) { loop(*comm); }},
    {"survive", survive},     {"regrow", regrow},
    {"leave", leave},         {"compute-long", compute_long},
    {"fork", fork_inside},    {"mismatch", mismatch},
    {"exit", just_exit},      {"two", two},
    {"two-hosts", two_hosts}, {"split-death", split_death},
    {"large", large},
};

}  // namespace

int main(int argc, char** argv) {
  const auto scenario = kScenarios.find(argc == 2 ? argv[1] : "");
  if (scenario == kScenarios.end()) {
    std::fprintf(stderr, "usage: rank_program SCENARIO\n");
    return 2;
  }
  heddle::test::make_forks_safe_with_asan();
  try {
    Ranks comm = Communicator::create();
    scenario->second(comm);
  } catch (...) {
    say_error("failed", false);
    return 1;
  }
  say("done");
  return 0;
}
