// The product: a crew of workers, a queue of ready ops each, one queue for what other threads push.
#include <array>
#include <chrono>
#include <thread>

#include "arena.h"
#include "core.h"
#include "crew.h"
#include "region.h"
#include "tracker.h"

namespace heddle::detail {
namespace {

constexpr std::size_t kBatch = 16;       // ops taken at once from a queue that others use too
constexpr std::uint32_t kFairness = 64;  // every so many ops a worker looks at the others' queues first
constexpr int kSearchSpins = 400;        // looks for work before a worker goes to sleep, some 20 microseconds
constexpr int kWaitSpins = 100;          // looks at a WaitState before the waiting thread goes to sleep

int worker_count(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Ops pushed and ops ended, counted in several places so that threads do not share a cache line.
class Counters {
 public:
  void pushed() { mine().pushed.fetch_add(1, std::memory_order_seq_cst); }
  void ended() { mine().ended.fetch_add(1, std::memory_order_seq_cst); }
  // Nothing is in flight. The ended ones are read first: they never exceed the pushed ones, so if the earlier sum
  // equals the later one, both were equal in between.
  bool balanced() const {
    std::uint64_t ended = 0, pushed = 0;
    for (const Shard& shard : shards_) ended += shard.ended.load(std::memory_order_seq_cst);
    for (const Shard& shard : shards_) pushed += shard.pushed.load(std::memory_order_seq_cst);
    return ended == pushed;
  }

 private:
  struct alignas(64) Shard {
    std::atomic<std::uint64_t> pushed{0}, ended{0};
  };
  Shard& mine() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t index = threads.fetch_add(1, std::memory_order_relaxed);
    return shards_[index % shards_.size()];
  }
  std::array<Shard, 32> shards_;
};

class ThreadedCore final : public EngineCore {
 public:
  explicit ThreadedCore(const EngineOptions& engine_options)
      : EngineCore(engine_options),
        workers_(worker_count(engine_options.workers)),
        arena_(workers_),
        crew_(workers_, [this](Worker& worker) { work(worker); }) {}

  int workers() const override { return workers_; }
  void submit(OpNode* op) override;
  void wait(OpNode* wait_op) override;
  void wait_all() override;
  void finish(OpNode* op, std::exception_ptr error) noexcept override;
  void stop() noexcept override;
  void begin_blocking() noexcept override;
  void end_blocking() noexcept override;
  void parallel(std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t, std::int64_t)>& body) override;

 private:
  // The calling thread's Worker, null if it is not one of this engine's or has no seat.
  Worker* this_worker() const {
    Worker* worker = mine.core == this ? mine.worker : nullptr;
    return worker && worker->seat ? worker : nullptr;
  }
  void schedule(ReadyList& ready);
  void work(Worker& worker);
  void run_until_idle(Worker& worker);
  OpNode* run(OpNode* op, Worker& worker);
  OpNode* search(Worker& worker);
  OpNode* find(Worker& worker);
  OpNode* take_from(ReadyQueue& queue, Worker& worker);
  bool join_loop(Worker& worker);
  bool has_work() const;
  void check_balance();

  struct Mine {
    const ThreadedCore* core = nullptr;
    Worker* worker = nullptr;
  };
  static thread_local Mine mine;

  const int workers_;
  Arena arena_;
  Counters counters_;
  ReadyQueue pushed_;  // by threads that are no workers
  Regions regions_;
  Parking parking_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> balance_waiters_{0};
  std::atomic<std::uint32_t> balance_epoch_{0};
  Crew crew_;  // last: its threads use all of the above
};

thread_local ThreadedCore::Mine ThreadedCore::mine;

void ThreadedCore::submit(OpNode* op) {
  if (op->kind == OpKind::user) counters_.pushed();
  ReadyList ready;
  enter_op(op, ready);
  schedule(ready);
}

void ThreadedCore::schedule(ReadyList& ready) {
  if (ready.empty()) return;
  std::size_t count = 0;
  for (OpNode* op = ready.head; op; op = op->next) ++count;
  Worker* worker = this_worker();
  (worker ? worker->seat->queue : pushed_).push(ready, count);
  parking_.notify();
}

void ThreadedCore::finish(OpNode* op, std::exception_ptr error) noexcept {
  Worker* worker = this_worker();
  const bool hand_over = worker && worker->current == op;
  ReadyList ready;
  settle(op, std::move(error), ready);
  counters_.ended();
  if (hand_over) {
    worker->successors = ready;
  } else {
    schedule(ready);
    if (!worker) check_balance();  // a worker does when it runs out of work
  }
}

// Runs op; returns the first op that this made ready, the others go to this worker's queue.
OpNode* ThreadedCore::run(OpNode* op, Worker& worker) {
  worker.current = op;
  execute(op, worker.seat->index);
  worker.current = nullptr;
  ReadyList ready = std::exchange(worker.successors, {});
  if (ready.empty()) return nullptr;
  OpNode* next = ++worker.ticks % kFairness == 0 ? nullptr : ready.pop_front();
  schedule(ready);
  return next;
}

OpNode* ThreadedCore::take_from(ReadyQueue& queue, Worker& worker) {
  ReadyList batch;
  std::size_t count = queue.take(batch, kBatch);
  if (count == 0) return nullptr;
  OpNode* first = batch.pop_front();
  if (--count > 0) worker.seat->queue.push(batch, count);
  return first;
}

OpNode* ThreadedCore::find(Worker& worker) {
  const std::size_t seats = crew_.seats().size();
  const auto own = static_cast<std::size_t>(worker.seat->index);
  if (++worker.ticks % kFairness == 0) {
    if (OpNode* op = take_from(pushed_, worker)) return op;
  }
  ReadyList one;
  if (worker.seat->queue.take(one, 1)) return one.head;
  if (OpNode* op = take_from(pushed_, worker)) return op;
  for (std::size_t i = 1; i < seats; ++i) {
    if (OpNode* op = take_from(crew_.seats()[(own + i) % seats].queue, worker)) return op;
  }
  return nullptr;
}

bool ThreadedCore::join_loop(Worker& worker) {
  std::shared_ptr<Region> region = regions_.enter();
  if (!region) return false;
  if (!region->exhausted()) {
    ThreadState& thread = this_thread_state();
    const ThreadState outer = std::exchange(thread, {this, region->op, worker.seat->index});
    region->work();
    thread = outer;
  }
  regions_.close(region.get());
  Regions::leave(*region);
  return true;
}

bool ThreadedCore::has_work() const {
  if (stopping_ || crew_.wanted() || !regions_.empty() || !pushed_.empty()) return true;
  for (const Seat& seat : const_cast<Crew&>(crew_).seats()) {
    if (!seat.queue.empty()) return true;
  }
  return false;
}

// Spins for a while; the thread is a searcher when this is called and none afterwards unless nothing was found.
OpNode* ThreadedCore::search(Worker& worker) {
  OpNode* op = nullptr;
  for (int spins = 0; spins < kSearchSpins && !op; ++spins) {
    if (!has_work()) {
      cpu_relax();
      continue;
    }
    if (stopping_ || crew_.wanted()) break;
    if (!regions_.empty()) {
      if (parking_.end_search() && has_work()) parking_.notify();
      join_loop(worker);
      parking_.begin_search();
      spins = 0;
      continue;
    }
    op = find(worker);
  }
  return op;
}

void ThreadedCore::run_until_idle(Worker& worker) {
  OpNode* op = search(worker);
  // Work may have come while this thread was the only searcher, and nobody was woken for it.
  if (parking_.end_search() && has_work()) parking_.notify();
  while (op) {
    op = run(op, worker);
    if (crew_.wanted()) {
      if (op) {
        ReadyList one;
        one.push_back(op);
        schedule(one);
      }
      return;
    }
    while (join_loop(worker)) {
    }
    if (!op) op = find(worker);
  }
  check_balance();
}

void ThreadedCore::work(Worker& worker) {
  auto enter = [this, &worker] {
    const Mine outer = std::exchange(mine, {this, &worker});
    run_until_idle(worker);
    mine = outer;
  };
  parking_.begin_search();
  while (!stopping_) {
    if (worker.extra) {
      enter();
    } else {
      arena_.run([](void* call) { (*static_cast<decltype(enter)*>(call))(); }, &enter);
    }
    if (crew_.wanted() && crew_.yield_seat(worker)) return;
    parking_.sleep(worker.sleeper, [this] { return has_work(); });
  }
}

void ThreadedCore::begin_blocking() noexcept {
  if (Worker* worker = this_worker()) crew_.give_up_seat(*worker);
}

void ThreadedCore::end_blocking() noexcept {
  if (mine.core != this || !mine.worker || mine.worker->seat) return;
  crew_.ask_for_seat(*mine.worker);
  parking_.notify();
  crew_.await_seat(*mine.worker);
}

void ThreadedCore::wait(OpNode* wait_op) {
  const std::shared_ptr<WaitState> state = wait_op->wait;
  const ThreadState thread = this_thread_state();
  if (thread.core == this) wait_op->resumes = thread.op;
  ReadyList ready;
  enter_op(wait_op, ready);
  schedule(ready);
  for (int spins = 0; spins < kWaitSpins; ++spins) {
    if (state->done.load(std::memory_order_acquire)) return;
    cpu_relax();
  }
  if (thread.core == this && depends(*state, *thread.op, true)) {
    throw WouldDeadlock("op '" + std::string(thread.op->name) +
                        "' waits for a var that can only be ready after that op has ended");
  }
  if (thread.core) thread.core->begin_blocking();
  state->done.wait(0, std::memory_order_acquire);
  if (thread.core) thread.core->end_blocking();
}

void ThreadedCore::check_balance() {
  // seq_cst here and in wait_all: either we see the waiter, or the waiter sees what we have counted.
  if (balance_waiters_.load(std::memory_order_seq_cst) == 0 || !counters_.balanced()) return;
  balance_epoch_.fetch_add(1, std::memory_order_seq_cst);
  balance_epoch_.notify_all();
}

void ThreadedCore::wait_all() {
  const ThreadState thread = this_thread_state();
  if (thread.core == this) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
  if (counters_.balanced()) return;
  if (thread.core) thread.core->begin_blocking();
  balance_waiters_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t epoch = balance_epoch_.load(std::memory_order_seq_cst);
    if (counters_.balanced()) break;
    balance_epoch_.wait(epoch, std::memory_order_seq_cst);
  }
  balance_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  if (thread.core) thread.core->end_blocking();
}

void ThreadedCore::parallel(std::int64_t count, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (workers_ == 1) return EngineCore::parallel(count, grain, body);
  auto region = std::make_shared<Region>(count, grain, body, this_thread_state().op);
  regions_.open(region);
  parking_.notify();
  region->work();
  regions_.close(region.get());
  region->finish();
}

void ThreadedCore::stop() noexcept {
  stopping_ = true;
  parking_.close();
  crew_.close();
}

}  // namespace

EngineCore* make_threaded_core(const EngineOptions& options) { return new ThreadedCore(options); }

}  // namespace heddle::detail
