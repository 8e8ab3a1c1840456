// An ElectedKeeper in etcd, with the thread that waits for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <heddle/etcd.h>

#include "membership/elected_keeper.h"
#include "membership/etcd_client.h"

namespace heddle::kv_detail {

class EtcdKeeper final : public StateKeeper {
 public:
  // `servers`: how many the cluster has; `address`: of this scheduler. `wake` is called on the keeper's thread when there is
  // something new. Throws InvalidArgument.
  EtcdKeeper(const EtcdOptions& options, int servers, const std::string& address, std::function<void()> wake);
  ~EtcdKeeper() override;  // another scheduler may lead at once

  std::uint64_t term(Time now) override { return keeper_.term(now); }
  std::optional<SchedulerState> state() override { return keeper_.state(); }
  std::uint64_t save(std::uint64_t term, const SchedulerState& state) override;
  std::uint64_t saved() override { return keeper_.saved(); }
  std::vector<ServerEvent> take_events() override { return keeper_.take_events(); }

 private:
  void loop();

  EtcdClient client_;
  ElectedKeeper keeper_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace heddle::kv_detail
