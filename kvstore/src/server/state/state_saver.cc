#include "server/state/state_saver.h"

#include <algorithm>
#include <new>
#include <utility>

#include "server/replica/keep_alive.h"

namespace heddle::kv_detail {
namespace {

Payload copy_of(std::span<const std::byte> bytes) {
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {copy, *copy};
}

// The payload holds the storage, so that the array is not changed in place before the payload is written or
// sent.
Payload bytes_of(const NDArray& array, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return {array.storage(), {array.data<const std::byte>(), bytes}};
}

}  // namespace

StateSaver::StateSaver(const ServerCore& core, std::uint16_t version) : core_(core), version_(version) {
  const Counters& counted = core.counters_;
  Messages first;
  put(first, StateBegin{.version = version_,
                        .number = static_cast<std::uint32_t>(core.options_.number),
                        .servers = static_cast<std::uint32_t>(core.options_.servers),
                        .incarnation = core.incarnation_,
                        .jobs_begun = core.jobs_begun_,
                        .pushes = counted.pushes,
                        .pulls = counted.pulls,
                        .duplicates = counted.duplicates,
                        .refused = counted.refused,
                        .rounds = counted.rounds,
                        .worst_staleness = counted.worst_staleness});
  jobs_.push_back({.job = nullptr, .heads = std::move(first)});
  for (const auto& [name, job] : core.jobs_) {
    SavedJob& saved = jobs_.emplace_back();
    saved.job = job;
    saved.keys = job->state().keys.size();
    put_job(saved.heads, *job);
    numbers_[&job->state().keys] = jobs_.size() - 1;
  }
  core.changes_.savers.push_back(this);
}

StateSaver::~StateSaver() { end(); }

void StateSaver::end() { std::erase(core_.changes_.savers, this); }

bool StateSaver::go_on(std::size_t keys, const StateSink& sink) {
  if (failed_) throw std::bad_alloc();
  while (job_ < jobs_.size()) {
    SavedJob& job = jobs_[job_];
    hand_out(std::exchange(job.heads, {}), sink);
    for (; key_ < job.keys; ++key_) {
      if (keys-- == 0) return false;
      hand_out(take_key(job), sink);
    }
    if (job.job) numbers_.erase(&job.job->state().keys);
    job.job = nullptr;
    key_ = 0;
    ++job_;
  }
  end();
  Messages last;
  put(last, StateEnd{messages_});
  hand_out(std::move(last), sink);
  return true;
}

void StateSaver::keep(const KeyTable& keys, const JobKey& key) noexcept {
  const auto found = numbers_.find(&keys);
  if (found == numbers_.end() || failed_) return;
  SavedJob& saved = jobs_[found->second];
  const std::size_t index = key.index();
  const bool passed = found->second == job_ && index < key_;
  if (passed || index >= saved.keys || saved.kept.contains(index)) return;
  try {
    Messages messages;
    put_key(messages, key);
    saved.kept.emplace(index, std::move(messages));
  } catch (const std::bad_alloc&) {
    failed_ = true;
  }
}

StateSaver::Messages StateSaver::take_key(SavedJob& saved) {
  if (auto kept = saved.kept.extract(key_)) return std::move(kept.mapped());
  Messages messages;
  put_key(messages, *saved.job->state().keys.all()[key_]);
  return messages;
}

void StateSaver::hand_out(Messages messages, const StateSink& sink) {
  for (SavedMessage& one : messages) {
    ++messages_;
    sink(std::move(one.head), std::move(one.payload));
  }
  keep_alive();
}

void StateSaver::put(Messages& to, const StateRecord& record, Payload payload) const {
  to.push_back({encode(record, version_), std::move(payload)});
}

void StateSaver::put_job(Messages& to, const Job& job) const {
  const JobState& state = job.state();
  const UpdateRule& rule = state.optimizer.rule;
  const bool adds = rule.kind == UpdateRule::Kind::add, replaces = rule.kind == UpdateRule::Kind::replace;
  put(to,
      StateJob{.name = job.name(),
               .consistency = state.consistency_text,
               .rule = replaces ? "" : update_rule_text(rule.name, adds ? OptimizerParams{} : rule.params),
               .incarnation = state.incarnation,
               .workers = state.workers.size(),
               .servers = state.servers,
               .restored = state.restored.when(),
               .generation = state.keys.generation(),
               .weights = state.optimizer.weights,
               .settings = state.counts.settings,
               .collectives = state.counts.collectives});
  for (const JobWorker& worker : state.workers.all()) put_worker(to, worker);
  for (const auto& [rank, request] : state.workers.calls()) put(to, StateCollective{rank, request});
}

void StateSaver::put_worker(Messages& to, const JobWorker& worker) const {
  put(to, StateWorker{.greeted = worker.greeted,
                      .left = worker.left,
                      .dropped = worker.dropped,
                      .rejoined = worker.rejoined,
                      .incarnation = worker.incarnation,
                      .collective_done = worker.collective_done,
                      .collective_failure = worker.collective_failure,
                      .pushes = worker.stats.pushes,
                      .pulls = worker.stats.pulls,
                      .bytes_received = worker.stats.bytes_received,
                      .bytes_sent = worker.stats.bytes_sent,
                      .clock = worker.stats.clock,
                      .state_set = worker.state_set,
                      .passed = worker.passed,
                      .lost_settings = worker.lost_settings});
}

void StateSaver::put_key(Messages& to, const JobKey& key) const {
  const Clocks clocks = key->pushes().clocks();
  put(to, key->saved(key.number()), copy_of(encode_clocks(clocks.clocks, clocks.missed)));
  put_arrays(to, *key);
}

void StateSaver::put_arrays(Messages& to, const StoredKey& key) const {
  if (key.has_value()) put_array(to, {.dtype = key.dtype(), .bytes = key.bytes()}, key.value().payload());
  const std::vector<PushQueues::OfWorker>& workers = key.pushes().workers();
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank) {
    for (const Push& push : workers[rank].waiting) put_push(to, key, rank, push);
  }
  for (const auto& [name, values] : key.value().optimizer().shared_state()) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(values.size()) * size_of(values.dtype());
    put_array(to,
              {.role = StateArray::Role::optimizer, .dtype = values.dtype(), .bytes = bytes, .name = name},
              bytes_of(values, bytes));
  }
}

void StateSaver::put_push(Messages& to, const StoredKey& key, std::uint32_t rank, const Push& push) const {
  const bool has_rows = push.rows.defined();
  const std::uint64_t row_bytes =
      has_rows ? static_cast<std::uint64_t>(push.value.shape()[1]) * size_of(key.dtype()) : 0;
  put_array(to,
            {.role = StateArray::Role::push,
             .overwrite = push.overwrite,
             .has_value = push.value.defined(),
             .dtype = key.dtype(),
             .rank = rank,
             .bytes = push.bytes(),
             .row_bytes = row_bytes,
             .lr = push.lr,
             .scale = push.scale},
            // In memory the values of the rows follow their numbers.
            bytes_of(has_rows ? push.rows : push.value, push.bytes()));
}

void StateSaver::put_array(Messages& to, StateArray array, const Payload& whole) const {
  std::span<const std::byte> left = whole.bytes;
  const auto next = [&] {
    const auto piece = left.first(std::min(left.size(), kPieceBytes));
    left = left.subspan(piece.size());
    return Payload{whole.owner, piece};
  };
  put(to, array, next());
  while (!left.empty()) put(to, StatePiece{}, next());
}

}  // namespace heddle::kv_detail
