// Budget, the product's own: never more admitted than the bound, and nobody waits for ever while there is room.
#include "model.h"

#define std model_std
#define private public  // the model acts as one who waits
#define __builtin_ia32_pause model::step
#include <product/op/budget.cc>
namespace heddle::detail {
// The nap is over whenever Relacy likes.
void Budget::wait_briefly(std::condition_variable&, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  lock.lock();
}
}  // namespace heddle::detail
#undef std
#undef private
#undef __builtin_ia32_pause

namespace {

// Threads that take room for ops of different sizes, and give it back. That one waits for ever is a deadlock to Relacy.
template <int Threads, int MaxOps, int MaxBytes>
struct Bound : model::Schedule<Bound<Threads, MaxOps, MaxBytes>, Threads> {
  heddle::detail::Budget budget{MaxOps, MaxBytes};
  int ops = 0, bytes = 0;  // taken: nothing is run between the taking and the counting

  void thread(unsigned index) {
    const int mine =
        MaxBytes == 0 ? 0 : 1 + static_cast<int>(index) % (MaxBytes + 1);  // one is larger than all
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

// Room for two comes back at once, and neither of the two who wait for it gives his back before the other has it.
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

// Less room than for a batch comes back, and no more before the thread that waits has it.
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
