#include "server/job/key_updates.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "wire/state_blob.h"

namespace heddle::kv_detail {
namespace {

// A former value with fewer bytes is not counted as held by replies.
constexpr std::uint64_t kSmallValue = 64 << 10;

std::weak_ptr<const void> former_value(const StoredKey& key) {
  if (!key.has_value() || key.bytes() < kSmallValue) return {};
  return key.value().payload().owner;
}

// Counts `former`, the value before an update, if replies still hold it.
void count_former(HeldMemory& held, const StoredKey& key, const std::weak_ptr<const void>& former) {
  const std::shared_ptr<const void> still = former.lock();
  if (still && still != key.value().payload().owner) held.add(former, key.bytes());
}

Request push_of(const Request& bundle, const BundleEntry& entry) {
  return {.kind = Kind::push,
          .dtype = entry.dtype,
          .key = entry.key,
          .number = bundle.number,
          .clock = entry.clock,
          .bytes = entry.bytes,
          .lr = bundle.lr,
          .scale = bundle.scale,
          .priority = bundle.priority};
}

// Most bytes that the table of rows with state will take, in addition to the bytes of the state itself.
std::uint64_t row_slot_bytes(const StateArrays& state, std::size_t whole, std::uint64_t row_bytes) {
  const auto rows = state.find("rows");
  if (rows != state.end()) return static_cast<std::uint64_t>(rows->second.size()) * kRowSlotBytes;
  return row_bytes == 0 ? 0 : whole / row_bytes * kRowSlotBytes;
}

}  // namespace

void KeyUpdates::init(std::uint32_t rank, const Request& request, std::size_t payload) {
  JobKey* const found = admission_.key_of_init(rank, request, payload);
  if (!found) return;
  JobKey& key = *found;
  if (admission_.fail_refused(rank, request, key, payload)) return;
  if (request.has_value && !key->has_value()) {
    const Incoming* const value = admission_.arrived(rank, request, key, payload);
    if (!value) return;
    const Recorded recorded = job_.log.request(rank, request, *value);
    KeyChange(recorded, job_.keys, key)
        ->set_value(BufferChange(job_.memory, job_.workers[rank])->incoming.take(*key).memory());
    waiting_.answer(key);
  } else if (request.bytes != key->bytes() || request.dtype != key->dtype() ||
             is_other_whole(request, *key)) {
    if (payload == 0) admission_.begin(rank, request, key, payload);  // tells the worker why it is refused
    return;
  } else if (request.has_value && !is_last(request, payload)) {
    return;
  }
  WaitingRequest mine{rank, request};
  mine.request.key = key.number();
  waiting_.answer_or_wait(std::move(mine));
  if (key->has_value() || job_.workers.required()[0]) return;
  // Worker 0 is gone: requests that wait for a value which it has to send fail.
  job_.keys.visit_listed([this](JobKey& one) {
    waiting_.answer_without_absent(one);
    job_.keys.list(one);
  });
}

void KeyUpdates::push(std::uint32_t rank, const Request& request, std::size_t payload) {
  JobKey& key = job_.keys.of(request.key);
  if (request.clock <= key->clock(rank)) {
    if (!is_last(request, payload)) return;
    ++job_.counters.duplicates;
    return job_.replies.done(rank, request);
  }
  if (request.clock != key->clock(rank) + 1) throw MalformedMessage("a push before the one before it");
  Push push{.overwrite = request.overwrite, .lr = request.lr, .scale = request.scale};
  const auto applied = [&](Recorded recorded, std::uint64_t state) {
    apply(recorded, rank, request, key, [&](StoredKey& stored) {
      if (state > 0) stored.reserve_state(stored.memory().state + state);
      stored.push(rank, std::move(push), job_.consistency(), job_.optimizer.rule, job_.workers.pushing());
    });
  };
  if (request.overwrite && !request.has_value) {
    const std::string why = admission_.problem_with(rank, request, *key);
    return why.empty() ? applied(job_.log.request(rank, request), 0) : job_.replies.fail(rank, request, why);
  }
  if (admission_.fail_refused(rank, request, key, payload)) return;
  Incoming* const value = admission_.arrived(rank, request, key, payload);
  if (!value) return;
  value->complete();
  std::uint64_t state = 0;
  if (!admission_.make_room_for_state(rank, request, key, *value, push.state_bytes, state)) return;
  const Recorded recorded = job_.log.request(rank, request, *value);
  BufferChange(job_.memory, job_.workers[rank])->incoming.take(*key).put_into(push);
  applied(recorded, state);
}

// Does what every push that counts needs: statistics, the change of the key, which is `push`, and answers.
template <class F>
void KeyUpdates::apply(Recorded recorded, std::uint32_t rank, const Request& request, JobKey& key, F push) {
  ++job_.counters.pushes;
  WorkerStats& stats = job_.workers[rank].stats;
  ++stats.pushes;
  stats.clock = std::max(stats.clock, static_cast<std::int64_t>(request.clock));
  const std::uint64_t rounds = key->rounds();
  const std::weak_ptr<const void> former = former_value(*key);
  push(*KeyChange(recorded, job_.keys, key));
  count_former(job_.counters.held, *key, former);
  job_.counters.rounds += key->rounds() - rounds;
  job_.replies.done(rank, request);
  waiting_.answer(key);
}

// If the worker repeats a push_many whose reply was lost, nothing changes, since its pushes have been
// counted.
void KeyUpdates::push_many(std::uint32_t rank, const Request& request) {
  BundleReply reply(job_.replies, rank, request);
  const std::span<const std::byte> values(job_.workers[rank].bundle);
  std::size_t offset = 0;
  for (const BundleEntry& entry : request.entries) {
    push_one(rank, push_of(request, entry), values.subspan(offset, entry.bytes));
    offset += entry.bytes;
    reply.next();
  }
  reply.send();
}

void KeyUpdates::push_one(std::uint32_t rank, const Request& request, std::span<const std::byte> value) {
  if (const std::string why = job_.restored.lost(rank, request); !why.empty())
    return job_.replies.fail(rank, request, why);
  JobKey& key = job_.keys.of(request.key);
  if (replace_at_once(rank, request, value, key)) return;
  if (!value.empty() && request.clock > key->clock(rank)) {
    if (!admission_.begin(rank, request, key, value.size())) return;
    BufferChange buffers(job_.memory, job_.workers[rank]);
    std::memcpy(buffers->incoming.find(*key)->at(0), value.data(), value.size());
  }
  push(rank, request, value.size());
}

// A fast path for pushes that replace the value, if there is no backup. It takes a tenth of the time of
// push(). False: the fast path cannot be taken, and nothing has been done.
bool KeyUpdates::replace_at_once(std::uint32_t rank, const Request& request, std::span<const std::byte> value,
                                 JobKey& key) {
  std::string why;
  const bool may = !job_.log.has_backup() && !job_.in_rounds() &&
                   job_.optimizer.rule.kind == UpdateRule::Kind::replace &&
                   request.clock == key->clock(rank) + 1 && !value.empty() && value.size() == key->bytes() &&
                   request.dtype == key->dtype() && !key->failures.has(rank) &&
                   !job_.workers[rank].buffers->incoming.has(*key) &&
                   job_.memory.has_room(key->bytes(), why) && key->value().may_change_in_place();
  if (!may) return false;
  apply(job_.log.request(rank, request), rank, request, key,
        [&](StoredKey& stored) { stored.replace(rank, value); });
  return true;
}

void KeyUpdates::set_state(std::uint32_t rank, const Request& request, std::size_t payload) {
  JobWorker& worker = job_.workers[rank];
  if (!is_last(request, payload)) return;
  if (request.number <= worker.state_set) return job_.replies.done(rank, request);
  if (const std::string why = worker.buffers->state_refusal; !why.empty()) {
    BufferChange(job_.memory, worker)->state_refusal.clear();
    return job_.replies.fail(rank, request, why);
  }
  const std::shared_ptr<const std::vector<std::byte>> whole =
      worker.buffers->state ? worker.buffers->state : std::make_shared<std::vector<std::byte>>();
  if (whole->size() != request.bytes) return;
  JobKey& key = job_.keys.of(request.key);
  std::string why;
  std::optional<KeyOptimizer> optimizer = optimizer_in(*whole, request, key, why);
  BufferChange(job_.memory, worker)->forget_state();
  if (!optimizer) return job_.replies.fail(rank, request, "key " + key->name() + ": " + why);
  {
    KeyChange change(job_.log.request(rank, request, {whole, *whole}), job_.keys, key);
    change->set_optimizer(std::move(*optimizer));
    change->reserve_for_waiting(job_.optimizer.rule, job_.optimizer.size(key->dtype()));
  }
  worker.state_set = request.number;
  ++job_.counts.settings;
  job_.replies.done(rank, request);
}

// An optimizer with the state that a set_state has sent; empty: `why` says why that state cannot be set.
// Needs room for the decoded arrays, in addition to the received bytes and to the state that the key has.
std::optional<KeyOptimizer> KeyUpdates::optimizer_in(const std::vector<std::byte>& state,
                                                     const Request& request, const JobKey& key,
                                                     std::string& why) {
  const auto has_room = [&](std::uint64_t bytes) {
    if (job_.make_room(bytes, why)) return true;
    ++job_.counters.refused;
    return false;
  };
  if (!key->has_value()) {
    why = "it has no value yet";
    return {};
  }
  try {
    if (!has_room(state.size())) return {};
    const StateArrays arrays = decode_state(state);
    if (!has_room(state.size() + row_slot_bytes(arrays, state.size(), request.row_bytes))) return {};
    return key->value().optimizer_with(job_.optimizer.rule, arrays, request.row_bytes);
  } catch (const InvalidArgument& error) {
    why = error.what();
    return {};
  }
}

void KeyUpdates::clear_errors(std::uint32_t rank, const Request& request) {
  const Recorded recorded = job_.log.request(rank, request);
  for (const auto& key : job_.keys.all()) {
    if (!(*key)->failures.has(rank)) continue;
    KeyChange(recorded, job_.keys, *key)->clear_failure(rank, job_.consistency());
    waiting_.answer(*key);
  }
  job_.replies.done(rank, request);
}

void KeyUpdates::complete_rounds(Recorded recorded) {
  job_.keys.visit_listed([&](JobKey& key) {
    KeyChange change(recorded, job_.keys, key);
    job_.counters.rounds += change->complete_rounds(job_.optimizer.rule, job_.workers.pushing());
    change.count();
    waiting_.answer_without_absent(key);
  });
}

void KeyUpdates::reset_optimizers(Recorded recorded) {
  for (const auto& key : job_.keys.all()) KeyChange(recorded, job_.keys, *key)->set_optimizer({});
  for (JobKey* const key : job_.keys.listed()) reserve_for_waiting(recorded, *key);
}

// Called when the update rule has changed: reserves memory for the optimizer state that waiting pushes will
// make, whose size depends on the rule.
void KeyUpdates::reserve_for_waiting(Recorded recorded, JobKey& key) {
  const std::uint64_t before = key.counted.total();
  KeyChange change(recorded, job_.keys, key);
  change->reserve_for_waiting(job_.optimizer.rule, job_.optimizer.size(key->dtype()));
  const std::uint64_t after = key->memory().total();
  if (std::string why; after > before && !job_.memory.has_room(after - before, why))
    job_.keys.fail(key, "key " + key->name() + ": " + why);
}

}  // namespace heddle::kv_detail
