// The product: a crew of workers, a queue of ready ops each, one queue for what other threads push.
#include <array>
#include <mutex>
#include <system_error>
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
constexpr int kSearchLooks = 100;        // for work before a worker goes to sleep,
constexpr int kPauses = 4;               // with so many pauses in between: some 20 microseconds
constexpr int kWaitSpins = 100;          // looks at a WaitState before the waiting thread goes to sleep

int worker_count(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Ops pushed and ops ended, counted in several places so that threads do not share a cache line, and apart for even
// and odd epochs: wait_all starts a new epoch and waits for the ops of the last one, whatever is pushed meanwhile.
class Counters {
 public:
  // What an op pushes belongs to that op's epoch: wait_all waits for it too.
  std::uint8_t pushed(const OpNode* parent) {
    // An op that reads the epoch just before it ends is counted in it all the same: wait_all may wait for it too.
    const auto now = static_cast<std::uint8_t>(epoch_.load(std::memory_order_seq_cst) & 1);
    const std::uint8_t epoch = parent ? parent->epoch : now;
    mine().pushed[epoch].fetch_add(1, std::memory_order_seq_cst);
    return epoch;
  }
  void ended(std::uint8_t epoch) { mine().ended[epoch].fetch_add(1, std::memory_order_seq_cst); }
  std::uint8_t next_epoch() {
    return static_cast<std::uint8_t>(epoch_.fetch_add(1, std::memory_order_seq_cst) & 1);
  }
  std::uint8_t last_epoch() const { return (epoch_.load(std::memory_order_seq_cst) & 1) ^ 1; }
  // None of the epoch's ops is in flight. The ended ones are read first: they never exceed the pushed ones, so if the
  // earlier sum equals the later one, both were equal in between.
  bool balanced(std::uint8_t epoch) const {
    std::uint64_t ended = 0, pushed = 0;
    for (const Shard& shard : shards_) ended += shard.ended[epoch].load(std::memory_order_seq_cst);
    for (const Shard& shard : shards_) pushed += shard.pushed[epoch].load(std::memory_order_seq_cst);
    return ended == pushed;
  }

 private:
  struct alignas(64) Shard {
    std::atomic<std::uint64_t> pushed[2] = {0, 0}, ended[2] = {0, 0};
  };
  Shard& mine() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t index = threads.fetch_add(1, std::memory_order_relaxed);
    return shards_[index % shards_.size()];
  }
  std::array<Shard, 32> shards_;
  std::atomic<std::uint32_t> epoch_{0};
};

class ThreadedCore final : public EngineCore {
 public:
  explicit ThreadedCore(const EngineOptions& engine_options)
      : EngineCore(engine_options),
        workers_(worker_count(engine_options.workers)),
        arena_(workers_),
        crew_(workers_, [this](Worker& worker) { work(worker); }) {
    try {
      crew_.start();
    } catch (const std::system_error& error) {
      stop();
      throw Error("cannot start " + std::to_string(workers_) + " worker threads: " + error.what());
    }
  }

  int workers() const override { return workers_; }
  void submit(OpNode* op) override;
  void wait(OpNode* wait_op) override;
  void wait_all() override;
  void finish(OpNode* op, std::exception_ptr error) noexcept override;
  void stop() noexcept override;
  void begin_blocking() override;
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
  std::mutex wait_all_mutex_;  // held by the one thread in wait_all
  std::atomic<int> balance_waiters_{0};
  std::atomic<std::uint32_t> balance_signal_{0};
  Crew crew_;  // last: its threads use all of the above
};

thread_local ThreadedCore::Mine ThreadedCore::mine;

void ThreadedCore::submit(OpNode* op) {
  if (op->kind == OpKind::user) op->epoch = counters_.pushed(current_op());
  ReadyList ready;
  enter_op(op, ready);
  schedule(ready);
}

void ThreadedCore::schedule(ReadyList& ready) {
  if (ready.empty()) return;
  std::size_t count = 0;
  for (OpNode* op = ready.head; op; op = op->next) ++count;
  // A worker goes on with what it made ready last: ops that push ops run depth first, in little memory.
  if (Worker* worker = this_worker()) {
    worker->seat->queue.push_front(ready, count);
  } else {
    pushed_.push_back(ready, count);
  }
  parking_.notify();
}

void ThreadedCore::finish(OpNode* op, std::exception_ptr error) noexcept {
  Worker* worker = this_worker();
  const bool hand_over = worker && worker->current == op;
  const std::uint8_t epoch = op->epoch;
  ReadyList ready;
  settle(op, std::move(error), ready);
  counters_.ended(epoch);
  if (hand_over) {
    worker->successors = ready;
  } else {
    schedule(ready);
    if (!worker) check_balance();  // a worker does now and then, and when it runs out of work
  }
}

// Runs op; returns the first op that this made ready, the others go to this worker's queue.
OpNode* ThreadedCore::run(OpNode* op, Worker& worker) {
  worker.current = op;
  execute(op, worker.seat->index);
  worker.current = nullptr;
  ReadyList ready = std::exchange(worker.successors, {});
  if (++worker.ops % kFairness == 0) {
    worker.look_outside = true;
    check_balance();
  }
  OpNode* next = ready.empty() || worker.look_outside ? nullptr : ready.pop_front();
  schedule(ready);
  return next;
}

OpNode* ThreadedCore::take_from(ReadyQueue& queue, Worker& worker) {
  ReadyList batch;
  std::size_t count = queue.take(batch, kBatch);
  if (count == 0) return nullptr;
  OpNode* first = batch.pop_front();
  if (--count > 0) worker.seat->queue.push_back(batch, count);
  return first;
}

OpNode* ThreadedCore::find(Worker& worker) {
  std::vector<Seat>& seats = crew_.seats();
  const auto own = static_cast<std::size_t>(worker.seat->index);
  if (std::exchange(worker.look_outside, false)) {
    if (OpNode* op = take_from(pushed_, worker)) return op;
    const std::size_t other = worker.ops / kFairness % seats.size();
    if (OpNode* op = other == own ? nullptr : take_from(seats[other].queue, worker)) return op;
  }
  ReadyList one;
  if (worker.seat->queue.take(one, 1)) return one.head;
  if (OpNode* op = take_from(pushed_, worker)) return op;
  for (std::size_t i = 1; i < seats.size(); ++i) {
    if (OpNode* op = take_from(seats[(own + i) % seats.size()].queue, worker)) return op;
  }
  return nullptr;
}

// Never with an op in hand: a chunk of the loop might wait for it.
bool ThreadedCore::join_loop(Worker& worker) {
  std::shared_ptr<Region> region = regions_.enter();
  if (!region) return false;
  if (!region->exhausted()) {
    const InsideOp inside(this, region->op, worker.seat->index);
    region->work();
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

// Looks for work for a while. The calling thread is a searcher before and after.
OpNode* ThreadedCore::search(Worker& worker) {
  OpNode* op = nullptr;
  for (int looks = 0; looks < kSearchLooks && !op; ++looks) {
    if (!has_work()) {
      // Looking takes the queue's cache line away from whoever is pushing: not too often.
      for (int i = 0; i < kPauses; ++i) cpu_relax();
      continue;
    }
    if (stopping_ || crew_.wanted()) break;
    if (!regions_.empty()) {
      if (parking_.end_search() && has_work()) parking_.notify();
      join_loop(worker);
      parking_.begin_search();
      looks = 0;
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
      ReadyList in_hand;
      if (op) in_hand.push_back(op);
      schedule(in_hand);
      return;
    }
    while (!op && join_loop(worker)) {
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

void ThreadedCore::begin_blocking() {
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
  OpNode* const current = current_op();
  state->resumes = current;
  ReadyList ready;
  enter_op(wait_op, ready);
  schedule(ready);
  for (int spins = 0; spins < kWaitSpins; ++spins) {
    if (state->done.load(std::memory_order_acquire)) return;
    cpu_relax();
  }
  if (current && depends(*state, *current, true)) {
    throw WouldDeadlock("op '" + std::string(current->name) +
                        "' waits for a var that can only be ready after that op has ended");
  }
  try {
    begin_blocking_everywhere();
  } catch (...) {
    {
      std::lock_guard guard(one_search);
      state->resumes = nullptr;
    }
    end_blocking_everywhere();
    throw;
  }
  state->done.wait(0, std::memory_order_acquire);
  end_blocking_everywhere();
}

void ThreadedCore::check_balance() {
  // seq_cst here and in wait_all: either we see the waiter, or the waiter sees what we have counted.
  if (balance_waiters_.load(std::memory_order_seq_cst) == 0) return;
  if (!counters_.balanced(counters_.last_epoch())) return;
  balance_signal_.fetch_add(1, std::memory_order_seq_cst);
  balance_signal_.notify_all();
}

void ThreadedCore::wait_all() {
  if (current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
  begin_blocking_everywhere();
  {
    std::lock_guard one(wait_all_mutex_);
    const std::uint8_t epoch = counters_.next_epoch();
    balance_waiters_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t signal = balance_signal_.load(std::memory_order_seq_cst);
      if (counters_.balanced(epoch)) break;
      balance_signal_.wait(signal, std::memory_order_seq_cst);
    }
    balance_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
  end_blocking_everywhere();
}

void ThreadedCore::parallel(std::int64_t count, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (workers_ == 1) return EngineCore::parallel(count, grain, body);
  auto region = std::make_shared<Region>(count, grain, body, this_thread_state().op);
  regions_.open(region);
  parking_.notify();
  region->work();
  regions_.close(region.get());
  if (!region->quiet_soon()) {
    // A guest may be waiting inside its chunk, and need our seat to go on. If nobody can be found to take the seat,
    // the guests that hold one can still end.
    try {
      begin_blocking();
    } catch (const Error&) {
    }
    region->await_guests();
    end_blocking();
  }
  region->rethrow();
}

void ThreadedCore::stop() noexcept {
  // Threads that complete ops may have pushed more before they did.
  while (!counters_.balanced(0) || !counters_.balanced(1)) wait_all();
  stopping_ = true;
  parking_.close();
  crew_.close();
}

}  // namespace

EngineCore* make_threaded_core(const EngineOptions& options) { return new ThreadedCore(options); }

}  // namespace heddle::detail
