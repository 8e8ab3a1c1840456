#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <poll.h>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "files.h"

namespace {

using heddle::test::TemporaryDirectory;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::multiset<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

// A running process of the program `heddle`. Its temporary files are in a directory of its own.
class Running {
 public:
  explicit Running(std::vector<std::string> arguments) {
    int out[2];
    REQUIRE(::pipe(out) == 0);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      const std::string errors = directory_.file("stderr");
      if (!std::freopen(errors.c_str(), "w", stderr)) ::_exit(99);
      ::close(out[0]);
      ::close(out[1]);
      ::setenv("TMPDIR", temporary().c_str(), 1);
      arguments.insert(arguments.begin(), HEDDLE_PROGRAM);
      std::vector<char*> words;
      for (std::string& word : arguments) words.push_back(word.data());
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(99);
    }
    ::close(out[1]);
    out_ = out[0];
  }
  ~Running() {
    ::close(out_);
    if (id_ > 0) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Reads the process's output until it has `lines` lines; -1: reads to the end.
  const std::string& read(long lines = -1) {
    char buffer[4096];
    while (lines < 0 || std::count(text_.begin(), text_.end(), '\n') < lines) {
      const ssize_t count = ::read(out_, buffer, sizeof buffer);
      if (count <= 0) break;
      text_.append(buffer, static_cast<std::size_t>(count));
    }
    return text_;
  }
  void send(int signal) const { ::kill(id_, signal); }
  // Waits for the end of the process; returns the exit status as a shell encodes it.
  int end() {
    read();
    int status = 0;
    REQUIRE(::waitpid(id_, &status, 0) == id_);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string errors() const { return heddle::test::read_file(directory_.file("stderr")); }
  bool left_nothing() const { return std::filesystem::is_empty(temporary()); }

 private:
  std::string temporary() const {
    const std::string path = directory_.file("tmp");
    std::filesystem::create_directories(path);
    return path;
  }
  TemporaryDirectory directory_;
  pid_t id_ = -1;
  int out_ = -1;
  std::string text_;
};

struct Outcome {
  int status;
  std::string out, error;
};

Outcome launch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "launch");
  Running running(std::move(arguments));
  const int status = running.end();
  CHECK(running.left_nothing());
  return {status, running.read(), running.errors()};
}

Outcome shell(const std::string& script, std::vector<std::string> options = {"-n", "2"}) {
  options.insert(options.end(), {"--", "sh", "-c", script});
  return launch(std::move(options));
}

// A shell script for ranks: prints the process ids of the rank and of a child of it, then waits without end.
constexpr const char* kFamily = "sleep 600 & echo $$ $!; wait";

std::vector<pid_t> family_of(const std::string& text) {
  std::vector<pid_t> ids;
  for (const std::string& line : lines_of(text)) {
    std::istringstream words(line.substr(line.find(']') + 1));  // cuts off the prefix "[RANK]" of the line
    for (pid_t id = 0; words >> id;) ids.push_back(id);
  }
  return ids;
}

// Lets orphaned descendants become children of this process, so that it can wait for them.
void adopt_orphans() { REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); }

// Waits until this process has no children, and checks that the processes `ids` have ended. Then it has no
// other descendants either, since orphans become its children.
void check_all_end(const std::vector<pid_t>& ids) {
  while (::waitpid(-1, nullptr, 0) > 0) continue;
  for (const pid_t id : ids) CHECK(::kill(id, 0) != 0);
}

// Writes a script that replaces ssh and returns its path. It takes the options of ssh, but runs the command
// on this host. As with sshd, the command survives the end of ssh.
std::string fake_ssh(const TemporaryDirectory& directory) {
  const std::string path = directory.file("ssh");
  heddle::test::write_file(
      path, "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec setsid --wait sh -c \"$*\"\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("every rank is told who it is, and every line says whose it is") {
  const Outcome outcome = shell(
      "echo $HEDDLE_RANK/$HEDDLE_SIZE $HEDDLE_LOCAL_RANK/$HEDDLE_LOCAL_SIZE; echo oops >&2", {"-n", "3"});
  CHECK(outcome.status == 0);
  CHECK(lines_of(outcome.out) == std::multiset<std::string>{"[0] 0/3 0/3", "[1] 1/3 1/3", "[2] 2/3 2/3"});
  CHECK(lines_of(outcome.error) == std::multiset<std::string>{"[0] oops", "[1] oops", "[2] oops"});
}

TEST_CASE("ranks meet at a socket in a directory that is theirs alone") {
  const Outcome outcome = shell("stat -c %a $(dirname ${HEDDLE_RENDEZVOUS#unix:}); echo $HEDDLE_RENDEZVOUS",
                                {"-n", "1", "--no-prefix"});
  CHECK(outcome.out.starts_with("700\nunix:/"));
}

TEST_CASE("lines are never torn, and the last needs no end") {
  const Outcome outcome =
      shell("i=0; while [ $i -lt 500 ]; do printf a; printf 'b\\n'; i=$((i+1)); done; printf end");
  std::multiset<std::string> expected{"[0] end", "[1] end"};
  for (int i = 0; i < 500; ++i) expected.insert({"[0] ab", "[1] ab"});
  CHECK(lines_of(outcome.out) == expected);
}

TEST_CASE("a line too long to be kept is cut, and nothing of it lost") {
  const Outcome outcome = shell("head -c 200000 /dev/zero | tr '\\0' x", {"-n", "1", "--no-prefix"});
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), 'x') == 200000);
}

TEST_CASE("without the prefix, and into files") {
  CHECK(shell("echo a", {"-n", "1", "--no-prefix"}).out == "a\n");
  const TemporaryDirectory directory;
  const std::string logs = directory.file("logs");
  const Outcome outcome = shell("echo out $HEDDLE_RANK; echo error >&2", {"-n", "2", "--output", logs});
  CHECK(outcome.out.empty());
  CHECK(outcome.error.empty());
  for (const char* rank : {"0", "1"}) {
    CHECK(lines_of(heddle::test::read_file(logs + "/rank-" + rank + ".log")) ==
          std::multiset<std::string>{std::string("out ") + rank, "error"});
  }
}

TEST_CASE("the first rank that fails ends the others, and the job with its exit code and last words") {
  const Outcome outcome =
      shell("[ $HEDDLE_RANK = 1 ] || exec sleep 600; echo the disk is full >&2; exit 7", {"-n", "3"});
  CHECK(outcome.status == 7);
  CHECK(holds(outcome.error, "rank 1 (process"));
  CHECK(holds(outcome.error, "ended with exit code 7"));
  CHECK(holds(outcome.error, "\n    the disk is full\n"));
}

TEST_CASE("a rank that fails is started again, so often as was asked for, and nobody else is") {
  adopt_orphans();
  const std::string script =
      "echo run $HEDDLE_RANK/$HEDDLE_SIZE restart $HEDDLE_RESTART; printf half;"
      "[ $HEDDLE_RANK = 1 ] || exit 0; sleep 600 & case $HEDDLE_RESTART in"
      " 0) kill -KILL $$;; 1) echo >&2; exit 3;; 2) exit $LAST;; esac";
  const Outcome good = shell(script, {"-n", "2", "--restarts", "2", "--env", "LAST=0"});
  CHECK(good.status == 0);
  CHECK(lines_of(good.out) ==
        std::multiset<std::string>{"[0] run 0/2 restart 0", "[0] half", "[1] run 1/2 restart 0", "[1] half",
                                   "[1] run 1/2 restart 1", "[1] half", "[1] run 1/2 restart 2", "[1] half"});
  CHECK(holds(good.error, "was killed by signal 9 (Killed); it is started again, restart 1 of 2\n"));
  CHECK(holds(good.error, "ended with exit code 3; it is started again, restart 2 of 2\n"));
  const Outcome bad = shell(script, {"-n", "2", "--restarts", "2", "--env", "LAST=5"});
  CHECK(bad.status == 5);
  CHECK(holds(bad.error, "ended with exit code 5"));
  check_all_end({});  // waits for processes that were started by ranks that died
}

TEST_CASE("on another host too") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      shell("echo $HEDDLE_RESTART; [ $HEDDLE_RESTART = 1 ]",
            {"--ssh", fake_ssh(directory), "--hosts", "a:1", "--restarts", "1", "--no-prefix"});
  CHECK(outcome.status == 0);
  CHECK(lines_of(outcome.out) == std::multiset<std::string>{"0", "1"});
}

TEST_CASE("who is told to end is not started again") {
  Running running({"launch", "-n", "2", "--restarts", "9", "--", "sh", "-c", "echo; exec sleep 600"});
  running.read(2);
  running.send(SIGTERM);
  CHECK(running.end() == 128 + SIGTERM);
}

TEST_CASE("a rank that is killed by a signal") {
  const Outcome outcome = shell("[ $HEDDLE_RANK = 0 ] || exec sleep 600; kill -SEGV $$");
  CHECK(outcome.status == 128 + SIGSEGV);
  CHECK(holds(outcome.error, "rank 0"));
  CHECK(holds(outcome.error, "was killed by signal 11"));
}

TEST_CASE("a rank that does not want to end is killed") {
  const Outcome outcome = shell(
      "[ $HEDDLE_RANK = 0 ] && { read line <$FIFO; exit 3; };"
      "trap '' TERM; echo >$FIFO; while :; do sleep 600; done",
      {"-n", "2", "--grace", "0.1", "--env", [] {
         static const TemporaryDirectory directory;
         const std::string fifo = directory.file("fifo");
         (void)!std::system(("mkfifo " + fifo).c_str());
         return "FIFO=" + fifo;
       }()});
  CHECK(outcome.status == 3);
}

TEST_CASE("what cannot be run is 127") {
  const Outcome outcome = launch({"-n", "1", "/nowhere/program"});
  CHECK(outcome.status == 127);
  CHECK(holds(outcome.error, "cannot run /nowhere/program: No such file"));
}

TEST_CASE("Ctrl-C and SIGTERM end all, grandchildren too") {
  adopt_orphans();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::signal(signal,
             SIG_DFL);  // a test under nohup begins with SIGHUP ignored, which the launcher would keep
    Running running({"launch", "-n", "2", "--", "sh", "-c", kFamily});
    const auto ids = family_of(running.read(2));
    CHECK(ids.size() == 4);
    running.send(signal);
    CHECK(running.end() == 128 + signal);
    CHECK(running.left_nothing());
    check_all_end(ids);
  }
}

TEST_CASE("what a shell has set for signals stands in nobody's way") {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);
  Running running({"launch", "-n", "1", "--grace", "3600", "--", "sh", "-c", "echo; exec sleep 600"});
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  running.read(1);
  running.send(SIGINT);
  CHECK(running.end() == 128 + SIGINT);
}

TEST_CASE(
    "a rank's output beyond the limit of files is cut, and the rank begins with the system's own signals") {
  const TemporaryDirectory directory;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{10'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_DFL);
  const Outcome outcome =
      shell("head -c 200000 /dev/zero | tr '\\0' x; exec head -c 20000 /dev/zero >" + directory.file("own"),
            {"-n", "1", "--output", directory.file("logs")});
  ::signal(SIGXFSZ, handler);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(outcome.status == 128 + SIGXFSZ);
  CHECK(heddle::test::read_file(directory.file("logs/rank-0.log")).size() == 10'000);
  CHECK(heddle::test::read_file(directory.file("own")).size() == 10'000);
}

TEST_CASE("nothing is left of a job whose launcher is killed") {
  adopt_orphans();
  const TemporaryDirectory directory;
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"-n", "2"}, {"--ssh", fake_ssh(directory), "--hosts", "a:1,b:1"}}) {
    std::vector<std::string> arguments{"launch"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    arguments.insert(arguments.end(), {"--", "sh", "-c", kFamily});
    Running running(arguments);
    const auto ids = family_of(running.read(2));
    CHECK(ids.size() == 4);
    running.send(SIGKILL);
    CHECK(running.end() == 128 + SIGKILL);
    check_all_end(ids);
    CHECK(running.left_nothing());
  }
}

TEST_CASE("what a rank leaves behind ends with it") {
  adopt_orphans();
  const Outcome outcome = shell("sleep 600 & echo $!", {"-n", "1"});
  CHECK(outcome.status == 0);
  check_all_end(family_of(outcome.out));
}

TEST_CASE("what has left a rank's group and keeps its output open keeps no job from ending") {
  adopt_orphans();
  const Outcome outcome = shell("setsid sleep 600 & echo $!; printf end", {"-n", "1", "--no-prefix"});
  CHECK(outcome.status == 0);
  CHECK(holds(outcome.out, "\nend\n"));
  ::kill(family_of(outcome.out).front(), SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) continue;
}

TEST_CASE("cores are shared, unless the user has said how many") {
  const std::string show = "echo $HEDDLE_WORKERS $OMP_NUM_THREADS";
  const Outcome many = shell(show, {"-n", "64", "--env", "OMP_NUM_THREADS=5"});
  const auto lines = lines_of(many.out);
  CHECK(lines.size() == 64);
  CHECK(holds(*lines.begin(), " 5"));
  CHECK_FALSE(holds(*lines.begin(), "  5"));
  CHECK(shell(show, {"-n", "1", "--no-prefix", "--env", "HEDDLE_WORKERS=7", "--env", "OMP_NUM_THREADS=8"})
            .out == "7 8\n");
}

TEST_CASE("on other hosts ranks get the same, whatever is in their environment") {
  const TemporaryDirectory directory;
  const Outcome outcome = launch(
      {"--ssh", fake_ssh(directory), "--hosts", "a:2,b:1", "--env", "TEXT=it's $HOME; \"x\"", "--", "sh",
       "-c", "echo $HEDDLE_RANK $HEDDLE_LOCAL_RANK $HEDDLE_LOCAL_SIZE \"$TEXT\" $1", "sh", "two  'words'"});
  CHECK(outcome.status == 0);
  CHECK(lines_of(outcome.out) == std::multiset<std::string>{"[0] 0 0 2 it's $HOME; \"x\" two 'words'",
                                                            "[1] 1 1 2 it's $HOME; \"x\" two 'words'",
                                                            "[2] 2 0 1 it's $HOME; \"x\" two 'words'"});
  const Outcome failed = shell("[ $HEDDLE_RANK = 1 ] && exit 4; exec sleep 600",
                               {"--ssh", fake_ssh(directory), "--hosts", "a:1,b:1"});
  CHECK(failed.status == 4);
  CHECK(holds(failed.error, "rank 1 on b"));
}

TEST_CASE("the program's options are its own") {
  const std::string show = "printf '%s\\n' \"$*\"";
  CHECK(
      launch({"-n", "1", "--no-prefix", "sh", "-c", show, "sh", "-n", "4", "--hosts", "x", "--", "y"}).out ==
      "-n 4 --hosts x -- y\n");
  CHECK(launch({"-n", "1", "--no-prefix", "--", "sh", "-c", show, "sh", "-n", "4", "--", "y"}).out ==
        "-n 4 -- y\n");
}

TEST_CASE("misuse is told and starts nothing") {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"-n", "2"}, "which program?"},
      {{"-n", "2", "--"}, "which program?"},
      {{"echo"}, "say how many ranks"},
      {{"-n", "0", "echo"}, "not in range"},
      {{"-n", "x", "echo"}, "x"},
      {{"-n", "1", "--restarts", "-1", "echo"}, "not in range"},
      {{"-n", "1", "--grace", "nan", "echo"}, "nan not in range 0 - 3600"},
      {{"-n", "1", "--bogus", "echo"}, "unknown option --bogus"},
      {{"--hosts", "a:0", "echo"}, "'a:0'"},
      {{"--hosts", "a,,b", "echo"}, "--hosts"},
      {{"--hosts", "-oProxyCommand=x", "echo"}, "--hosts"},
      {{"--hosts", "a b", "echo"}, "--hosts"},
      {{"--hosts", "a,a", "echo"}, "twice"},
      {{"--hosts", "a:2", "-n", "3", "echo"}, "room for 2"},
      {{"-n", "1", "--env", "A B=c", "echo"}, "--env"},
      {{"-n", "1", "--env", "HEDDLE_NOT_SET_ANYWHERE", "echo"}, "is not set here"},
  };
  for (const auto& [arguments, wanted] : cases) {
    const Outcome outcome = launch(arguments);
    CAPTURE(wanted);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(holds(outcome.error, wanted));
  }
}

TEST_CASE("--help teaches") {
  const Outcome outcome = launch({"--help"});
  CHECK(outcome.status == 0);
  for (const char* part :
       {"heddle launch -n 4 ./train", "--hosts a:2,b:2", "HEDDLE_WORKERS", "Ctrl-C", "--restarts"}) {
    CHECK(holds(outcome.out, part));
  }
}

TEST_CASE("ranks stay on cores of their own, if there are as many") {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  if (CPU_COUNT(&set) < 2) return;
  const std::vector<std::string> print{"--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"};
  std::vector<std::string> bound{"-n", "2", "--no-prefix"}, free = bound;
  free.push_back("--no-bind");
  bound.insert(bound.end(), print.begin(), print.end());
  free.insert(free.end(), print.begin(), print.end());
  const std::multiset<std::string> own = lines_of(launch(bound).out), all = lines_of(launch(free).out);
  REQUIRE(own.size() == 2);
  REQUIRE(all.size() == 2);
  CHECK(*own.begin() != *own.rbegin());
  CHECK(*all.begin() == *all.rbegin());
}

TEST_CASE("ranks of this host meet in a short path, however long that of temporary files is") {
  const TemporaryDirectory directory;
  const std::string folder = directory.file(std::string(150, 'f')), out = directory.file("out");
  std::filesystem::create_directory(folder);
  for (const std::string& temporary : {folder, folder + "/missing", std::string("/tmp")}) {
    const std::string command =
        "TMPDIR='" + temporary +
        "' '" HEDDLE_PROGRAM "' launch -n 1 --no-prefix -- sh -c 'echo $HEDDLE_RENDEZVOUS' >'" + out + "'";
    CHECK(std::system(command.c_str()) == 0);
    const std::string place = heddle::test::read_file(out);
    CAPTURE(place);
    CHECK(place.starts_with("unix:/tmp/heddle-launch-"));
    CHECK(place.size() < 112);
  }
}
