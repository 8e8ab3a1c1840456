#include "base/fork.h"

#include <array>
#include <atomic>
#include <pthread.h>
#include <vector>

#include "base/submission_queue.h"

namespace heddle::detail {

constinit std::atomic<std::uint32_t> forks{0};

namespace {

// All ForkMutexes of one kind. A fork unlocks those that it has locked, not one that is made meanwhile.
struct Mutexes {
  std::array<std::atomic<ForkMutex*>, 8> all{};
  std::atomic<std::size_t> count{0};
  void add(ForkMutex* mutex) { all.at(count.fetch_add(1)) = mutex; }
};
constinit Mutexes outer, inner;

struct Queues {
  std::mutex mutex;  // guards all; the queues' locks may be taken while it is held
  std::vector<SubmissionQueue*> all;
};
Queues& queues() {
  static Queues& immortal = *new Queues;
  return immortal;
}

using Held = std::array<ForkMutex*, 8>;
constinit thread_local Held held_outer{}, held_inner{};

void lock_all(const Mutexes& mutexes, Held& held) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    held[i] = mutexes.all[i].load();
    if (held[i]) held[i]->lock();
  }
}
void unlock_all(Held& held) {
  for (ForkMutex* mutex : held) {
    if (mutex) mutex->unlock();
  }
}

// Before a fork, locks all ForkMutexes and submission queues. The inner mutexes come last, since a thread
// that enters ops holds its queue's lock, and may lock an inner mutex meanwhile.
void before() {
  lock_all(outer, held_outer);
  queues().mutex.lock();
  for (SubmissionQueue* queue : queues().all) queue->lock();
  lock_all(inner, held_inner);
}

void after() {
  unlock_all(held_inner);
  for (SubmissionQueue* queue : queues().all) queue->unlock();
  queues().mutex.unlock();
  unlock_all(held_outer);
}

void in_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  after();
}

[[maybe_unused]] const bool registered = [] {
  pthread_atfork(before, after, in_child);
  return true;
}();

}  // namespace

ForkMutex::ForkMutex() { inner.add(this); }
ForkMutex::ForkMutex(AroundEngines) { outer.add(this); }

HeldDuringFork::HeldDuringFork(SubmissionQueue& queue) : queue_(queue) {
  std::lock_guard guard(queues().mutex);
  queues().all.push_back(&queue);
}
HeldDuringFork::~HeldDuringFork() {
  std::lock_guard guard(queues().mutex);
  std::erase(queues().all, &queue_);
}

}  // namespace heddle::detail
