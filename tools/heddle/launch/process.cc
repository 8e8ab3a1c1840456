#include "process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "output.h"

namespace heddle::tool {
namespace {

constexpr int kCannotRun = 127;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

void forget_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // The launcher may have inherited these signals as ignored, as background processes of a shell do. The
  // started process must not: forwarded signals have to end it.
  for (const int one : {SIGINT, SIGQUIT, SIGPIPE}) ::signal(one, SIG_DFL);
}

[[noreturn]] void become(const std::vector<std::string>& program, const Environment& more) {
  for (const auto& [name, value] : more) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  write_all(STDERR_FILENO, "cannot run " + program[0] + ": " + std::strerror(errno) + "\n");
  ::_exit(kCannotRun);
}

void guard(int pipe, const std::string& directory) {
  std::set<pid_t> groups;
  pid_t told = 0;
  ssize_t count = 0;
  while ((count = ::read(pipe, &told, sizeof told)) == sizeof told || (count < 0 && errno == EINTR)) {
    if (count < 0) continue;
    if (told == 0) return;
    if (told > 0) groups.insert(told);
    if (told < 0) groups.erase(-told);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  if (!directory.empty()) remove_socket_directory(directory);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    std::swap(number_, other.number_);
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("no pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

namespace {

void stay_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<unsigned>(core), &set);
  ::sched_setaffinity(0, sizeof set, &set);  // ignores an error: the program also runs on other cores
}

}  // namespace

Process start(const std::vector<std::string>& program, const Environment& more, const std::vector<int>& cores,
              bool with_stdin) {
  Pipe out = make_pipe(), error = make_pipe(), in;
  if (with_stdin) in = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start another process");
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kCannotRun);  // the launcher ended before prctl could notice its end
    const int input = with_stdin ? in.read.get() : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(input, STDIN_FILENO);
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(error.write.get(), STDERR_FILENO);
    forget_signals();
    stay_on(cores);
    become(program, more);
  }
  ::setpgid(child, child);  // the child does the same: whichever process runs first sets the group
  for (const Descriptor* end : {&out.read, &error.read}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return {child, std::move(out.read), std::move(error.read), std::move(in.write)};
}

Guard::Guard(const std::string& directory) {
  Pipe pipe = make_pipe();
  id_ = ::fork();
  if (id_ < 0) fail("cannot start another process");
  if (id_ == 0) {
    pipe.write.reset();
    ::setsid();
    // The guard process must not keep the launcher's stdout and stderr open: their readers wait for the end.
    const int null = ::open("/dev/null", O_RDWR);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
    guard(pipe.read.get(), directory);
    ::_exit(0);
  }
  pipe_ = std::move(pipe.write);
}

Guard::~Guard() {
  tell(0);
  pipe_.reset();
  ::waitpid(id_, nullptr, 0);
}

void Guard::tell(pid_t group) {
  write_all(pipe_.get(), {reinterpret_cast<const char*>(&group), sizeof group});
}

void remove_socket_directory(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const bool state = entry.path().filename().string().starts_with(kSchedulerState);
    if (state || entry.is_socket(ignored)) std::filesystem::remove(entry.path(), ignored);
  }
  ::rmdir(directory.c_str());
}

}  // namespace heddle::tool
