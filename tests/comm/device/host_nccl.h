// What takes NCCL's place where there is no GPU: its functions over the memory of this process, on streams of cpu(i).
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

// As NCCL does, it waits for ever if ranks do not start the same, and knows of others' deaths nothing. While there is
// one, it is what the back end nccl uses. Its device i is cpu(i + 1): arrays on cpu(0) stay the network's.
class HostNccl final : public comm_detail::DeviceLibrary {
 public:
  explicit HostNccl(int devices = 8);
  ~HostNccl() override;
  std::string version() override { return "host"; }
  int devices() override { return devices_; }
  Device device(int index) override { return cpu(index + 1); }
  std::string place_of(Device device) override { return one_place ? "slot" : device.to_string(); }
  std::string new_id() override;
  std::unique_ptr<comm_detail::DeviceRanks> join(const std::string& id, int rank, int size,
                                                 Device device) override;

  bool one_place = false;  // all devices are the same piece of hardware
  bool careless = false;   // what ranks reduce by may differ: the result is what it happens to be
  bool no_ids = false;     // new_id throws
  bool alone = false;      // the other ranks are never there: what is started does not end but by abort()
  std::atomic<int> sick_rank{-1};  // whose library says that something has gone wrong
  std::atomic<int> starts{0};      // collectives put on a stream
  std::atomic<int> aborts{0};      // communicators that were ended so

 private:
  const int devices_;
  comm_detail::DeviceLibrary* before_;
  std::mutex mutex_;  // guards the two below
  int ids_ = 0;
  std::map<std::string, std::shared_ptr<HostWorld>> worlds_;
};

}  // namespace heddle::test
