// Model of class Budget: it never admits more ops or bytes than its bound, and no thread waits for ever while
// there is room.
#include "model.h"

#define std model_std
#define private public  // the model reads private state
#define __builtin_ia32_pause model::step
#include <product/op/budget.cc>
namespace heddle::detail {
// Replaces the product's wait: returns whenever Relacy's scheduler chooses.
void Budget::wait_briefly(std::condition_variable&, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  lock.lock();
}
}  // namespace heddle::detail
#undef std
#undef private
#undef __builtin_ia32_pause

namespace {

// Threads that acquire room for ops of different sizes, and release it. Relacy reports an endless wait as a
// deadlock.
template <int Threads, int MaxOps, int MaxBytes>
struct Bound : model::Schedule<Bound<Threads, MaxOps, MaxBytes>, Threads> {
  heddle::detail::Budget budget{MaxOps, MaxBytes};
  // What is admitted now. Plain ints: Relacy switches no thread between the admission and the update.
  int ops = 0, bytes = 0;

  void thread(unsigned index) {
    // The size of each thread's ops. For one thread it exceeds the whole bound.
    const int mine = MaxBytes == 0 ? 0 : 1 + static_cast<int>(index) % (MaxBytes + 1);
    for (int i = 0; i < 2; ++i) {
      budget.acquire(static_cast<std::size_t>(mine));
      ++ops;
      bytes += mine;
      model::check(MaxOps == 0 || ops <= MaxOps, "more ops than the bound");
      model::check(MaxBytes == 0 || bytes <= MaxBytes || ops == 1, "more bytes than the bound");
      model::step();
      --ops;
      bytes -= mine;
      budget.release(static_cast<std::size_t>(mine));
    }
  }
  void after() {
    budget.waiting_.fetch_add(1);
    model::check(!budget.try_acquire(1), "who comes later overtakes who waits");
    budget.waiting_.fetch_sub(1);
    model::check(budget.try_acquire(1), "room is lost");
  }
};

// Room for two ops is released at once, so both waiting threads must be woken: each keeps its room until the
// other thread has got room too.
struct Together : model::Schedule<Together, 3> {
  heddle::detail::Budget budget{2, 0};
  model_std::atomic<int> taken{0};

  void before() {
    budget.acquire_anyway(0);
    budget.acquire_anyway(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      while (budget.waiting_.load() < 2) model::step();
      budget.release(0);
      return budget.release(0);
    }
    budget.acquire(0);
    taken.fetch_add(1);
    taken.notify_all();
    while (taken.load() < 2) taken.wait(1);
    budget.release(0);
  }
};

// Less room is released than the amount at which waiting threads are usually woken. The waiting thread must
// get it all the same, since no more is released before.
struct Alone : model::Schedule<Alone, 2> {
  heddle::detail::Budget budget{8, 0};
  model_std::atomic<int> taken{0};

  void before() {
    for (int i = 0; i < 8; ++i) budget.acquire_anyway(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      while (budget.waiting_.load() == 0) model::step();
      budget.release(0);
      return taken.wait(0);
    }
    budget.acquire(0);
    taken.store(1);
    taken.notify_all();
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::program;
  using model::random_program;
  return model::run_models(
      argc, argv,
      {program<Bound<2, 1, 0>>("room for one op, 2 threads"),
       random_program<Bound<3, 1, 0>>("room for one op, 3 threads"),
       random_program<Together>("room for two at once"),
       random_program<Alone>("room for one, fewer than a batch"),
       random_program<Bound<3, 1, 2>>("one op, and bytes"), random_program<Bound<3, 2, 2>>("bytes too")},
      {"Budget::acquire fetch_add acq_rel", "Budget::release fetch_sub acq_rel",
       "Budget::wake_first load acquire"});
}
