// A replacement for NCCL on hosts without a GPU: its functions over this process's memory, on streams of
// cpu(i).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/device_ranks.h"
#include "device/nccl_backend.h"

namespace heddle::test {

struct HostWorld;

// Behaves like NCCL: ranks that start different collectives wait for ever, and nobody notices the death of a
// rank. While this object exists the back end nccl uses it. The library's device i is cpu(i + 1), or gpu(i) of the emulated GPU,
// whose memory the host may then touch (protect=0) and whose streams have threads (stepped=0); arrays on cpu(0) go over the network.
class HostNccl final : public comm_detail::DeviceLibrary {
 public:
  explicit HostNccl(int devices = 8, DeviceKind kind = DeviceKind::cpu);
  ~HostNccl() override;
  std::string version() override { return "host"; }
  int devices() override { return devices_; }
  Device device(int index) override { return kind_ == DeviceKind::cuda ? gpu(index) : cpu(index + 1); }
  std::string place_of(Device device) override { return one_place ? "slot" : device.to_string(); }
  std::string new_id() override;
  std::unique_ptr<comm_detail::DeviceRanks> join(const std::string& id, int rank, int size,
                                                 Device device) override;

  bool one_place = false;  // true: all devices count as one piece of hardware
  // True: ranks may start collectives with different reduce ops; the result is arbitrary.
  bool careless = false;
  bool no_ids = false;  // true: new_id() throws
  // True: joining does not wait for other ranks, which never come, so collectives end only by abort().
  bool alone = false;
  std::atomic<int> sick_rank{-1};  // the rank for which the library reports an error; -1: none
  std::atomic<int> starts{0};      // number of collectives that ranks have put on a stream
  std::atomic<int> aborts{0};      // number of ranks that have ended by abort()

 private:
  const int devices_;
  const DeviceKind kind_;
  comm_detail::DeviceLibrary* before_;
  std::mutex mutex_;  // guards the members below
  int ids_ = 0;
  std::map<std::string, std::shared_ptr<HostWorld>> worlds_;
};

}  // namespace heddle::test
