// Who looks for work, where, and for how long.
#include <algorithm>
#include <chrono>
#include <thread>

#include "op_memory.h"
#include "threaded.h"

namespace heddle::detail {
namespace {

constexpr std::size_t kBatch = 16;  // ops taken at once from a queue that others use too
constexpr int kSearchLooks = 50;    // for work before a runner gives up,
constexpr int kMostPauses = 32;     // with up to so many pauses in between: 30 to 60 microseconds in all
constexpr int kMostApart = 64;
constexpr int kSpinPauses = 2;  // once that is over, for those who want to be fast rather than to save power
constexpr int kVain = 8;        // looks that found work but could not get it, before others may have the core
constexpr int kIdleNaps = 20;   // milliseconds without anything to do before the last napper sleeps

}  // namespace

std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool ThreadedCore::take_seat(Runner& self) {
  if (!self.seat) self.seat = seats_.take(self.last_seat);
  return self.seat != nullptr;
}

// The caller looks for work afterwards, or sees to it that somebody does.
void ThreadedCore::release_seat(Runner& self) {
  if (!self.seat) return;
  self.last_seat = std::exchange(self.seat, nullptr);
  seats_.release(*self.last_seat);
  crew_.seat_released();
}

bool ThreadedCore::has_work() const { return !submissions_.empty() || has_ready(); }

bool ThreadedCore::has_ready() const {
  if (!regions_.empty() || !elsewhere_.empty() || !urgent_.empty()) return true;
  for (const Seat& seat : seats_) {
    if (!seat.queue.empty()) return true;
  }
  return false;
}

bool ThreadedCore::can_work() const {
  if (stopping_) return true;
  return is_open() && has_work();
}

// There is room for one more runner.
bool ThreadedCore::is_open() const {
  return seats_.any_free() && !short_runner_.load(std::memory_order_seq_cst) && !crew_.wanted();
}

OpNode* ThreadedCore::take_from(ReadyQueue& queue, Runner& self) {
  ReadyList batch;
  queue.take(batch, kBatch);
  if (batch.empty()) return nullptr;
  OpNode* first = batch.pop_front();
  if (!batch.empty()) self.seat->queue.push_back(batch);
  return first;
}

// Submissions are entered until some are ready: those that are not, wait for ops that run or are in a queue.
OpNode* ThreadedCore::take_drained(Runner& self, bool until_ready) {
  ReadyList ready;
  while (drain(ready) > 0 && ready.empty() && until_ready) {
  }
  if (ready.empty()) return nullptr;
  OpNode* first = ready.pop_front();
  if (!ready.empty()) {
    self.seat->queue.push_back(ready);
    wake_one();
  }
  return first;
}

OpNode* ThreadedCore::find(Runner& self) { return or_more_urgent(find_next(self), self); }

// `op` is in hand, or null. If something more urgent is ready, or has been submitted, returns that and puts op back.
OpNode* ThreadedCore::or_more_urgent(OpNode* op, Runner& self) {
  if (!urgent_.before(op ? op->sequence : Urgent::kNothing)) return op;
  ReadyList ready;
  // Ops of priority 0 are entered as they are needed: an urgent one behind a hundred thousand would wait for all of them.
  // Who has the lock may have lost its core: whatever is run meanwhile is less urgent.
  while (urgent_.any_announced() && drain(ready, true) > 0) {
  }
  if (!ready.empty()) {
    self.seat->queue.push_back(ready);
    wake_one();
  }
  // What was entered just now, here or by another thread, may come before it.
  if (!op) op = find_next(self);
  OpNode* urgent = urgent_.take_before(op ? op->sequence : Urgent::kNothing);
  if (!op || !urgent) return urgent ? urgent : op;
  ready.push_back(op);
  schedule(ready);
  return urgent;
}

OpNode* ThreadedCore::find_next(Runner& self) {
  const int own = self.seat->index;
  if (std::exchange(self.look_outside, false)) {
    if (OpNode* op = take_drained(self, false)) return op;
    if (OpNode* op = take_from(elsewhere_, self)) return op;
    Seat& other = seats_.begin()[self.ops / kFairness % static_cast<std::uint32_t>(seats_.size())];
    if (OpNode* op = other.index == own ? nullptr : take_from(other.queue, self)) return op;
  }
  if (OpNode* op = self.seat->queue.take_one()) return op;
  if (OpNode* op = take_drained(self, true)) return op;
  if (OpNode* op = take_from(elsewhere_, self)) return op;
  for (int i = 1; i < seats_.size(); ++i) {
    if (OpNode* op = take_from(seats_.begin()[(own + i) % seats_.size()].queue, self)) return op;
  }
  return nullptr;
}

// Never with an op in hand: a chunk of the loop might wait for it.
bool ThreadedCore::join_loop(Runner& self) {
  std::shared_ptr<Region> region = regions_.enter();
  if (!region) return false;
  const bool later = region->op->epoch != self.epoch;
  if (later) check_balance();  // as in run()
  if (later && self.stop) {
    self.enough = true;
    Regions::leave(*region);
    return false;
  }
  if (!region->exhausted()) {
    const InsideOp inside(this, region->op, self.seat->index);
    region->work();
  }
  regions_.close(region.get());
  Regions::leave(*region);
  return true;
}

// Where there is one core nobody makes work while we look for it, nor ends what others wait for: they go first. A thread that
// went to sleep instead would have to be woken for the next op.
void ThreadedCore::let_time_pass(int pauses) const {
  if (one_core_) return std::this_thread::yield();
  for (int i = 0; i < pauses; ++i) cpu_relax();
}

// Looks for work for a while; returns an op with a seat held, or null without one. The calling thread is a searcher
// before and after.
OpNode* ThreadedCore::search(Runner& self) {
  int vain = 0;
  int apart = 1, since = 1;  // looks at submissions, in pauses
  const bool may_spin = self.crew && options.spin > 0;
  const std::uint64_t spin_end =
      may_spin ? nanoseconds() + static_cast<std::uint64_t>(options.spin * 1e9) : 0;
  for (int looks = 0; !stopping_; looks = std::min(looks + 1, kSearchLooks)) {
    const bool spins = looks == kSearchLooks;
    if (spins && (!may_spin || nanoseconds() >= spin_end)) break;
    if (self.enough || (self.stop && self.stop->load(std::memory_order_relaxed) != self.stop_unless)) break;
    const bool look_at_all = since >= apart || spins || is_short(self) || one_core_;
    if ((is_short(self) ? !crew_.wanted() : is_open()) && (look_at_all ? has_work() : has_ready())) {
      if (!take_seat(self)) continue;
      if (!regions_.empty()) {
        if (parking_.end_search() && can_work()) wake_one();
        auto join = [&] { join_loop(self); };
        arena_.run([](void* call) { (*static_cast<decltype(join)*>(call))(); }, &join);
        parking_.begin_search();
        looks = 0;
      }
      OpNode* op = self.seat ? find(self) : nullptr;
      if (op) return op;
      release_seat(self);
      // What there is cannot be had: a thread that pushes or enters ops was stopped halfway, perhaps by this one.
      if (++vain % kVain == 0) std::this_thread::yield();
    } else if (!is_short(self) && (short_runner_.load(std::memory_order_relaxed) || !seats_.any_free())) {
      break;
    }
    // What runners leave may be gone on with at once. But to look at the submissions takes a cache line from whoever
    // pushes, and perhaps an op that its pusher is about to wait for, and to run: not too often. On one core neither is at stake.
    if (std::exchange(since, look_at_all ? 0 : since) >= apart) apart = std::min(2 * apart, kMostApart);
    const int pauses = spins ? kSpinPauses : std::min(looks + 1, kMostPauses);
    let_time_pass(pauses);
    since += pauses;
  }
  return nullptr;
}

void ThreadedCore::be_short(Runner& self) {
  Runner* nobody = nullptr;
  if (!short_runner_.compare_exchange_strong(nobody, &self, std::memory_order_seq_cst)) return;
  parking_.begin_search();
  parking_.need_napper();
}

void ThreadedCore::leave_short(Runner& self) {
  Runner* me = &self;
  if (!is_short(self)) return;
  // If it fails, somebody thought that we hang, and has ended the search for us.
  if (!short_runner_.compare_exchange_strong(me, nullptr, std::memory_order_seq_cst)) return;
  parking_.end_search();
  if (can_work()) wake_one();
}

// Between two ops: gives the seat up to a thread in the middle of an op, or because another runner's ops are so short
// that it does better alone. `op` is in hand, or null.
bool ThreadedCore::step_down(OpNode* op, Runner& self) {
  if (!self.seat) return true;
  const Runner* other = short_runner_.load(std::memory_order_relaxed);
  if (!crew_.wanted() && (!other || other == &self)) return false;
  if (op) {
    ReadyList in_hand;
    in_hand.push_back(op);
    self.seat->queue.push_front(in_hand);
  }
  release_seat(self);
  return true;
}

// A thread in wait_all leaves to others what was pushed after its call: it would keep the thread longer than it has to
// wait, for ever if it does not end before that thread goes on. Puts op back then.
bool ThreadedCore::comes_later(OpNode* op, Runner& self) {
  if (!self.stop || op->epoch == self.epoch) return false;
  ReadyList in_hand;
  in_hand.push_back(op);
  self.seat->queue.push_front(in_hand);
  return self.enough = true;
}

// From a first op until there is no other; then the seat is free again.
void ThreadedCore::run_from(OpNode* op, Runner& self) {
  self.ops = 0;
  self.ticked = nanoseconds();
  while (op && !comes_later(op, self)) {
    op = run(op, self);
    if (step_down(op, self)) break;
    while (!op && self.seat && join_loop(self)) {
    }
    if (!op && self.seat) op = find(self);
  }
  release_seat(self);
  op_memory_flush();
  check_balance();
}

// A searcher at first, none in the end.
void ThreadedCore::run_until_idle(Runner& self) {
  for (;;) {
    OpNode* op = search(self);
    if (!op) break;
    // Work may have come while this thread was the only searcher, and nobody was woken for it.
    if (parking_.end_search() && can_work()) wake_one();
    auto run = [&] { run_from(op, self); };
    // Only with a seat: there are as many places in the arena.
    arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
    parking_.begin_search();
  }
  leave_short(self);
  if (parking_.end_search() && can_work()) wake_one();
}

// Ops that have ended on threads with a seat.
std::uint64_t ThreadedCore::ended_here() const {
  std::uint64_t count = 0;
  for (const Seat& seat : seats_) {
    for (const auto& ended : seat.ended) count += ended.load(std::memory_order_relaxed);
  }
  return count;
}

Nap ThreadedCore::look_around(std::uint64_t& progress, int& idle) {
  const std::uint64_t now = ended_here();
  if (std::exchange(progress, now) != now) {
    idle = 0;
    return Nap::again;
  }
  if (seats_.any_free() && has_work()) {
    // Whoever was to find it hangs in an op that is longer than the last ones were.
    Runner* hangs = short_runner_.load(std::memory_order_seq_cst);
    if (hangs && short_runner_.compare_exchange_strong(hangs, nullptr, std::memory_order_seq_cst)) {
      parking_.end_search();
    }
    return Nap::get_up;
  }
  if (!seats_.all_free() || short_runner_.load(std::memory_order_relaxed) || ++idle < kIdleNaps)
    return Nap::again;
  op_memory_trim();
  return Nap::sleep_soundly;
}

void ThreadedCore::work() {
  Runner self{.crew = true};
  Sleeper& sleeper = parking_.place();
  const ActingAs acting(this, &self);
  note_thread_end();
  parking_.begin_search();
  while (!stopping_) {
    run_until_idle(self);
    check_balance();
    std::uint64_t progress = 0;
    int idle = 0;
    parking_.sleep(
        sleeper, [this] { return can_work(); }, [&] { return look_around(progress, idle); });
  }
}

}  // namespace heddle::detail
