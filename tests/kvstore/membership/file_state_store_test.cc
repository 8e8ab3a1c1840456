// A scheduler's state file on a disk that fails for a while.
#include "membership/file_state_store.h"

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>

#include "client/wait_notice.h"
#include "files.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> names(const std::vector<ServerEvent>& events) {
  std::vector<std::string> all;
  for (const ServerEvent& event : events) all.push_back(event.name);
  return all;
}

}  // namespace

TEST_CASE("a state that cannot be saved is saved later, and what was decided is held until then") {
  const TemporaryDirectory directory;
  const std::string folder = directory.file("state"), away = directory.file("away");
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/scheduler.state";
  FileStateStore store(path);
  const SchedulerState first{.cluster = 1}, second{.cluster = 2}, third{.cluster = 3};
  CHECK(store.saved() == store.save(1, first));
  CHECK(store.take_events().empty());

  std::filesystem::rename(folder, away);  // from now on writes fail, as on a full disk
  const auto begun = std::chrono::steady_clock::now();
  const std::uint64_t number = store.save(1, second);
  CHECK(store.saved() < number);
  CHECK(names(store.take_events()) == std::vector<std::string>{"state_not_saved"});
  const std::uint64_t newest = store.save(1, third);
  CHECK(store.term(begun + 2s) == 1);
  CHECK(store.saved() < number);
  CHECK(store.take_events().empty());  // the failure is logged once, not for each attempt

  std::filesystem::rename(away, folder);
  CHECK(store.term(begun + 2100ms) == 1);  // the store does not try again yet
  CHECK(store.saved() < number);
  CHECK(store.term(begun + 4s) == 1);
  CHECK(store.saved() == newest);
  CHECK(names(store.take_events()) == std::vector<std::string>{"state_saved"});
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("without a file a state is saved at once") {
  FileStateStore store("");
  CHECK(store.saved() == store.save(1, {}));
  CHECK(!store.state());
}

TEST_CASE("who waits is told after 5 s, and then every 15 s") {
  WaitNotice notice;
  CHECK(!notice.due(4s));
  CHECK(notice.due(5s));
  CHECK(!notice.due(19s));
  CHECK(notice.due(21s));
  CHECK(!notice.due(1s));  // a shorter time than before means that another wait has begun
  CHECK(notice.due(6s));
}
