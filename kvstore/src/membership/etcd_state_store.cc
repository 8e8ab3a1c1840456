#include "membership/etcd_state_store.h"

#include <utility>

namespace heddle::kv_detail {

// The time limit of a request is a fraction of the lease's time, so that several requests may fail before it
// ends.
EtcdStateStore::EtcdStateStore(const EtcdOptions& options, int servers, const std::string& address,
                               std::function<void()> wake)
    : client_(options, options.lease / kRenewals),
      store_(client_,
             {.prefix = options.prefix,
              .address = address,
              .servers = static_cast<std::uint32_t>(servers),
              .lease = options.lease},
             &std::chrono::steady_clock::now, std::move(wake)),
      thread_([this] { loop(); }) {}

EtcdStateStore::~EtcdStateStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::uint64_t EtcdStateStore::save(std::uint64_t term, const SchedulerState& state) {
  const std::uint64_t number = store_.save(term, state);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return number;
}

void EtcdStateStore::loop() {
  for (;;) {
    const std::uint64_t asked = store_.asked();
    const StateStore::Time next = store_.step();
    std::unique_lock lock(mutex_);
    if (store_.is_good())
      changed_.wait_until(lock, next, [&] { return stopping_ || store_.asked() != asked; });
    else
      changed_.wait(lock, [this] { return stopping_; });
    if (stopping_) break;
  }
  store_.resign();
}

}  // namespace heddle::kv_detail
