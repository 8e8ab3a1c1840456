#include "membership/etcd_finder.h"

#include "membership/leadership.h"
#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::chrono::milliseconds kLimit{1000};

}  // namespace

EtcdFinder::EtcdFinder(const EtcdOptions& options)
    : options_(options), client_(options, kLimit), thread_([this] { loop(); }) {}

EtcdFinder::~EtcdFinder() {
  client_.cancel();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void EtcdFinder::look() {
  const std::lock_guard lock(mutex_);
  answer_.reset();
  wanted_ = true;
  changed_.notify_all();
}

std::optional<SchedulerFound> EtcdFinder::answer() {
  const std::lock_guard lock(mutex_);
  return answer_;
}

SchedulerFound EtcdFinder::found() {
  const std::string key = leader_key(options_.prefix);
  try {
    const std::optional<StoreEntry> entry = client_.get(key);
    if (!entry)
      return {"", "etcd " + options_.urls + " has no key " + key +
                      ": no scheduler leads now. Is `heddle scheduler --etcd` running with this prefix?"};
    return {entry->value, ""};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

void EtcdFinder::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || stopping_; });
    if (stopping_) return;
    wanted_ = false;
    lock.unlock();
    SchedulerFound now = found();
    lock.lock();
    if (!wanted_) answer_ = std::move(now);
  }
}

}  // namespace heddle::kv_detail
