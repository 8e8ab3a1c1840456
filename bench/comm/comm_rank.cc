#include "comm/comm_rank.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/support.h"

namespace heddle::bench {

namespace {

// The test values of an array repeat with this period. They are small integers, so that sums over hundreds of
// ranks are exact in f32.
constexpr std::size_t kPeriod = 31;
using Values = std::array<float, kPeriod>;

float value_of(int rank, std::size_t index) {
  return static_cast<float>((index + 5 * static_cast<std::size_t>(rank)) % kPeriod + 1);
}

Values values_of(int rank) {
  Values values;
  for (std::size_t i = 0; i < kPeriod; ++i) values[i] = value_of(rank, i);
  return values;
}

Values sums_of(int size) {
  Values sums{};
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < kPeriod; ++i) sums[i] += value_of(rank, i);
  }
  return sums;
}

void fill(float* to, std::size_t count, const Values& values) {
  for (std::size_t i = 0, at = 0; i < count; ++i, at = at + 1 == kPeriod ? 0 : at + 1) to[i] = values[at];
}

// Number of elements that differ from values[(first + i) % kPeriod].
std::size_t count_wrong(const float* found, std::size_t count, const Values& values, std::size_t first = 0) {
  std::size_t wrong = 0;
  std::size_t at = first % kPeriod;
  for (std::size_t i = 0; i < count; ++i, at = at + 1 == kPeriod ? 0 : at + 1)
    wrong += found[i] != values[at];
  return wrong;
}

class Check {
 public:
  Check(const CommTask& task, const CommJob& job, int rank, int size)
      : task_(task),
        job_(job),
        rank_(rank),
        size_(size),
        part_(task.count / static_cast<std::size_t>(size)) {}

  void fill_in() const {
    const std::size_t sent = task_.collective == "all_gather" ? part_ : task_.count;
    fill(job_.in, sent, values_of(rank_));
    if (job_.out != job_.in) std::fill_n(job_.out, received(), -1.0F);
  }

  std::size_t wrong() const {
    const std::string& what = task_.collective;
    if (what == "barrier" || what == "compute") return 0;
    if (what == "all_reduce" || what == "overlap" || what == "in_turn" || what == "burst")
      return count_wrong(job_.out, task_.count, sums_of(size_));
    if (what == "broadcast") return count_wrong(job_.out, task_.count, values_of(0));
    // reduce gives its result to rank 0 only; MPI leaves the receive buffers of the other ranks undefined.
    if (what == "reduce") return rank_ == 0 ? count_wrong(job_.out, task_.count, sums_of(size_)) : 0;
    const std::size_t mine = part_ * static_cast<std::size_t>(rank_);
    if (what == "reduce_scatter") return count_wrong(job_.out, part_, sums_of(size_), mine);
    std::size_t all = 0;
    for (int from = 0; from < size_; ++from) {
      const float* part = job_.out + part_ * static_cast<std::size_t>(from);
      all += count_wrong(part, part_, values_of(from), what == "all_to_all" ? mine : 0);
    }
    return all;
  }

 private:
  std::size_t received() const { return task_.collective == "reduce_scatter" ? part_ : task_.count; }

  const CommTask& task_;
  const CommJob& job_;
  int rank_, size_;
  std::size_t part_;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU seconds of all threads of this process, user and system time.
double core_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long a path: " + path);
  std::strcpy(address.sun_path, path.c_str());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot reach comm_bench at " + path);
  }
  return connection;
}

// Keeps the prepared calls of all collectives and variants at the current size, with their memory, so that
// interleaved runs allocate nothing.
class Jobs {
 public:
  explicit Jobs(CommLibrary& library) : library_(library) {}

  const CommJob& of(const CommTask& task) {
    if (task.count != count_) jobs_.clear();
    count_ = task.count;
    const auto [job, is_new] = jobs_.try_emplace(task.collective + ' ' + task.variant);
    if (is_new) job->second = library_.prepare(task);
    return job->second;
  }

 private:
  CommLibrary& library_;
  std::size_t count_ = 0;
  std::map<std::string, CommJob> jobs_;
};

// Times `calls` calls made back to back, as nccl-tests does. The timed calls reduce zeros, whose sums stay
// zero. One call before the timing, which also wakes the cores, and one call after it are checked.
std::string run(CommLibrary& library, const CommTask& task, const CommJob& job, long calls) {
  const Check check(task, job, library.rank(), library.size());
  const auto checked_call = [&] {
    check.fill_in();
    job.call();
    return check.wrong();
  };
  std::size_t wrong = checked_call();
  const std::size_t sent =
      task.collective == "all_gather" ? task.count / static_cast<std::size_t>(library.size()) : task.count;
  std::fill_n(job.in, sent, 0.0F);
  for (long i = 0; i < std::min(calls / 10, 100L); ++i) job.call();
  library.barrier();
  const double start = now(), core_before = core_time();
  for (long i = 0; i < calls; ++i) job.call();
  const double seconds = now() - start, core = core_time() - core_before;
  wrong += checked_call();
  std::ostringstream answer;
  answer << seconds / static_cast<double>(calls) << ' ' << wrong << ' ' << core / static_cast<double>(calls);
  return answer.str();
}

std::string answer_to(const char* line, CommLibrary& library, Jobs& jobs) {
  CommTask task;
  long calls = 0;
  std::istringstream words(line);
  try {
    if (!(words >> task.collective >> task.variant >> task.count >> calls)) {
      throw std::runtime_error("no such command");
    }
    return run(library, task, jobs.of(task), calls);
  } catch (const std::exception& error) {
    std::string answer = std::string("error ") + error.what();
    std::replace(answer.begin(), answer.end(), '\n', ' ');
    return answer;
  }
}

}  // namespace

CommBuffers::CommBuffers(const CommTask& task, int size) {
  const std::size_t part = task.count / static_cast<std::size_t>(size);
  const std::string& what = task.collective;
  first.resize(what == "all_gather" ? part : task.count);
  if (what == "all_gather" || what == "all_to_all") second.resize(task.count);
  if (what == "reduce_scatter") second.resize(part);
}

Work::Work(const std::string& variant) {
  if (std::sscanf(variant.c_str(), "%ld/%ld", &rounds, &calls) < 1 || rounds < 0 || calls < 0)
    throw std::runtime_error("no amount of work: " + variant);
}

void work(long rounds) {
  volatile double sink = 1;
  double value = sink;
  for (long i = 0; i < rounds; ++i) value = value * 1.0000001 + 1e-9;
  sink = value;
}

RankArguments rank_arguments(int argc, char** argv) {
  RankArguments arguments;
  bool pin = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals),
                      value = equals < word.size() ? word.substr(equals + 1) : "";
    if (key == "control") arguments.control = value;
    if (key == "meeting") arguments.meeting = value;
    if (key == "backend") arguments.backend = value;
    if (key == "rank") arguments.rank = std::atoi(value.c_str());
    if (key == "size") arguments.size = std::atoi(value.c_str());
    if (key == "pin") pin = true;
  }
  if (arguments.control.empty())
    throw std::runtime_error("this program is a part of comm_bench, which starts it");
  if (arguments.rank < 0) {
    // a child of mpirun; the rank is needed before MPI_Init, whose threads must be pinned to the same core
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    arguments.rank = rank ? std::atoi(rank) : 0;
  }
  if (pin) static const CoreLimit kept(arguments.rank, 1);
  return arguments;
}

void serve(CommLibrary& library, const RankArguments& arguments) {
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const int connection = connect_to(arguments.control);
  const File from(fdopen(connection, "r"), std::fclose), to(fdopen(dup(connection), "w"), std::fclose);
  const auto say = [&to](const std::string& text) {
    std::fprintf(to.get(), "%s\n", text.c_str());
    std::fflush(to.get());
  };
  say(std::to_string(library.rank()));
  Jobs jobs(library);
  std::array<char, 256> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), from.get())) {
    say(answer_to(line.data(), library, jobs));
  }
}

int run_rank(int argc, char** argv, const std::function<void(const RankArguments&)>& run) {
  try {
    run(rank_arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace heddle::bench
