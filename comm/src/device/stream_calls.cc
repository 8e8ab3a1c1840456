#include "device/stream_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tcp/call_watch.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;

// Between two looks at what is under way, and at whether a call has come onto its stream.
constexpr std::chrono::milliseconds kLook{5};
constexpr std::chrono::microseconds kNap{20};

std::uint64_t hash_of(std::uint64_t history, std::uint64_t call) {
  return (history ^ call) * 0x9e3779b97f4a7c15ull;
}

std::string name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

StreamCalls::StreamCalls(MeshTransport& control, CallNumbers& numbers, Recorder& recorder,
                         std::unique_ptr<DeviceRanks> ranks, Device device, int index,
                         std::chrono::milliseconds timeout)
    : control_(control),
      numbers_(numbers),
      recorder_(recorder),
      device_(device),
      index_(index),
      timeout_(timeout),
      ranks_(std::move(ranks)),
      thread_([this] { watch(); }) {}

// The others hear first how many calls this rank has made, so that they know which of theirs it has no part in.
StreamCalls::~StreamCalls() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
  thread_.join();
  end_ranks();
  if (latest_.sequence > 0) control_.waits_in(latest_);
}

// Those that are still there need not take part in it, but may.
void StreamCalls::end_ranks() noexcept {
  const std::lock_guard lock(ranks_mutex_);
  try {
    const auto deadline = Clock::now() + timeout_;
    if (control_.fault_state().failed() && !std::exchange(aborted_, true)) ranks_->abort();
    if (!aborted_) ranks_->finish();
    while (!aborted_ && ranks_->busy()) {
      check();
      if (Clock::now() > deadline) break;
      std::this_thread::sleep_for(kNap);
    }
  } catch (...) {  // then it does not end well
  }
  ranks_.reset();
}

void StreamCalls::check() const {
  if (control_.fault_state().failed()) control_.fault_state().raise();
}

void StreamCalls::begin(DeviceCall& call) {
  CallRecord& record = call.what.record;
  record.on_device = 1;
  numbers_.number(record);
  if (is_of_all(record)) record.history = history_ = hash_of(history_, record.agreement);
  call.numbered = true;
  call.begun = Clock::now();
  call.entry = recorder_.begin(record);
}

void StreamCalls::issue(DeviceCall& call, Stream& stream) {
  begin(call);
  const CallRecord& record = call.what.record;
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(&call);
    if (is_of_all(record)) latest_ = record;
  }
  wake_.notify_one();
  control_.began(record);
  std::unique_lock lock(ranks_mutex_);
  check();
  try {
    start(*ranks_, call.what, control_.rank(), stream);
    while (ranks_->busy()) {
      lock.unlock();
      std::this_thread::sleep_for(kNap);
      lock.lock();
      check();
    }
  } catch (...) {  // the others wait for this rank
    give_up(record, " failed in ", std::current_exception());
    // What has been begun would run later, on memory of others by then.
    if (!std::exchange(aborted_, true)) ranks_->abort();
    throw;
  }
}

void StreamCalls::give_up(const CallRecord& call, const char* what, const std::exception_ptr& why) {
  if (control_.fault_state().failed()) return;
  control_.fault_state().fail({Failure::Type::aborted, control_.rank(),
                               name(control_.rank()) + what + call.to_string() + ": " + message_of(why)});
}

std::exception_ptr StreamCalls::ended(DeviceCall& call, const std::exception_ptr& failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase(under_way_, &call);
  }
  std::exception_ptr error = failure;
  if (failure) give_up(call.what.record, " failed in ", failure);
  // An aborted call looks to its stream like any that has run.
  if (!failure && control_.fault_state().failed()) {
    try {
      control_.fault_state().raise();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (std::exchange(call.numbered, false)) recorder_.end(call.entry, error != nullptr);
  return error;
}

void StreamCalls::lost(DeviceCall& call, const std::exception_ptr& why) noexcept {
  begin(call);
  give_up(call.what.record, " has nothing to give to ", why);
  recorder_.end(call.entry, true);
}

void StreamCalls::watch() {
  std::unique_lock lock(mutex_);
  while (!leaving_) {
    if (under_way_.empty() && latest_.sequence == told_latest_) {
      wake_.wait(lock);
      continue;
    }
    wake_.wait_for(lock, kLook);
    const bool any = !under_way_.empty();
    const CallRecord oldest = any ? under_way_.front()->what.record : CallRecord();
    const bool late = any && Clock::now() - under_way_.front()->begun > CallWatch::kPatience;
    const CallRecord latest = latest_;
    lock.unlock();
    tell(late ? oldest : CallRecord(), latest);
    if (any) look(oldest);
    if (late) look_for_leavers(oldest);
    lock.lock();
  }
}

// In which call this rank waits, once; else how far it has come, now and then: what has fitted by chance shows then.
void StreamCalls::tell(const CallRecord& oldest, const CallRecord& latest) {
  const auto now = Clock::now();
  if (is_of_all(oldest) && oldest.sequence != told_oldest_) {
    told_oldest_ = oldest.sequence;
    control_.waits_in(oldest);
  } else if (latest.sequence != told_latest_ && now - told_at_ > CallWatch::kPatience) {
    told_latest_ = latest.sequence;
    told_at_ = now;
    control_.waits_in(latest);
  }
}

void StreamCalls::look(const CallRecord& oldest) {
  std::unique_lock lock(ranks_mutex_, std::try_to_lock);
  if (!lock || aborted_) return;  // whoever has it sees for itself what is wrong
  try {
    ranks_->busy();
  } catch (...) {
    give_up(oldest, " failed in ", std::current_exception());
  }
  if (!control_.fault_state().failed()) return;
  aborted_ = true;
  ranks_->abort();
}

// Who has left has made the calls that it told of, and no more. Of sends and recvs nobody knows how many there were: these
// must come to their end in time.
void StreamCalls::look_for_leavers(const CallRecord& call) {
  const bool of_all = is_of_all(call);
  bool left = false;
  int who = -1;
  for (int rank = 0; rank < control_.size() && !left; ++rank) {
    if (!control_.fault_state().left(rank) || (!of_all && rank != call.root)) continue;
    who = rank;
    left = !of_all || control_.latest_of(rank) < call.sequence;
  }
  if (!left) return void(left_since_ = {});
  const auto now = Clock::now();
  if (left_since_ == Clock::time_point{}) left_since_ = now;
  if (!of_all && now - left_since_ < timeout_) return;
  control_.fault_state().fail({Failure::Type::lost, who,
                               name(who) + " left the communicator, while " + name(control_.rank()) +
                                   " waits for it in " + call.to_string()});
}

}  // namespace heddle::comm_detail
