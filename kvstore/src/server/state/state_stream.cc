#include "server/state/state_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

constexpr std::uint64_t kAtOnce = 64 << 20;  // most bytes that are allocated for an array when it begins
constexpr std::uint64_t kGrowth = 4, kAlignment = 64;
// An optimizer's array may have kMostTimes the bytes of the key's value, or kCounts bytes if that is more.
constexpr std::uint64_t kMostTimes = 8, kCounts = 64 << 10;

void check(bool good, const char* wrong) {
  if (!good) throw MalformedMessage(wrong);
}

}  // namespace

void save_state(const ServerCore& core, const StateSink& sink, std::uint16_t version) {
  StateSaver(core, version).go_on(~std::size_t{0}, sink);
}

StateLoader::StateLoader(ServerCore& empty, Clock::time_point now) : core_(empty), now_(now) {
  if (!core_.jobs_.empty() || !core_.sessions_.empty())
    throw InvalidArgument("StateLoader: the server has jobs or connections already");
}

StateLoader::~StateLoader() {
  if (!complete()) core_.jobs_.clear();
}

void StateLoader::add(Bytes head, Bytes payload) {
  const Stage stage = std::exchange(stage_, Stage::failed);
  check(stage != Stage::failed, "a message of a state that was wrong before");
  check(stage != Stage::complete, "a message after the end of a state");
  check(payload.size() <= kPieceBytes, "a piece that is too long");
  const StateRecord record = decode_state_record(head, begin_.version);
  check((stage == Stage::begin) == std::holds_alternative<StateBegin>(record),
        "a state that does not begin with its beginning");
  check(in_array_ == std::holds_alternative<StatePiece>(record),
        "a piece of no array, or one that is missing");
  try {
    std::visit([&](const auto& one) { take(one, payload); }, record);
  } catch (const InvalidArgument& error) {
    throw MalformedMessage(error.what());
  }
  ++messages_;
  stage_ = std::holds_alternative<StateEnd>(record) ? Stage::complete : Stage::jobs;
}

void StateLoader::take(const StateBegin& begin, Bytes payload) {
  check(payload.empty(), "a beginning with a payload");
  const auto number = static_cast<std::uint32_t>(core_.options_.number),
             servers = static_cast<std::uint32_t>(core_.options_.servers);
  if (begin.number != number || begin.servers != servers) {
    throw MalformedMessage("the state of server " + std::to_string(begin.number) + " of " +
                           std::to_string(begin.servers) + "; this is server " + std::to_string(number) +
                           " of " + std::to_string(servers));
  }
  begin_ = begin;
}

void StateLoader::take(const StateJob& job, Bytes payload) {
  check(payload.empty(), "a job with a payload");
  finish_key();
  if (job_) whole_job();
  check(job.servers == begin_.servers, "a job of another number of servers");
  const Hello hello{
      .job = job.name, .consistency = job.consistency, .workers = job.workers, .servers = job.servers};
  auto made = std::make_shared<Job>(hello, job.incarnation, core_.host_of(job.name), now_);
  JobState& state = made->state_;
  state.optimizer.rule = parse_update_rule(job.rule);
  state.optimizer.weights = job.weights;
  state.restored.set(job.restored);
  state.keys.set_generation(job.generation);
  state.counts = {.settings = job.settings, .collectives = job.collectives};
  job_ = &state;
  workers_ = 0;
  check(core_.jobs_.emplace(job.name, std::move(made)).second, "a job that comes twice");
}

void StateLoader::take(const StateWorker& worker, Bytes payload) {
  check(payload.empty(), "a worker with a payload");
  check(job_ && workers_ < job_->workers.size(), "a worker of no job");
  JobWorker& mine = job_->workers[workers_];
  mine.greeted = worker.greeted;
  mine.rejoined = worker.rejoined;
  mine.incarnation = worker.incarnation;
  mine.collective_done = worker.collective_done;
  mine.collective_failure = worker.collective_failure;
  mine.state_set = worker.state_set;
  mine.passed = worker.passed;
  mine.lost_settings = worker.lost_settings;
  mine.stats.pushes = worker.pushes;
  mine.stats.pulls = worker.pulls;
  mine.stats.bytes_received = worker.bytes_received;
  mine.stats.bytes_sent = worker.bytes_sent;
  mine.stats.clock = worker.clock;
  if (worker.left) job_->workers.leave(workers_);
  if (worker.dropped) job_->workers.drop(workers_);
  ++workers_;
}

JobState& StateLoader::whole_job() {
  check(job_ != nullptr, "a part of no job");
  check(workers_ == job_->workers.size(), "a job without all of its workers");
  return *job_;
}

void StateLoader::take(const StateCollective& collective, Bytes payload) {
  check(payload.empty(), "a collective with a payload");
  JobState& job = whole_job();
  check(!key_ && job.keys.size() == 0, "a collective after a key");
  check(collective.rank < job.workers.size(), "a collective of a worker that there is not");
  check(!job.workers.has_called(collective.rank), "a collective that comes twice");
  job.workers.add_call(collective.rank, collective.request);
}

void StateLoader::take(const StateKey& key, Bytes payload) {
  JobState& job = whole_job();
  finish_key();
  const bool is_ordered = job.settings.is_ordered();
  check((key.number & kKeyIndex) == job.keys.size(), "keys that are not in the order of their numbers");
  check(!job.keys.has(key.name), "a key that comes twice");
  check((key.place != StateKey::kNoIndex) == is_ordered, "a key without a place, or with one");
  check(!is_ordered || !job.keys.has_place(key.place), "two keys of one place");
  for (const StateKey::Failure& one : key.failures)
    check(one.rank < job.workers.size(), "a failure of a worker that there is not");
  key_.emplace(key, decode_clocks(payload, job.workers.size()));
  number_ = key.number;
}

void StateLoader::take(const StateArray& array, Bytes payload) {
  check(key_.has_value(), "an array of no key");
  const bool is_state = array.role == StateArray::Role::optimizer;
  if (array.row_bytes > 0) {
    const Request push{.dtype = array.dtype, .bytes = array.bytes, .row_bytes = array.row_bytes};
    check(array.dtype == key_->dtype() && row_problem(push, key_->bytes(), key_->dtype()).empty(),
          "rows of another value");
  } else if (!is_state && array.has_value) {
    check(array.dtype == key_->dtype() && array.bytes == key_->bytes(),
          "a value of another size than its key");
  }
  check(!is_state || array.bytes <= kCounts || array.bytes / kMostTimes <= key_->bytes(),
        "an optimizer's array that is too long");
  check(payload.size() == std::min<std::uint64_t>(array.bytes, kPieceBytes),
        "an array without its first piece");
  array_ = array;
  memory_ = NDArray({0}, array.dtype);
  filled_ = 0;
  fill(payload);
}

void StateLoader::take(const StatePiece&, Bytes payload) {
  check(payload.size() == std::min<std::uint64_t>(array_.bytes - filled_, kPieceBytes),
        "a piece of another length than it should have");
  fill(payload);
}

// Adds a piece to the array that is being loaded. The size of the array may be announced falsely, so memory
// is not allocated at once, but grows with the pieces that arrive.
void StateLoader::fill(Bytes piece) {
  const auto element = size_of(array_.dtype);
  const std::uint64_t room = static_cast<std::uint64_t>(memory_.size()) * element,
                      needed = filled_ + piece.size();
  if (needed > room) {
    const std::uint64_t wanted =
        std::max({kAtOnce, kGrowth * room, needed + kAlignment}) / kAlignment * kAlignment;
    const NDArray larger({static_cast<std::int64_t>(std::min(array_.bytes, wanted) / element)}, array_.dtype);
    auto* const to = larger.data<std::byte>();
    if (filled_ > 0) std::memcpy(to, memory_.data<const std::byte>(), filled_);
    memory_ = larger;
  }
  if (!piece.empty()) std::memcpy(memory_.data<std::byte>() + filled_, piece.data(), piece.size());
  filled_ = needed;
  in_array_ = filled_ < array_.bytes;
  if (!in_array_) finish_array();
}

void StateLoader::finish_array() {
  NDArray values = std::exchange(memory_, {});
  switch (array_.role) {
    case StateArray::Role::value:
      check(!key_->has_value(), "a key with two values");
      return key_->set_value(std::move(values));
    case StateArray::Role::push:
      return finish_push(array_.has_value ? std::move(values) : NDArray());
    case StateArray::Role::optimizer:
      check(key_->has_value(), "an optimizer's state of no value");
      check(optimizer_.emplace(array_.name, std::move(values)).second,
            "an optimizer's array that comes twice");
  }
}

void StateLoader::finish_push(NDArray value) {
  const std::uint32_t rank = array_.rank;
  check(job_->in_rounds(), "a push that waits where pushes count at once");
  check(rank < job_->workers.size(), "a push of a worker that there is not");
  check(key_->pushes().ahead(rank) < key_->clock(rank), "more pushes than the worker has made");
  Push push{.overwrite = array_.overwrite, .lr = array_.lr, .scale = array_.scale};
  if (array_.row_bytes > 0) {
    const auto bytes = static_cast<std::int64_t>(array_.bytes);
    RowValues rows = rows_in(NDArray(value.storage(), {bytes}, DType::u8), array_.row_bytes, key_->dtype(),
                             key_->bytes() / array_.row_bytes);
    push.rows = std::move(rows.rows);
    push.value = std::move(rows.values);
  } else {
    push.value = std::move(value);
  }
  key_->add_push(rank, std::move(push));
}

void StateLoader::finish_key() {
  if (!key_) return;
  JobOptimizer& optimizer = job_->optimizer;
  check(optimizer_.empty() || optimizer.rule.kind == UpdateRule::Kind::optimizer,
        "an optimizer's state where there is no optimizer");
  if (!optimizer_.empty())
    key_->set_optimizer(key_->value().optimizer_with(optimizer.rule, std::exchange(optimizer_, {})));
  key_->reserve_for_waiting(optimizer.rule, optimizer.size(key_->dtype()));
  job_->keys.add(number_, std::move(*key_));
  key_.reset();
}

void StateLoader::take(const StateEnd& end, Bytes payload) {
  check(payload.empty(), "an end with a payload");
  finish_key();
  if (job_) whole_job();
  if (end.messages != messages_) {
    throw MalformedMessage("the state has " + std::to_string(messages_) + " messages; " +
                           std::to_string(end.messages) + " were written");
  }
  core_.incarnation_ = begin_.incarnation;
  core_.jobs_begun_ = begin_.jobs_begun;
  core_.counters_ = {.pushes = begin_.pushes,
                     .pulls = begin_.pulls,
                     .duplicates = begin_.duplicates,
                     .refused = begin_.refused,
                     .rounds = begin_.rounds,
                     .worst_staleness = begin_.worst_staleness,
                     .overhead = core_.counters_.overhead,  // counted when the jobs and keys were loaded
                     .held = std::move(core_.counters_.held)};
}

}  // namespace heddle::kv_detail
