#include "communicator/call_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "communicator/fusion.h"

namespace heddle::comm_detail {
namespace {

constexpr const char* kAbandoned = "the thread that made the call could not wait for it";

// Lets the call take part without data: the other ranks receive the reason `why` instead of data.
void fail_input(Call& call, const std::string& why) {
  call.what.record.failed = 1;
  call.what.failure = why;
  call.what.in = call.what.out = nullptr;
}

}  // namespace

CallQueue::CallQueue(const Var& all, const Backend& backend, std::size_t fusion_bytes)
    : all_(all), backend_(backend), fusion_bytes_(fusion_bytes) {}

void CallQueue::check_open(const Lock&) const {
  if (closed_) throw CommError("the communicator is being destroyed");
}

bool CallQueue::add(const std::shared_ptr<Call>& call, bool captured) {
  const Lock lock(mutex_);
  check_open(lock);
  captured_ |= captured;
  if (captured) return false;
  ++pushed_;
  if (captured_ || to_be_enqueued_ > 0) {
    ++to_be_enqueued_;
    return false;
  }
  calls_.push_back(call);
  return true;
}

void CallQueue::enqueue(const std::shared_ptr<Call>& call, bool launched) {
  const Lock lock(mutex_);
  if (!launched) --to_be_enqueued_;
  if (stopped_ || call->cancelled) return notify_ended(lock);
  calls_.push_back(call->replacement ? std::move(call->replacement) : call);
  if (launched) ++pushed_;
  bring_ready_forward(lock);
  notify_if_work(lock);
}

void CallQueue::cancel(const std::shared_ptr<Call>& call, bool enqueued) {
  const Lock lock(mutex_);
  call->cancelled = true;
  std::erase(calls_, call);
  bring_ready_forward(lock);
  if (!enqueued) --to_be_enqueued_;
  ++ended_;
  notify_ended(lock);
}

bool CallQueue::mark_ready(const std::shared_ptr<Call>& call, bool in_push) {
  const Lock lock(mutex_);
  call->op_has_run = true;
  call->ready = !stopped_;
  if (call->abandoned) fail_input(*call, kAbandoned);
  if (stopped_) return false;
  bring_ready_forward(lock);
  // A thread that has just pushed the call may be about to wait for it, and then runs it itself.
  in_push ? notify_unless_polling(lock) : notify_if_work(lock);
  return true;
}

// The skipped op may have ended the launch of its graph, and the next launch uses the same Call again, while this
// launch's call may not have run yet. So this launch's call becomes another Call.
void CallQueue::replace_skipped(const std::shared_ptr<Call>& call, const std::string& why) {
  const auto replacement = std::make_shared<Call>();
  replacement->what = call->what;
  fail_input(*replacement, why);
  replacement->ready = true;
  const Lock lock(mutex_);
  if (stopped_) return;
  const auto place = std::find(calls_.begin(), calls_.end(), call);
  (place == calls_.end() ? call->replacement : *place) = replacement;
  bring_ready_forward(lock);
  notify_if_work(lock);
}

void CallQueue::abandon(Call& call) {
  Lock lock(mutex_);
  call.abandoned = !call.op_has_run;
  ++waiting_;
  while (call.ready) {
    if (!running_ && !is_in_next_run(call)) {
      fail_input(call, kAbandoned);
      break;
    }
    call_ended_.wait(lock);
  }
  --waiting_;
}

// Whether the ranks have agreed to run the call as one with the calls before it, which are ready on all
// ranks.
bool CallQueue::is_in_next_run(const Call& call) const {
  if (run_as_one_ < 2) return false;
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(std::min(run_as_one_, calls_.size()));
  return std::any_of(calls_.begin(), end, [&](const auto& next) { return next.get() == &call; });
}

// With one rank: moves a ready call to the front, unless the call there is ready already. So calls that are
// to run as one stay in front.
void CallQueue::bring_ready_forward(const Lock&) {
  if (backend_.size() > 1 || calls_.empty() || calls_.front()->ready) return;
  const auto ready = std::find_if(calls_.begin(), calls_.end(), [](const auto& call) { return call->ready; });
  if (ready != calls_.end()) std::rotate(calls_.begin(), ready, ready + 1);
}

bool CallQueue::begin_direct_call() {
  const Lock lock(mutex_);
  check_open(lock);
  if (captured_ || running_ || !calls_.empty() || to_be_enqueued_ > 0 || on_device_ > 0) return false;
  return running_ = true;
}

void CallQueue::end_direct_call() {
  const Lock lock(mutex_);
  running_ = false;
  notify_ended(lock);
}

void CallQueue::begin_device_call() {
  const Lock lock(mutex_);
  check_open(lock);
  ++pushed_;
  ++on_device_;
}

void CallQueue::end_device_call() {
  const Lock lock(mutex_);
  ++ended_;
  --on_device_;
  notify_ended(lock);
}

bool CallQueue::close() {
  const Lock lock(mutex_);
  closed_ = true;
  return all_ended(lock);
}

bool CallQueue::wait_for_all(std::chrono::steady_clock::time_point deadline) {
  Lock lock(mutex_);
  ++waiting_;
  const bool all = call_ended_.wait_until(lock, deadline, [&] { return all_ended(lock); });
  --waiting_;
  if (!all) timed_out_ = true;
  return all;
}

void CallQueue::wait_for_running() {
  Lock lock(mutex_);
  ++waiting_;
  call_ended_.wait(lock, [this] { return !running_; });
  --waiting_;
}

bool CallQueue::has_ready_call(const Lock&) const {
  return !running_ && !timed_out_ && !calls_.empty() && calls_.front()->ready;
}

bool CallQueue::has_work(const Lock& lock) const {
  const bool at_end = timed_out_ || (closed_ && calls_.empty() && ended_ == pushed_);
  return has_ready_call(lock) || (at_end && !running_);
}

bool CallQueue::is_needed_for(const Lock&, const Var& var) const {
  if (!var || var == all_) return true;
  return std::any_of(calls_.rbegin(), calls_.rend(),
                     [&](const std::shared_ptr<Call>& call) { return call->ready && call->result == var; });
}

void CallQueue::poll(Lock& lock, std::chrono::microseconds interval) {
  polling_ = true;
  has_work_.wait_for(lock, interval);
  polling_ = false;
}

std::vector<std::shared_ptr<Call>> CallQueue::take(const Lock&) {
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(run_as_one_);
  std::vector<std::shared_ptr<Call>> calls(std::make_move_iterator(calls_.begin()),
                                           std::make_move_iterator(end));
  calls_.erase(calls_.begin(), end);
  calls.back()->what.record.ahead = count_fusable(calls_, backend_, fusion_bytes_);
  running_ = true;
  return calls;
}

void CallQueue::end(std::span<const std::shared_ptr<Call>> calls) {
  const Lock lock(mutex_);
  // `ready` is reset before the ops complete: after that a graph may be launched again and make the same
  // calls ready.
  for (const std::shared_ptr<Call>& call : calls) call->ready = false;
  ended_ += calls.size();
  running_ = false;
  run_as_one_ = std::max<std::size_t>(calls.back()->what.record.ahead, 1);
  bring_ready_forward(lock);
  notify_ended(lock);
}

std::vector<std::shared_ptr<Call>> CallQueue::stop(Lock& lock) {
  stopped_ = true;
  const auto left = std::exchange(calls_, {});
  std::vector<std::shared_ptr<Call>> ready;
  for (const std::shared_ptr<Call>& call : left) {
    if (std::exchange(call->ready, false)) ready.push_back(call);
  }
  if (waiting_ > 0) call_ended_.notify_all();
  // The lock is released first, since destroying `left` releases arrays, and their ops may call this queue.
  lock.unlock();
  return ready;
}

void CallQueue::notify_ended(const Lock& lock) {
  if (waiting_ > 0) call_ended_.notify_all();
  notify_unless_polling(lock);
}

// Notifies the progress thread only if it has work: a notification that finds nothing to do costs more than a
// small call.
void CallQueue::notify_if_work(const Lock& lock) {
  if (has_work(lock)) has_work_.notify_one();
}

void CallQueue::notify_unless_polling(const Lock& lock) {
  if (!polling_) notify_if_work(lock);
}

}  // namespace heddle::comm_detail
