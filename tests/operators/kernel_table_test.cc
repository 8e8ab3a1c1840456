#include "core/kernel_table.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>

namespace heddle {

namespace {

using Kernel = int(int);
int doubled(int x) { return 2 * x; }

}  // namespace

TEST_CASE("a kernel is found by operator and device") {
  KernelTable table;
  table.add<Kernel>("double", DeviceKind::cpu, doubled);
  CHECK(table.find<Kernel>("double", DeviceKind::cpu)(4) == 8);
}

TEST_CASE("any number of addresses of names is known, on all threads") {
  KernelTable table;
  table.add<Kernel>("double", DeviceKind::cpu, doubled);
  const std::vector<std::string> names(4000, "double");  // more names than the table caches
  std::atomic<int> wrong{0};
  const auto look = [&] {
    for (int round = 0; round < 2; ++round) {
      for (const std::string& name : names) {
        if (table.find<Kernel>(name.c_str(), DeviceKind::cpu) != doubled) ++wrong;
      }
    }
  };
  std::thread other(look);
  look();
  other.join();
  CHECK(wrong == 0);
  CHECK_THROWS_AS(table.find<void(int)>(names[0].c_str(), DeviceKind::cpu), Error);
  CHECK_THROWS_AS(table.find<Kernel>(names[0].c_str(), DeviceKind::cuda), Error);
}

TEST_CASE("a missing, doubled or mistyped kernel says so") {
  KernelTable table;
  table.add<Kernel>("double", DeviceKind::cpu, doubled);
  CHECK_THROWS_WITH_AS(table.find<Kernel>("double", DeviceKind::cuda),
                       "double has no cuda kernel in this build", Error);
  CHECK_THROWS_WITH_AS(table.find<Kernel>("triple", DeviceKind::cpu),
                       "triple has no cpu kernel in this build", Error);
  CHECK_THROWS_WITH_AS(table.find<void(int)>("double", DeviceKind::cpu),
                       "double: its cpu kernel was registered with another type", Error);
  CHECK_THROWS_WITH_AS(table.add<Kernel>("double", DeviceKind::cpu, doubled), "double has two cpu kernels",
                       Error);
}

TEST_CASE("this build has the kernels of the CPU") {
  CHECK_THROWS_AS(kernels().find<Kernel>("add", DeviceKind::cpu), Error);
  CHECK_THROWS_WITH(kernels().find<Kernel>("no such operator", DeviceKind::cpu),
                    "no such operator has no cpu kernel in this build");
}

}  // namespace heddle
