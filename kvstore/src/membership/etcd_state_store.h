// An ElectedStateStore in etcd, with the thread that calls its step().
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <heddle/etcd.h>

#include "membership/elected_state_store.h"
#include "membership/etcd_client.h"

namespace heddle::kv_detail {

class EtcdStateStore final : public StateStore {
 public:
  // `servers`: number of servers of the cluster. `address`: address of this scheduler. `wake` is called on
  // the thread of this object when there are new events, or a save is done. Throws InvalidArgument for
  // invalid options.
  EtcdStateStore(const EtcdOptions& options, int servers, const std::string& address,
                 std::function<void()> wake);
  ~EtcdStateStore() override;  // resigns: another scheduler may lead at once

  std::uint64_t term(Time now) override { return store_.term(now); }
  std::optional<SchedulerState> state() override { return store_.state(); }
  std::uint64_t save(std::uint64_t term, const SchedulerState& state) override;
  std::uint64_t saved() override { return store_.saved(); }
  std::vector<ServerEvent> take_events() override { return store_.take_events(); }

 private:
  void loop();

  EtcdClient client_;
  ElectedStateStore store_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace heddle::kv_detail
