// Saving a file is atomic, and removes the temporary files that earlier saves have left because their process
// was killed.
#include "files/atomic_file.h"

#include <algorithm>
#include <csignal>
#include <files.h>
#include <filesystem>
#include <functional>
#include <map>
#include <message_of.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/csv.h>
#include <heddle/default_engine.h>
#include <heddle/engine.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/safetensors.h>

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr rlim_t kMost = 4096;  // limit on the bytes that a child may write to a file

// Starts a child process that runs save(), and is stopped in the write that exceeds kMost bytes.
pid_t stopped_child(const std::function<void()>& save) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, [](int) { raise(SIGSTOP); });
    const rlimit limit{kMost, kMost};
    setrlimit(RLIMIT_FSIZE, &limit);
    save();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

std::vector<std::string> names_in(const TemporaryDirectory& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

void save_text(const std::string& path, std::size_t length) {
  save_safetensors(path, {.arrays = {}, .metadata = {{"text", std::string(length, 'x')}}});
}

// Kills a save midway; returns the name of the temporary file that it leaves.
std::string leave_one(const TemporaryDirectory& directory, const std::string& name) {
  const Names before = names_in(directory);
  end(stopped_child([&] { save_text(directory.file(name), 2 * kMost); }));
  for (const std::string& left : names_in(directory)) {
    if (std::find(before.begin(), before.end(), left) == before.end()) return left;
  }
  FAIL("a killed save has left nothing");
  return {};
}

}  // namespace

TEST_CASE(
    "what a save that was killed has left is removed by the next save to that name, and not before it is "
    "dead") {
  const std::function<void(const std::string&, std::int64_t)> saves[] = {
      [](const std::string& path, std::int64_t count) { save_text(path, static_cast<std::size_t>(count)); },
      [](const std::string& path, std::int64_t count) {
        Engine engine({.scheduler = Scheduler::naive});
        const EngineScope scope(engine);
        save_safetensors(path, {.arrays = {{"ones", ones({count})}}, .metadata = {}});
      },
      [](const std::string& path, std::int64_t count) {
        Engine engine({.scheduler = Scheduler::naive});
        const EngineScope scope(engine);
        save_npy(path, ones({count}));
      }};
  for (const auto& save : saves) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("state");
    const pid_t child = stopped_child([&] { save(path, 2 * kMost); });
    const Names midway = names_in(directory);
    REQUIRE(midway.size() == 1);
    CHECK(midway[0].starts_with("state.tmp-"));
    CHECK(std::filesystem::file_size(directory.path / midway[0]) == kMost);

    save(path, 1);  // leaves the stopped process's temporary file, since that process is still alive
    CHECK(names_in(directory) == Names{"state", midway[0]});
    end(child);
    save(directory.file("other"), 1);
    CHECK(names_in(directory) == Names{"other", "state", midway[0]});
    save(path, 2);
    CHECK(names_in(directory) == Names{"other", "state"});
  }
}

TEST_CASE("what is not left by a killed save of this name, user and host stays") {
  const TemporaryDirectory directory;
  const std::string left = leave_one(directory, "state");
  // The prefix of the names of temporary files of this host: state.tmp-HOST-
  const std::string ours = left.substr(0, left.find('-', left.find(".tmp-") + 5) + 1);
  Names kept = {"state", "state2.tmp-00000000-7-0", "state.tmp-00000000-7-0", "state.tmp-7-0"};
  for (const std::string end : {"7", "7-", "-7", "7-0-1", "7-x", "x-0", ""}) kept.push_back(ours + end);
  for (const std::string& name : kept) write_file(directory.file(name), "mine");
  std::filesystem::create_directory(directory.path / (ours + "8-0"));
  std::filesystem::create_symlink("state2.tmp-00000000-7-0", directory.path / (ours + "8-1"));
  REQUIRE(mkfifo(directory.file(ours + "8-2").c_str(), 0600) == 0);
  for (int i = 0; i < 3; ++i) kept.push_back(ours + "8-" + std::to_string(i));
  if (geteuid() == 0) {
    const std::string others = ours + "9-0";
    write_file(directory.file(others), "theirs");
    REQUIRE(chown(directory.file(others).c_str(), 1, 1) == 0);
    kept.push_back(others);
  }
  // A temporary file that the next save must remove: it has this process's id, but another start time, so it
  // is of a dead process.
  write_file(directory.file(ours + std::to_string(getpid()) + "-4000000000"), "stale");
  save_text(directory.file("state"), 1);
  std::sort(kept.begin(), kept.end());
  CHECK(names_in(directory) == kept);
}

TEST_CASE("names that are taken do not hinder a save: in containers process numbers repeat themselves") {
  const TemporaryDirectory directory;
  const std::string left = leave_one(directory, "state");
  const std::string ours =
      left.substr(0, left.find('-', left.find(".tmp-") + 5) + 1) + std::to_string(getpid());
  for (int i = 0; i < 1000; ++i)
    std::filesystem::create_directory(directory.path / (ours + "-" + std::to_string(i)));
  for (int i = 0; i < 3; ++i) save_text(directory.file("state"), 1);
  CHECK(load_safetensors_metadata(directory.file("state")).at("text") == "x");
}

TEST_CASE("savers of one name at the same time remove nothing of each other") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("state");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int failures = 0;
      for (int round = 0; round < 50; ++round) {
        try {
          save_text(path, 10);
        } catch (...) {
          ++failures;
        }
      }
      _exit(failures);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(names_in(directory) == Names{"state"});
}

namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

using Save = std::function<void(const std::string& path)>;
const std::map<std::string, Save> kSaves = {
    {"npy", [](const std::string& path) { save_npy(path, ones({2})); }},
    {"npz",
     [](const std::string& path) {
       save_npz(path, {{"x", ones({2})}});
     }},
    {"empty npz", [](const std::string& path) { save_npz(path, {}); }},
    {"csv", [](const std::string& path) { save_csv(path, ones({2})); }},
    {"safetensors", [](const std::string& path) {
       save_safetensors(path, {.arrays = {{"x", ones({2})}}, .metadata = {}});
     }}};

}  // namespace

TEST_CASE("a file that is saved over another one keeps its permissions; a new one has those of the umask") {
  for (const auto& [name, save] : kSaves) {
    CAPTURE(name);
    const TemporaryFile file;
    const mode_t umask_before = ::umask(022);
    save(file.path);
    CHECK(mode_of(file.path) == 0644);
    for (const mode_t mode : {0640U, 0600U, 0664U, 0755U}) {
      REQUIRE(::chmod(file.path.c_str(), mode) == 0);
      save(file.path);
      CHECK(mode_of(file.path) == mode);
    }
    ::umask(umask_before);
  }
}

TEST_CASE("a private file does not take over that others may read the one before") {
  const TemporaryFile file;
  write_file(file.path, "old");
  REQUIRE(::chmod(file.path.c_str(), 0664) == 0);
  AtomicFile secret(file.path, 0600);
  secret.write("new", 3);
  secret.commit();
  CHECK(mode_of(file.path) == 0600);
}

TEST_CASE("a path with a zero byte is refused, and nothing is saved or read at the path before it") {
  const TemporaryDirectory directory;
  const std::string cut = directory.file("file"), path = cut + std::string(1, '\0') + "more";
  const auto check = [&](const std::function<void()>& call) {
    CHECK(message_of<InvalidArgument>(call).ends_with(": the path '" + path.substr(0, path.find('\0')) +
                                                      "' goes on behind a zero byte, which no path has"));
  };
  for (const auto& [name, save] : kSaves) {
    CAPTURE(name);
    check([&, &save = save] { save(path); });
  }
  CHECK(names_in(directory).empty());
  write_file(cut, "x");
  check([&] { load_npy(path); });
  check([&] { map_npy(path); });
  check([&] { load_npz(path); });
  check([&] { load_csv(path); });
  check([&] { load_safetensors(path); });
  check([&] { map_safetensors(path); });
  check([&] { load_safetensors_metadata(path); });
}

TEST_CASE("a symbolic link stays, and what it points to is replaced") {
  for (const auto& [name, save] : kSaves) {
    CAPTURE(name);
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.file("folder"));
    const std::string link = directory.file("link"), second = directory.file("second"),
                      target = directory.file("folder/target");
    std::filesystem::create_symlink("folder/target", link);
    std::filesystem::create_symlink("link", second);
    save(second);  // the target does not exist yet
    CHECK(std::filesystem::is_symlink(link));
    CHECK(std::filesystem::is_symlink(second));
    REQUIRE(std::filesystem::is_regular_file(std::filesystem::symlink_status(target)));
    const auto size = std::filesystem::file_size(target);
    write_file(target, "old");
    save(link);
    CHECK(std::filesystem::is_symlink(link));
    CHECK(std::filesystem::file_size(target) == size);
  }
}

TEST_CASE("a pipe is written to, and stays") {
  for (const auto& [name, save] : kSaves) {
    CAPTURE(name);
    const TemporaryDirectory directory;
    const std::string pipe = directory.file("pipe"), file = directory.file("file");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    if (name == "npz") {  // which is not written from front to back
      CHECK(message_of<Error>([&, &save = save] { save(pipe); }).find("is a device or a pipe") !=
            std::string::npos);
      CHECK(std::filesystem::is_fifo(pipe));
      continue;
    }
    save(file);
    std::string read;
    std::thread reader([&] { read = read_file(pipe); });
    save(pipe);
    reader.join();
    CHECK(std::filesystem::is_fifo(pipe));
    CHECK(read == read_file(file));
  }
}
