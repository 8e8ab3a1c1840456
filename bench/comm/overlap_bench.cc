// How much of an all_reduce overlaps with computation: each rank computes on one thread during the
// all_reduce.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "comm/comm_subjects.h"
#include "command_line.h"
#include "support/support.h"

namespace {

using namespace heddle::bench;

constexpr const char* kExplanation = R"(
For each size, in turns: the all_reduce alone, the work alone (one thread a rank, --work times as long as Heddle's
all_reduce), and both: pushed at once and waited for. `hidden` is the share of the all_reduce that cost no time: (alone +
work - both) / alone. Part of it cannot be hidden: `core` is the time that a rank's threads and the kernel for them
computed for the all_reduce while both were under way. `waits` is the share hidden of the rest, the waiting: 1 - (both -
work - core) / (alone - core); those who look for messages all the time have no such rest. `total` is both over
what a rank takes that computes and then makes Heddle's blocking call (on shared arrays if there are any), measured in
turns: below 1, ops gained something.

Subjects: heddle; openmpi, MPI_Iallreduce, the work, MPI_Wait; openmpi_test, the same with 100 calls of MPI_Test during
the work.

  overlap_bench                                  ranks on one host, shared memory: what a core has to do is not hidden
  overlap_bench --backend tcp --wire 1gbit       over TCP on a loopback of its own that carries 1 Gbit/s: mostly waiting
)";

struct Arguments {
  CommSetting setting;
  Options options;
  std::vector<std::string> sizes{"1M", "4M", "16M"};
  std::string wire;
  double work = 2;
};

constexpr long kCalibration = 20'000'000;
constexpr double kSample = 0.02;  // seconds that a sample (at least two calls) takes

// The samples of each column. The runs are interleaved, so that disturbances of the machine affect all
// columns alike.
struct Times {
  std::vector<double> alone, work, both, core, total;
};

class Overlap {
 public:
  Overlap(const Arguments& arguments, const CommSubject& heddle) : arguments_(arguments), heddle_(heddle) {
    nanoseconds_ = one(heddle_, "compute", std::to_string(kCalibration), 2) / kCalibration * 1e9;
  }

  void run(const std::vector<CommSubject>& subjects, std::size_t bytes) {
    count_ = bytes / sizeof(float);
    calls_ = 2;
    one(heddle_, "all_reduce", "op", calls_);
    calls_ = std::clamp(static_cast<long>(kSample / (blocking_call() * (1 + arguments_.work))), 2L, 1000L);
    std::vector<double> blocking;
    for (int i = 0; i < arguments_.options.runs; ++i) blocking.push_back(blocking_call());
    const long rounds = static_cast<long>(median(blocking) * 1e9 / nanoseconds_ * arguments_.work);
    for (const CommSubject& subject : subjects) {
      const bool mpi = subject.name == "openmpi";
      measure(subject, subject.name, rounds, 0);
      if (mpi) measure(subject, "openmpi_test", rounds, 100);
    }
  }

 private:
  CommSample sample(const CommSubject& subject, const std::string& what, const std::string& variant,
                    long calls) {
    const CommSample sample = subject.ranks->run(what, variant, count_, calls);
    if (sample.wrong) throw std::runtime_error(subject.name + ": wrong sums");
    return sample;
  }
  double one(const CommSubject& subject, const std::string& what, const std::string& variant, long calls) {
    return sample(subject, what, variant, calls).seconds;
  }

  double blocking_call() {
    return one(heddle_, "all_reduce", arguments_.setting.backend == "shm" ? "shared" : "raw", calls_);
  }

  void measure(const CommSubject& subject, const std::string& name, long rounds, long tests) {
    const std::string plain = subject.name == "openmpi" ? "usual" : "op";
    const std::string amount = std::to_string(rounds);
    Times times;
    for (int i = 0; i < arguments_.options.runs + 1; ++i) {
      const double alone = one(subject, "all_reduce", plain, calls_);
      const CommSample work = sample(subject, "compute", amount, calls_),
                       both = sample(subject, "overlap", amount + "/" + std::to_string(tests), calls_);
      const double in_turn = one(heddle_, "in_turn", amount, calls_);
      if (i == 0) continue;  // the first run touches new memory
      times.alone.push_back(alone);
      times.work.push_back(work.seconds);
      times.both.push_back(both.seconds);
      times.core.push_back(both.core - work.core);
      times.total.push_back(both.seconds / in_turn);
    }
    const double alone = median(times.alone), work = median(times.work), both = median(times.both),
                 core = median(times.core);
    const double waits = 1 - (both - work - core) / (alone - core);
    std::printf("%10zu  %-14s %10.2f %10.2f %10.2f %10.2f %8.1f %% ", count_ * sizeof(float), name.c_str(),
                alone * 1e3, work * 1e3, both * 1e3, core * 1e3, (alone + work - both) / alone * 100);
    // The hidden share of the waiting time is printed only if the all_reduce alone does wait: a library that
    // polls, as Open MPI does, computes instead of waiting.
    const bool waiting = subject.name != "openmpi" && alone - core > alone / 10;
    waiting ? std::printf("%8.1f %%", waits * 100) : std::printf("%10s", "");
    std::printf(" %8.3f\n", median(times.total));
    std::fflush(stdout);
  }

  const Arguments& arguments_;
  const CommSubject& heddle_;
  std::size_t count_ = 1;
  long calls_ = 2;      // collective calls per sample
  double nanoseconds_;  // time of one round of work(), in nanoseconds
};

// Slows down loopback to the rate `wire`, in a new network and user namespace: this needs no root and leaves
// other traffic alone.
void shape(int argc, char** argv, const std::string& wire) {
  constexpr const char* kInside = "HEDDLE_OVERLAP_WIRE";
  if (!std::getenv(kInside)) {
    setenv(kInside, wire.c_str(), 1);
    std::vector<char*> words;
    for (const char* word : {"unshare", "--user", "--map-root-user", "--net"})
      words.push_back(const_cast<char*>(word));
    words.insert(words.end(), argv, argv + argc);
    words.push_back(nullptr);
    execvp("unshare", words.data());
    throw std::runtime_error("--wire needs unshare and user namespaces");
  }
  const std::string commands =
      "ip link set lo up mtu 9000 && tc qdisc add dev lo root tbf rate " + wire + " burst 256kb latency 50ms";
  if (std::system(commands.c_str()) != 0) throw std::runtime_error("--wire needs ip and tc, of iproute2");
}

int run(const Arguments& arguments) {
  const MeetingPlace place;
  const std::vector<CommSubject> subjects = start_subjects(arguments.setting, place);
  if (subjects.empty() || subjects[0].name != "heddle_op") throw std::runtime_error("Heddle does not start");
  std::printf("# all_reduce beside work, %d ranks, backend %s%s%s, median of %d runs\n",
              arguments.setting.ranks, arguments.setting.backend.c_str(),
              arguments.wire.empty() ? "" : ", wire ", arguments.wire.c_str(), arguments.options.runs);
  std::printf("#%9s  %-14s %10s %10s %10s %10s %10s %10s %8s\n", "bytes", "subject", "alone ms", "work ms",
              "both ms", "core ms", "hidden", "waits", "total");
  Overlap overlap(arguments, subjects[0]);
  for (const std::string& size : arguments.sizes) overlap.run(subjects, bytes_of(size));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.setting.subjects = {"heddle_op", "openmpi"};
  arguments.setting.pin = true;
  heddle::command_line::Program app("overlap_bench",
                                    "How much of a reduction hides behind computation, beside Open MPI");
  app.footer(kExplanation);
  add_run_options(app, arguments.options);
  app.add_option("-n,--ranks", arguments.setting.ranks, "processes of every subject")
      .show_default()
      .range(2, 64);
  app.add_option("--sizes", arguments.sizes, "bytes, with K, M or G").delimiter(',').show_default();
  app.add_option("--backend", arguments.setting.backend, "Heddle's; with tcp, Open MPI uses TCP alone too")
      .show_default()
      .one_of({"shm", "tcp"});
  app.add_option("--wire", arguments.wire, "what a loopback of its own carries, as tc says it: 1gbit");
  app.add_option("--work", arguments.work, "length of the work, in Heddle's all_reduces")
      .show_default()
      .range(0.1, 100.0);
  app.add_flag("!--no-pin", arguments.setting.pin, "do not keep rank r on core r");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    if (!arguments.wire.empty()) shape(argc, argv, arguments.wire);
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overlap_bench: %s\n", error.what());
    return 1;
  }
}
