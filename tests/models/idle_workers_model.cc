// Model of class IdleWorkers: no worker stays parked while there is work and no worker searches for it.

#include "model.h"

#define std model_std
#include <product/base/idle_workers.h>
#undef std

#include "no_cores.h"

namespace {

using heddle::detail::IdleWorkers;
using heddle::detail::MonitorResult;
using heddle::detail::ParkedThread;

// Pushers publish work and notify; workers run the loop of a pool thread. The monitor's check for missed work
// is switched off, so a worker is woken only by notify(). Relacy reports a worker that is parked for ever as
// a deadlock.
template <int Pushers, int Workers, int Each>
struct Work : model::Schedule<Work<Pushers, Workers, Each>, Pushers + Workers> {
  IdleWorkers parking;
  model_std::atomic<int> work{0}, done{0};
  model_std::atomic<bool> stopping{false};

  void thread(unsigned index) {
    if (index >= Pushers) return live();
    for (int i = 0; i < Each; ++i) {
      model::dawdle(40);
      work.fetch_add(1, model_std::memory_order_seq_cst);
      parking.notify();
    }
  }
  bool has_work() { return stopping.load() || work.load() > 0; }
  bool take() {
    int left = work.load();
    return left > 0 && work.compare_exchange_strong(left, left - 1);
  }
  void live() {
    ParkedThread& self = parking.add_thread();
    parking.begin_search();
    while (!stopping.load()) {
      while (take()) {
        if (parking.end_search() && has_work()) parking.notify();
        if (done.fetch_add(1) + 1 == Pushers * Each) {
          stopping.store(true);
          parking.close();
        }
        parking.begin_search();
      }
      if (parking.end_search() && has_work()) parking.notify();
      parking.park(
          self, [&] { return has_work(); }, [] { return MonitorResult::park; });
    }
  }
  void after() { model::check(done.load() == Pushers * Each, "work is lost"); }
};

// A worker that counts as searching is blocked, so notify() wakes no other worker. The parked worker, which
// is the monitor, must find the work by its checks.
struct Monitor : model::Schedule<Monitor, 3> {
  IdleWorkers parking;
  model_std::atomic<int> work{0}, done{0};

  void thread(unsigned index) {
    if (index == 0) {
      parking.begin_search();
      done.wait(0);
      parking.end_search();
    } else if (index == 1) {
      work.store(1);
      parking.notify();
    } else {
      ParkedThread& self = parking.add_thread();
      auto has_work = [&] { return work.load() > 0; };
      parking.park(self, has_work, [&] { return has_work() ? MonitorResult::unpark : MonitorResult::again; });
      model::check(has_work(), "woken for nothing");
      parking.end_search();
      done.store(1);
      done.notify_all();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::program;
  using model::random_program;
  return model::run_models(
      argc, argv,
      {program<Work<1, 1, 2>>("1 pusher, 1 worker"), program<Work<2, 1, 1>>("2 pushers, 1 worker"),
       random_program<Work<1, 2, 2>>("1 pusher, 2 workers"),
       random_program<Work<2, 2, 2>>("2 pushers, 2 workers"), random_program<Monitor>("monitor")},
      {"IdleWorkers::end_search fetch_sub acq_rel", "IdleWorkers::notify load acquire",
       "IdleWorkers::park fetch_add acq_rel"});
}
