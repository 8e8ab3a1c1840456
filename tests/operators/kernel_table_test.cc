#include "core/kernel_table.h"

#include <string>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "families/elementwise/kernels.h"

namespace heddle {

namespace {

using OfInt = int(int);
int doubled(int x) { return 2 * x; }

}  // namespace

TEST_CASE("a kernel is found by operator and device") {
  KernelTable table;
  table.add<OfInt>("double", DeviceKind::cpu, doubled);
  CHECK(table.find<OfInt>("double", DeviceKind::cpu)(4) == 8);
  // A kernel is found by the text of its name, not by the address of the text.
  CHECK(table.find<OfInt>(std::string("double"), DeviceKind::cpu)(4) == 8);
}

TEST_CASE("a missing, doubled or mistyped kernel says so") {
  KernelTable table;
  table.add<OfInt>("double", DeviceKind::cpu, doubled);
  CHECK_THROWS_WITH_AS(table.find<OfInt>("double", DeviceKind::cuda),
                       "double has no cuda kernel in this build", Error);
  CHECK_THROWS_WITH_AS(table.find<OfInt>("triple", DeviceKind::cpu), "triple has no cpu kernel in this build",
                       Error);
  CHECK_THROWS_WITH_AS(table.find<void(int)>("double", DeviceKind::cpu),
                       "double: its cpu kernel was registered with another type", Error);
  CHECK_THROWS_WITH_AS(table.add<OfInt>("double", DeviceKind::cpu, doubled), "double has two cpu kernels",
                       Error);
}

TEST_CASE("this build has the kernels of the CPU") {
  CHECK_THROWS_AS(kernels().find<OfInt>("add", DeviceKind::cpu), Error);
  CHECK_THROWS_WITH(kernels().find<OfInt>("no such operator", DeviceKind::cpu),
                    "no such operator has no cpu kernel in this build");
}

TEST_CASE("a kernel that was looked up once is that of the table") {
  const Kernel<BinaryKernel> add("add");
  CHECK(std::string(add.op()) == "add");
  const bool same = add.on(DeviceKind::cpu) == kernels().find<BinaryKernel>("add", DeviceKind::cpu);
  CHECK(same);
  CHECK_THROWS_WITH(add.on(DeviceKind::cpu_pinned), "add has no cpu_pinned kernel in this build");
  CHECK_THROWS_WITH(Kernel<BinaryKernel>("no such operator"),
                    "no such operator has no cpu kernel in this build");
}

}  // namespace heddle
