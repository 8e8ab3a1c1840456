// Limits of a process, affinity and cgroup quotas, read from the files of a fake system.
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/usable_cores.h>

#include "files.h"
#include "one_core.h"

using namespace heddle;

namespace {

double quota_with(std::initializer_list<std::pair<std::string, std::string>> files) {
  const test::TemporaryDirectory root;
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((root.path / name).parent_path());
    test::write_file(root.file(name), text);
  }
  return usable_cores(root.path.string()).by_quota;
}

}  // namespace

TEST_CASE("the quota of control groups, version 2: the tightest from the process's own to the top") {
  const std::string group = "sys/fs/cgroup/kubepods/pod7/main/cpu.max";
  const std::string of_process = "proc/self/cgroup";
  CHECK(quota_with({}) == 0);
  CHECK(quota_with({{of_process, "0::/\n"}}) == 0);
  CHECK(quota_with({{of_process, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}) == 0);
  CHECK(quota_with({{of_process, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}}) == 1.5);
  CHECK(quota_with({{of_process, "0::/kubepods/pod7/main\n"}, {group, "400000 100000\n"}}) == 4);
  CHECK(quota_with({{of_process, "0::/kubepods/pod7/main\n"},
                    {group, "max 100000\n"},
                    {"sys/fs/cgroup/kubepods/pod7/cpu.max", "300000 100000\n"},
                    {"sys/fs/cgroup/kubepods/cpu.max", "1600000 100000\n"}}) == 3);
  // The process is in a container: the path of its group is that of the host, and does not exist in the
  // container.
  CHECK(quota_with({{of_process, "0::/kubepods/pod7/main\n"}, {"sys/fs/cgroup/cpu.max", "50000 100000\n"}}) ==
        0.5);
}

TEST_CASE("the quota of control groups, version 1, and both") {
  const std::string of_process = "proc/self/cgroup", both = "sys/fs/cgroup/cpu,cpuacct/job/";
  CHECK(quota_with({{of_process, "9:cpuset:/\n4:cpu,cpuacct:/job\n"},
                    {both + "cpu.cfs_quota_us", "250000\n"},
                    {both + "cpu.cfs_period_us", "100000\n"}}) == 2.5);
  CHECK(quota_with({{of_process, "4:cpu,cpuacct:/job\n"},
                    {both + "cpu.cfs_quota_us", "-1\n"},
                    {both + "cpu.cfs_period_us", "100000\n"}}) == 0);
  CHECK(quota_with({{of_process, "4:cpu,cpuacct:/job\n"},
                    {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n"},
                    {"sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n"}}) == 1);
  CHECK(quota_with({{of_process, "4:cpuacct,cpu:/job:1/step\n"},
                    {"sys/fs/cgroup/cpu/job:1/cpu.cfs_quota_us", "350000\n"},
                    {"sys/fs/cgroup/cpu/job:1/cpu.cfs_period_us", "100000\n"}}) == 3.5);
  CHECK(quota_with({{of_process, "1:cpuset:/job\n"},
                    {"sys/fs/cgroup/cpuset/job/cpu.cfs_quota_us", "50000\n"},
                    {"sys/fs/cgroup/cpuset/job/cpu.cfs_period_us", "50000\n"}}) == 0);
  CHECK(quota_with({{of_process, "1:cpu:/job\n0::/unit\n"},
                    {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n"},
                    {"sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"},
                    {"sys/fs/cgroup/unified/unit/cpu.max", "200000 100000\n"}}) == 2);
}

TEST_CASE("files that make no sense limit nothing") {
  const std::string of_process = "proc/self/cgroup", limit = "sys/fs/cgroup/cpu.max";
  for (const char* text : {"", "max", "-1 100000", "0 100000", "100000 0", "many 100000", "100000"}) {
    CAPTURE(text);
    CHECK(quota_with({{of_process, "0::/\n"}, {limit, text}}) == 0);
  }
  for (const char* text : {"", "\n", "::", "0:", "0::\n", "0", "no slash", "0::relative\n"}) {
    CAPTURE(text);
    CHECK(quota_with({{of_process, text}}) == 0);
  }
}

TEST_CASE("threads that can compute at once") {
  CHECK(UsableCores{.online = 8, .by_affinity = 4}.count() == 4);
  CHECK(UsableCores{.online = 8, .by_affinity = 4, .by_quota = 1.5}.count() == 2);
  CHECK(UsableCores{.online = 8, .by_affinity = 4, .by_quota = 0.1}.count() == 1);
  CHECK(UsableCores{.online = 8, .by_affinity = 4, .by_quota = 64}.count() == 4);
  CHECK(UsableCores{.online = 8, .by_affinity = 0}.count() == 1);
}

TEST_CASE("an engine has a worker for each core that it may use") {
  const UsableCores here = usable_cores();
  CHECK(here.by_affinity >= 1);
  CHECK(Engine(EngineOptions{}).workers() == here.count());
  test::on_one_core([] {
    CHECK(usable_cores().by_affinity == 1);
    CHECK(Engine(EngineOptions{}).workers() == 1);
  });
}
