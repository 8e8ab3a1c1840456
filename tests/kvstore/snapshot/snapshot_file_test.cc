// Snapshot files are written completely or not at all, and are read only if every byte is intact.
#include "snapshot/snapshot_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "files.h"
#include "message_of.h"
#include "snapshot/background_writer.h"
#include "snapshot/snapshot_folder.h"
#include "transport/recorder.h"
#include "wire/messages.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::net_detail;
using heddle::test::bytes_from;
using heddle::test::message_of;
using heddle::test::read_file;
using heddle::test::text_from;
using heddle::test::write_file;

namespace {

const SnapshotHeader kHeader{
    .number = 1,
    .servers = 2,
    .sequence = 17,
    .incarnation = 99,
    .time = std::chrono::system_clock::time_point(std::chrono::seconds(1'800'000'000))};

using Texts = std::vector<std::pair<std::string, std::string>>;
const Texts kMessages = {{"first", ""}, {"second", "payload"}, {"", std::string(3000, 'x')}, {"end", ""}};

void write_snapshot(const std::string& path, const Texts& messages, const SnapshotHeader& header = kHeader) {
  SnapshotWriter writer(path, header);
  for (const auto& [head, payload] : messages) writer.add(bytes_from(head), bytes_from(payload));
  const std::uint64_t bytes = writer.commit();
  CHECK(bytes == std::filesystem::file_size(path));
}

Texts read_snapshot(const std::string& path) {
  SnapshotReader reader(path);
  Texts all;
  std::vector<std::byte> head, payload;
  while (reader.next(head, payload)) all.emplace_back(text_from(head), text_from(payload));
  return all;
}

std::string problem_of(const std::string& path) {
  return message_of<SnapshotError>([&] { read_snapshot(path); });
}

std::vector<SavedMessage> saved(const std::string& text, std::size_t count) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes_from(text));
  std::vector<SavedMessage> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({bytes_from(std::to_string(i)), {owner, *owner}});
  return all;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& one : std::filesystem::directory_iterator(folder))
    all.push_back(one.path().filename().string());
  return all;
}

}  // namespace

TEST_CASE("snapshot file: what is written is read") {
  const test::TemporaryFile file;
  write_snapshot(file.path, kMessages);
  CHECK(read_snapshot(file.path) == kMessages);
  const SnapshotReader reader(file.path);
  CHECK(reader.header().number == 1);
  CHECK(reader.header().servers == 2);
  CHECK(reader.header().sequence == 17);
  CHECK(reader.header().incarnation == 99);
  CHECK(utc_text(reader.header().time) == "2027-01-15T08:00:00Z");
}

TEST_CASE("snapshot file: messages that are longer than its buffers") {
  const test::TemporaryFile file;
  const Texts messages = {
      {"a", test::pattern(kPieceBytes, 1)}, {"b", test::pattern(kPieceBytes - 1, 2)}, {"c", "x"}};
  write_snapshot(file.path, messages);
  CHECK(read_snapshot(file.path) == messages);
}

TEST_CASE("snapshot file: each byte that is changed is found, and the file and the place are named") {
  const test::TemporaryFile file;
  write_snapshot(file.path, kMessages);
  const std::string good = read_file(file.path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    write_file(file.path, bad);
    const std::string why = problem_of(file.path);
    CHECK(why.starts_with(file.path + ", byte "));
  }
}

TEST_CASE("snapshot file: one that is cut anywhere, or has bytes too many, is refused") {
  const test::TemporaryFile file;
  write_snapshot(file.path, kMessages);
  const std::string good = read_file(file.path);
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    write_file(file.path, good.substr(0, length));
    CHECK(problem_of(file.path).find("the file is torn") != std::string::npos);
  }
  write_file(file.path, good + "x");
  CHECK(problem_of(file.path).ends_with("1 bytes follow its end"));
  CHECK(problem_of(file.path + "-") == file.path + "- cannot be opened: No such file or directory");
}

TEST_CASE("snapshot file: messages of another snapshot in the place of one's own are found") {
  const test::TemporaryDirectory folder;
  const Texts others = {{"first", ""}, {"second", "PAYLOAD"}, {"", std::string(3000, 'x')}, {"end", ""}};
  write_snapshot(folder.file("a"), kMessages);
  write_snapshot(folder.file("b"), others);
  const std::string a = read_file(folder.file("a")), b = read_file(folder.file("b"));
  REQUIRE(a.size() == b.size());
  write_file(folder.file("c"), a.substr(0, 500) + b.substr(500));
  const std::string why = problem_of(folder.file("c"));
  CAPTURE(why);
  CHECK(why.ends_with("some are of another snapshot"));
}

TEST_CASE("snapshot folder: names, order, and what is removed") {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path.string();
  CHECK(snapshot_path(path, 1, 3, 17) == folder.file("server-1-of-3-00000017.snapshot"));
  for (const std::uint64_t sequence : {3, 9, 10, 123'456'789})
    write_file(snapshot_path(path, 0, 2, sequence), "");
  write_file(snapshot_path(path, 1, 2, 5), "");
  for (const char* name : {"server-0-of-2-7.snapshot.tmp-0-1-2", "server-x-of-2-1.snapshot", "notes",
                           "server-0-of-2-00000001.snapshot.tmp-abc-12-0"})
    write_file(folder.file(name), "");
  std::vector<std::uint64_t> sequences;
  for (const SnapshotName& one : snapshots_of(path, 0, 2)) sequences.push_back(one.sequence);
  CHECK(sequences == std::vector<std::uint64_t>{123'456'789, 10, 9, 3});
  remove_old_snapshots(path, 0, 2, 2);
  CHECK(snapshots_of(path, 0, 2).size() == 2);
  CHECK(snapshots_of(path, 1, 2).size() == 1);
  CHECK(names_in(path).size() == 5);
  CHECK_THROWS_AS(snapshots_in(folder.file("missing")), Error);
}

TEST_CASE("snapshot folder: one process at a time writes the snapshots of a server") {
  const test::TemporaryDirectory folder;
  const SnapshotLock first(folder.file("deep/folder"), 0, 2);
  const SnapshotLock other(folder.file("deep/folder"), 1, 2);
  CHECK(message_of<Error>([&] { SnapshotLock(folder.file("deep/folder"), 0, 2); }) ==
        "another process writes snapshots of server 0 of 2 to " + folder.file("deep/folder") +
            "; each needs a folder or a number of its own");
}

TEST_CASE("snapshot: a full disk leaves the snapshots that there are, and says so") {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path.string();
  {
    BackgroundWriter writer(path, {.sequence = 1}, 3);
    writer.add(saved("small", 1));
    writer.complete();
    CHECK(writer.wait().error == "");
  }
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string error;
  {
    BackgroundWriter writer(path, {.sequence = 2}, 3);
    writer.add(saved(std::string(2000, 'x'), 1000));
    writer.complete();
    error = writer.wait().error;
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(error == "file '" + snapshot_path(path, 0, 1, 2) + "' cannot be written: File too large");
  CHECK(names_in(path).size() == 1);
  CHECK(read_snapshot(snapshot_path(path, 0, 1, 1)).size() == 1);
}

TEST_CASE("snapshot: values are released once they are written, on the thread that gave them") {
  const test::TemporaryDirectory folder;
  auto state = saved("value", 100);
  const std::weak_ptr<const void> value = state[0].payload.owner;
  BackgroundWriter writer(folder.path.string(), {.sequence = 1}, 1);
  writer.add(std::move(state));
  writer.complete();
  while (!writer.go_on()) std::this_thread::yield();
  writer.go_on();
  CHECK(value.expired());
  CHECK(writer.wait().error == "");
  CHECK(read_snapshot(writer.wait().path).size() == 100);
}

TEST_CASE("snapshot: parts that come one after the other are one file, and one that is given up is none") {
  const test::TemporaryDirectory folder;
  {
    BackgroundWriter writer(folder.path.string(), {.sequence = 1}, 1);
    for (int i = 0; i < 10; ++i) writer.add(saved("value " + std::to_string(i), 3));
    writer.complete();
    CHECK(read_snapshot(writer.wait().path).size() == 30);
  }
  {
    BackgroundWriter writer(folder.path.string(), {.sequence = 2}, 1);
    writer.add(saved("value", 3));
  }
  CHECK(names_in(folder.path.string()).size() == 1);
}

// Kills a process while it writes snapshots, again and again.
TEST_CASE("snapshot: a writer that is killed at any moment leaves a good newest snapshot") {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path.string();
  std::mt19937 random(1);
  std::uint64_t newest = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::uint64_t sequence = newest + 1;; ++sequence) {
        SnapshotWriter writer(snapshot_path(path, 0, 1, sequence), {.sequence = sequence});
        const std::vector<std::byte> piece(100'000, static_cast<std::byte>(sequence));
        for (int part = 0; part < 30; ++part) writer.add(bytes_from("head"), piece);
        writer.commit();
        remove_old_snapshots(path, 0, 1, 3);
      }
    }
    while (i == 0 && snapshots_of(path, 0, 1).empty()) ::usleep(1000);
    ::usleep(random() % 60'000);
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const std::vector<SnapshotName> all = snapshots_of(path, 0, 1);
    for (const SnapshotName& one : all) CHECK(read_snapshot(one.path).size() == 30);
    if (!all.empty()) newest = all.front().sequence;
  }
  CHECK(newest > 0);
  remove_old_snapshots(path, 0, 1, 1);
  CHECK(names_in(path).size() == 1);
}
