#include "job.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <memory>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "restarts.h"

namespace heddle::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRanks = {ProcessKind::rank};
constexpr auto kAll = {ProcessKind::rank, ProcessKind::server, ProcessKind::scheduler};
// How long the launcher reads the pipes after all processes have ended: enough for what is left in them.
constexpr std::chrono::milliseconds kForLastWords{500};

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int one : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD}) ::sigaddset(&set, one);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);  // under nohup, SIGHUP must stay ignored
  return set;
}

// The name of a process in messages: "rank 3", "server 0" or "scheduler".
std::string name_of(const RankPlan& plan) {
  if (plan.kind == ProcessKind::scheduler) return "scheduler";
  return (plan.kind == ProcessKind::server ? "server " : "rank ") + std::to_string(plan.rank);
}

// The name of the process's output file: "rank-3.log".
std::string file_of(const RankPlan& plan) {
  std::string name = name_of(plan);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name + ".log";
}

// A process of the job (a rank, a server or the scheduler) and its output.
struct Rank {
  RankPlan plan;
  Process process;
  Descriptor file;  // the output file, if --output is given
  LineWriter out, error;
  std::optional<int> status;  // the status of waitpid, once the process has ended for good
  Restarts restarts;          // the restarts of a server or the scheduler; not used for ranks
  Clock::time_point started = Clock::now();
  std::optional<Clock::time_point> start_at{};  // when the process, which has died, will be restarted
  bool is_running() const { return !status && !start_at; }
  std::string name() const { return name_of(plan) + (plan.host.empty() ? "" : " on " + plan.host); }
};

int left_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::string describe(int status) {
  if (WIFEXITED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
         ")";
}

class Job {
 public:
  Job(const ProgramOf& program, const JobOptions& options, Guard& guard)
      : program_(program), options_(options), guard_(guard) {
    const sigset_t set = handled_signals();
    signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw std::runtime_error("no signalfd");
  }
  // Kills the processes that still run, which happens only after an exception.
  ~Job() {
    for (const auto& rank : ranks_) {
      if (rank->is_running()) ::kill(-rank->process.id, SIGKILL), ::waitpid(rank->process.id, nullptr, 0);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void add(const RankPlan& plan) {
    Descriptor file;
    if (!options_.output.empty()) {
      const std::string path = options_.output + "/" + file_of(plan);
      file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!file) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
    }
    const bool is_rank = plan.kind == ProcessKind::rank;
    const std::string name = is_rank ? std::to_string(plan.rank) : name_of(plan);
    const std::string prefix = options_.prefix && !file ? "[" + name + "] " : "";
    const int out = file ? file.get() : STDOUT_FILENO, error = file ? file.get() : STDERR_FILENO;
    ranks_.push_back(std::make_unique<Rank>(Rank{plan,
                                                 run_program(plan, 0),
                                                 std::move(file),
                                                 LineWriter(out, prefix),
                                                 LineWriter(error, prefix),
                                                 {},
                                                 Restarts(options_.server_restarts)}));
  }

  int run() {
    while (!over()) wait();
    for (const auto& rank : ranks_) {
      empty(rank->process.out, rank->out);
      empty(rank->process.error, rank->error);
    }
    if (first_failed_) report(*first_failed_);
    if (signal_ != 0) return 128 + signal_;
    return first_failed_ ? std::max(1, exit_code(*first_failed_->status)) : 0;
  }

 private:
  // Whether the job is over: all processes have ended and their output is read. Waits only kForLastWords for
  // output that a descendant keeps open, which has left its rank's process group and still runs.
  bool over() {
    bool silent = true;
    for (const auto& rank : ranks_) {
      if (!rank->status) return false;
      silent = silent && !rank->process.out && !rank->process.error;
    }
    if (!all_ended_) all_ended_ = Clock::now();
    return silent || left_until(*all_ended_ + kForLastWords) == 0;
  }

  void wait() {
    std::vector<pollfd> ready{{signals_.get(), POLLIN, 0}};
    for (const auto& rank : ranks_) {
      for (const Descriptor* from : {&rank->process.out, &rank->process.error}) {
        ready.push_back({from->get(), POLLIN, 0});  // poll ignores a closed pipe, whose descriptor is -1
      }
    }
    const auto until = wake_at();
    ::poll(ready.data(), ready.size(), until ? left_until(*until) : -1);
    for (const auto& rank : ranks_) {
      drain(rank->process.out, rank->out);
      drain(rank->process.error, rank->error);
    }
    take_signals();
    start_due();
    if (!servers_end_ && ranks_have_ended()) end_servers();
    if (kill_at_ && Clock::now() >= *kill_at_) {
      kill_at_.reset();
      send(SIGKILL, servers_end_ ? kAll : kRanks);
    }
  }

  std::optional<Clock::time_point> wake_at() const {
    auto first = all_ended_ ? std::optional(*all_ended_ + kForLastWords) : kill_at_;
    for (const auto& rank : ranks_) {
      if (rank->start_at) first = std::min(first.value_or(*rank->start_at), *rank->start_at);
    }
    return first;
  }

  bool ranks_have_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank->status || rank->plan.kind != ProcessKind::rank; });
  }

  static void drain(Descriptor& from, LineWriter& to) {
    char buffer[1 << 16];
    // Reads only one piece, so that a rank that prints all the time does not delay other ranks and signals.
    const ssize_t count = from ? ::read(from.get(), buffer, sizeof buffer) : -1;
    if (count > 0) to.add({buffer, static_cast<std::size_t>(count)});
    if (count == 0) {
      to.finish();
      from.reset();
    }
  }

  // Reads what is in a pipe now, at the end of a process's output. Does not wait for more, which a surviving
  // descendant of the process may still write.
  static void empty(Descriptor& from, LineWriter& to) {
    constexpr int kPieces = 16;
    for (int i = 0; i < kPieces && from; ++i) drain(from, to);
    to.finish();
  }

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number != SIGCHLD) forward(number);
    }
    for (const auto& rank : ranks_) look_after(*rank);
  }

  // Handles the end of a process. Kills the rest of its process group before it is reaped: until then the
  // group's id cannot belong to other processes.
  void look_after(Rank& rank) {
    if (!rank.is_running()) return;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(rank.process.id), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    if (info.si_pid == 0) return;
    ::kill(-rank.process.id, SIGKILL);
    int status = 0;
    ::waitpid(rank.process.id, &status, 0);
    guard_.forget(rank.process.id);
    const bool again = rank.plan.kind == ProcessKind::rank && restarts_ < options_.restarts;
    if (exit_code(status) != 0 && !ending_ && again) return restart(rank, status);
    if (!ending_ && restarts_itself(rank.plan)) return restart_later(rank, status);
    rank.status = status;
    if (exit_code(status) != 0 && !ending_) {
      first_failed_ = &rank;
      end(SIGTERM);
    }
  }

  Process run_program(const RankPlan& plan, int restart) {
    const RankProgram program = program_(plan, restart);
    Process process = start(program.words, program.environment, program.cores, !plan.host.empty());
    guard_.watch(process.id);
    return process;
  }

  void restart(Rank& rank, int status) {
    empty(rank.process.out, rank.out);
    empty(rank.process.error, rank.error);
    write_all(STDERR_FILENO, "heddle launch: " + rank.name() + " (process " +
                                 std::to_string(rank.process.id) + ") " + describe(status) +
                                 "; it is started again, restart " + std::to_string(++restarts_) + " of " +
                                 std::to_string(options_.restarts) + "\n");
    rank.process = run_program(rank.plan, restarts_);
  }

  // Whether the job goes on without a process that has ended, with any exit status, until it is restarted.
  bool restarts_itself(const RankPlan& plan) const {
    return plan.kind == ProcessKind::scheduler || (plan.kind == ProcessKind::server && options_.copies);
  }

  void restart_later(Rank& rank, int status) {
    const auto now = Clock::now();
    const auto pause = rank.restarts.after_death(rank.started, now);
    empty(rank.process.out, rank.out);
    empty(rank.process.error, rank.error);
    rank.process.out.reset(), rank.process.error.reset();
    if (!pause) {
      rank.status = status;
      first_failed_ = &rank;
      return end(SIGTERM);
    }
    const char* const meanwhile = rank.plan.kind == ProcessKind::scheduler
                                      ? "; servers and workers go on, and it is started anew with its state"
                                      : "; another server has a copy of its part, and it is started anew";
    write_all(STDERR_FILENO,
              "heddle launch: " + rank.name() + " (process " + std::to_string(rank.process.id) + ") " +
                  describe(status) + meanwhile +
                  (pause->count() == 0 ? "" : " in " + std::to_string(pause->count()) + " ms") + "\n");
    rank.start_at = now + *pause;
  }

  void start_due() {
    for (const auto& rank : ranks_) {
      if (!rank->start_at || Clock::now() < *rank->start_at) continue;
      rank->process = run_program(rank->plan, 0);
      rank->started = Clock::now();
      rank->start_at.reset();
    }
  }

  // Forwards a signal that the launcher has received to the job. The second one kills all processes at once.
  void forward(int number) {
    if (signal_ != 0) return send(SIGKILL, kAll);
    signal_ = number;
    end(number);
  }

  void give_up_restarts() {
    for (const auto& rank : ranks_) {
      if (!rank->start_at) continue;
      rank->start_at.reset();
      rank->status = 0;
    }
  }

  // Begins to end the job, with the ranks: the servers are ended later, since a server that drains waits for
  // its workers to leave.
  void end(int with) {
    ending_ = true;
    give_up_restarts();
    send(with, kRanks);
    kill_at_ = Clock::now() + options_.grace;
  }

  // Ends the servers and the scheduler. After success all workers have left, so SIGTERM, which drains a
  // server, ends it at once. After a failure workers have not left, and SIGTERM would wait for them: SIGQUIT
  // stops the server.
  void end_servers() {
    const bool well = !ending_;
    ending_ = servers_end_ = true;
    give_up_restarts();
    send(SIGTERM, {ProcessKind::scheduler});
    send(well ? SIGTERM : SIGQUIT, {ProcessKind::server});
    kill_at_ = Clock::now() + options_.grace;
  }

  void send(int number, std::initializer_list<ProcessKind> kinds) {
    for (const auto& rank : ranks_) {
      if (!rank->is_running() || std::find(kinds.begin(), kinds.end(), rank->plan.kind) == kinds.end())
        continue;
      if (!rank->plan.host.empty()) end_remote(rank->process, number);
      if (rank->plan.host.empty() || number == SIGKILL) ::kill(-rank->process.id, number);
    }
  }

  // Ends a process on another host. ssh does not forward signals: when its stdin ends, the remote script
  // sends SIGTERM, or the signal whose name it has read.
  static void end_remote(Process& process, int number) {
    const auto kept = ::signal(SIGPIPE, SIG_IGN);  // writing must not kill the launcher if ssh has ended
    if (number == SIGQUIT && process.in) write_all(process.in.get(), "QUIT\n");
    ::signal(SIGPIPE, kept);
    process.in.reset();
  }

  // Advice for the user about a server whose death has ended the job.
  std::string advice(const RankPlan& plan) const {
    if (plan.kind == ProcessKind::rank) return "";
    if (options_.copies || plan.kind == ProcessKind::scheduler)
      return "    It has died " + std::to_string(options_.server_restarts + 1) +
             " times within a minute, more often than --server-restarts allows.\n";
    return "    What it held is lost: go on from the last checkpoint. With --servers 2 and --replicas 2 "
           "another server "
           "would have a copy.\n";
  }

  void report(const Rank& rank) const {
    std::string text = "heddle launch: " + rank.name() + " (process " + std::to_string(rank.process.id) +
                       ") " + describe(*rank.status);
    const auto& lines = rank.error.last_lines();
    text += lines.empty() ? "; it wrote nothing to stderr\n" : "; its last lines on stderr:\n";
    for (const std::string& line : lines) text += "    " + line + "\n";
    text += advice(rank.plan);
    write_all(STDERR_FILENO, text);
  }

  const ProgramOf& program_;
  const JobOptions options_;
  Guard& guard_;
  Descriptor signals_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  const Rank* first_failed_ = nullptr;
  int restarts_ = 0;
  bool ending_ = false;       // whether the ranks were told to end, so that their end is no failure
  bool servers_end_ = false;  // whether the servers and the scheduler were told to end
  int signal_ = 0;            // the first signal that the launcher has received; 0: none
  std::optional<Clock::time_point> kill_at_, all_ended_;
};

}  // namespace

void block_signals() {
  ::signal(SIGCHLD, SIG_DFL);  // SIGCHLD may be inherited as ignored; then waitpid would get no status
  const sigset_t set = handled_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

int run_job(const std::vector<RankPlan>& plan, const ProgramOf& program, const JobOptions& options,
            Guard& guard) {
  if (!options.output.empty() && ::mkdir(options.output.c_str(), 0777) != 0 && errno != EEXIST) {
    throw std::runtime_error("cannot make the directory " + options.output + ": " + std::strerror(errno));
  }
  Job job(program, options, guard);
  for (const RankPlan& rank : plan) job.add(rank);
  return job.run();
}

}  // namespace heddle::tool
