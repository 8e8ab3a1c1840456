// Collectives of arrays on the emulated GPU, with NCCL's functions over host memory in NCCL's place.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/ndarray.h>

#include "../../gpu_arrays/problems.h"
#include "device/host_nccl.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("a collective into fresh arrays makes no host wait") {
  const HostNccl library(8, DeviceKind::cuda);
  std::uint64_t waits = 0;
  run_job("nccl", 1, {}, [&](Communicator& comm) {
    REQUIRE(comm.device() == gpu(0));
    const NDArray x = full({1000}, 3, DType::f32, gpu(0));
    x.wait();
    for (int round = 0; round < 2; ++round) {  // the first one makes streams
      const std::uint64_t before = host_waits();
      NDArray sum({1000}, DType::f32, gpu(0));
      comm.all_reduce(x, sum);
      sum.wait();
      waits = host_waits() - before;
      CHECK(sum.to_vector<float>() == std::vector<float>(1000, 3));
      sum = NDArray();
      comm.wait();
    }
  });
  CHECK(waits == 0);
  CHECK(problems() == "");
}

TEST_CASE("NCCL is told not to use arrays of other ranks directly if ranks share a process") {
  const HostNccl library(8, DeviceKind::cuda);
  const auto direct_disabled = [] {
    const char* const value = std::getenv("NCCL_P2P_DIRECT_DISABLE");
    return std::string(value ? value : "");
  };
  REQUIRE(direct_disabled() == "");
  run_job("nccl", 1, {}, [](Communicator&) {});
  CHECK(direct_disabled() == "");
  run_job("nccl", 2, {}, [](Communicator&) {});
  CHECK(direct_disabled() == "1");
}
