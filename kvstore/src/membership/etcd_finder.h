// Finds the leading scheduler in etcd, on a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "membership/etcd_client.h"
#include "membership/scheduler_finder.h"

namespace heddle::kv_detail {

class EtcdFinder final : public SchedulerFinder {
 public:
  explicit EtcdFinder(const EtcdOptions& options);  // throws InvalidArgument for invalid options
  ~EtcdFinder() override;
  void look() override;
  std::optional<SchedulerFound> answer() override;

 private:
  void loop();
  SchedulerFound found();

  const EtcdOptions options_;
  EtcdClient client_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool wanted_ = false, stopping_ = false;
  std::optional<SchedulerFound> answer_;
  std::thread thread_;
};

}  // namespace heddle::kv_detail
