#include "server/job/waiting_requests.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "server/key/compression.h"

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kMostWaiting = 1 << 10;  // most requests of one worker that may wait at one key

std::size_t key_count(const Request& request) {
  return request.kind == Kind::pull_many ? request.entries.size() : 1;
}

// Number and clock of the key with this index in the request. A request that is no pull_many has one key.
std::pair<std::uint32_t, std::uint64_t> entry_of(const Request& request, std::size_t index) {
  if (request.kind != Kind::pull_many) return {request.key, request.clock};
  return {request.entries[index].key, request.entries[index].clock};
}

void check_waiting(const JobKey& key, std::uint32_t rank) {
  const std::vector<WaitingRequest>& all = key.waiting;
  const auto is_mine = [rank](const WaitingRequest& one) { return one.rank == rank; };
  if (all.size() >= kMostWaiting &&
      std::count_if(all.begin(), all.end(), is_mine) >= static_cast<std::ptrdiff_t>(kMostWaiting))
    throw MalformedMessage("key " + key->name() + ": " + std::to_string(kMostWaiting) +
                           " requests of the worker wait already");
}

}  // namespace

void WaitingRequests::answer_or_wait(WaitingRequest request) {
  request.left = key_count(request.request);
  answer_now(request, nullptr);
}

void WaitingRequests::answer(JobKey& key) {
  if (key.waiting.empty()) return;
  for (WaitingRequest& one : take(key)) {
    try {
      if (!answer_now(one, &key)) add(key, std::move(one));
    } catch (const std::bad_alloc&) {  // only this request fails: others may need less memory
      job_.replies.fail(one.rank, one.request,
                        "key " + key->name() + ": the server has no memory for the answer");
    }
  }
}

void WaitingRequests::answer_without_absent(JobKey& key) {
  answer(key);
  if (!key->has_value() && !job_.workers.required()[0])
    fail(key, "key " + key->name() + ": worker 0, whose value it would have, is gone");
}

void WaitingRequests::fail(JobKey& key, const std::string& why) {
  for (const WaitingRequest& one : take(key)) job_.replies.fail(one.rank, one.request, why);
}

void WaitingRequests::forget(std::uint32_t rank) {
  for (JobKey* const key : job_.keys.listed()) {
    const auto is_mine = [rank](const WaitingRequest& one) { return one.rank == rank; };
    if (std::none_of(key->waiting.begin(), key->waiting.end(), is_mine)) continue;
    for (WaitingRequest& one : take(*key)) {
      if (one.rank != rank) add(*key, std::move(one));
    }
  }
}

void WaitingRequests::forget_all() {
  for (JobKey* const key : job_.keys.listed()) take(*key);
}

std::vector<WaitingRequest> WaitingRequests::take(JobKey& key) {
  for (const WaitingRequest& one : key.waiting) {
    JobWorker& worker = job_.workers[one.rank];
    --worker.waiting;
    if (one.rows) BufferChange(job_.memory, worker)->waiting_bytes -= bytes_of(one.rows);
  }
  return std::exchange(key.waiting, {});
}

void WaitingRequests::add(JobKey& key, WaitingRequest request) {
  JobWorker& worker = job_.workers[request.rank];
  ++worker.waiting;
  if (request.rows) BufferChange(job_.memory, worker)->waiting_bytes += bytes_of(request.rows);
  key.waiting.push_back(std::move(request));
  job_.keys.list(key);
}

// Answers the request, or lets it wait at a key. A pull_many waits at one of its keys after the other, at the
// last key first, since that key is mostly pushed last. A key that is ready stays ready. `at`: the key at
// which the request has waited; null: none. Returns false if the request has to go on waiting at that key.
bool WaitingRequests::answer_now(WaitingRequest& request, const JobKey* at) {
  const auto& [rank, wanted, rows, left] = request;
  if (wanted.kind == Kind::init) return answer_init(request, at);
  const bool is_pull = wanted.kind != Kind::get_state;
  std::uint64_t staleness = 0;
  const auto lead = [&](const JobKey& key, std::uint64_t clock) -> std::optional<std::uint64_t> {
    if (!key->has_value()) return std::nullopt;
    return key->pushes().lead(rank, clock, job_.consistency(), job_.workers.pushing());
  };
  const auto has_failed = [&](const JobKey& key) {
    if (!is_pull || !key->failures.has(rank)) return false;
    job_.replies.fail(rank, wanted, key->failures.text(rank));
    return true;
  };
  for (std::size_t i = left; i-- > 0;) {
    const auto [number, clock] = entry_of(wanted, i);
    JobKey& key = job_.keys.of(number);
    if (has_failed(key)) return true;
    if (const auto mine = lead(key, clock)) {
      staleness = std::max(staleness, *mine);
      continue;
    }
    if (&key == at) return false;
    if (!at) check_waiting(key, rank);
    request.left = i + 1;
    add(key, std::move(request));
    return true;
  }
  for (std::size_t i = left; i < key_count(wanted); ++i) {
    const auto [number, clock] = entry_of(wanted, i);
    const JobKey& key = job_.keys.of(number);
    if (has_failed(key)) return true;
    staleness = std::max(staleness, lead(key, clock).value_or(0));
  }
  is_pull ? send_values(request, staleness) : send_state(request, job_.keys.of(wanted.key));
  return true;
}

bool WaitingRequests::answer_init(WaitingRequest& init, const JobKey* at) {
  JobKey& key = job_.keys.of(init.request.key);
  if (key->has_value()) {
    job_.replies.initialised(init, key->clock(init.rank));
    return true;
  }
  if (at) return false;
  check_waiting(key, init.rank);
  add(key, std::move(init));
  return true;
}

void WaitingRequests::send_state(const WaitingRequest& request, const JobKey& key) {
  const KeyOptimizer& optimizer = key->value().optimizer();
  if (!has_room(request, key, optimizer.bytes())) return;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode_state(optimizer.state()));
  job_.counters.held.add(bytes, bytes->size());
  job_.replies.value(request, key->rounds(), {bytes, *bytes});
}

void WaitingRequests::send_values(const WaitingRequest& pull, std::uint64_t staleness) {
  const bool is_bundle = pull.request.kind == Kind::pull_many;
  const Payload bundle = is_bundle ? values_of(pull.request) : Payload();
  const std::size_t pulls = key_count(pull.request);
  job_.counters.pulls += pulls;
  job_.workers[pull.rank].stats.pulls += pulls;
  job_.counters.worst_staleness = std::max(job_.counters.worst_staleness, staleness);
  if (is_bundle) return job_.replies.value(pull, 0, bundle);
  const JobKey& key = job_.keys.of(pull.request.key);
  if (!pull.request.text.empty()) return send_compressed(pull, key);
  if (pull.rows) return send_rows(pull, key);
  job_.replies.value(pull, key->rounds(), key->value().payload());
}

// The values of all keys of a pull_many, in sequence.
Payload WaitingRequests::values_of(const Request& pull) {
  std::uint64_t bytes = 0;
  for (const BundleEntry& entry : pull.entries) bytes += job_.keys.of(entry.key)->bytes();
  const auto values = std::make_shared<std::vector<std::byte>>();
  values->reserve(bytes);
  for (const BundleEntry& entry : pull.entries) {
    const Payload value = job_.keys.of(entry.key)->value().payload();
    values->insert(values->end(), value.bytes.begin(), value.bytes.end());
  }
  job_.counters.held.add(values, bytes);
  return {values, *values};
}

void WaitingRequests::send_rows(const WaitingRequest& pull, const JobKey& key) {
  const std::uint64_t bytes = pull.rows->size() * pull.request.row_bytes;
  if (!has_room(pull, key, bytes)) return;
  const auto rows = std::make_shared<const NDArray>(key->value().rows(pull.rows, pull.request.row_bytes));
  job_.counters.held.add(rows, bytes);
  job_.replies.value(pull, key->rounds(), {rows, {rows->data<const std::byte>(), bytes}});
}

void WaitingRequests::send_compressed(const WaitingRequest& pull, const JobKey& key) {
  JobWorker& worker = job_.workers[pull.rank];
  std::string why;
  // No copy is kept for a worker that is gone, since it asks for the whole value when it is back.
  const bool room = worker.peer != 0 && job_.memory.has_room(key->bytes(), why);
  const auto has = static_cast<std::uint32_t>(pull.request.bytes);
  PullCache::Answer answer;
  {
    BufferChange buffers(job_.memory, worker);
    try {
      answer = buffers->sent.answer(*key, *codec_of(pull.request), has, room);
    } catch (const std::bad_alloc&) {
      buffers->sent.clear();
      const Payload value = key->value().payload();
      answer = {value.owner, value.bytes, 0};
    }
  }
  job_.replies.value(pull, key->rounds(), {answer.owner, answer.bytes}, answer.number);
}

// Whether there is room for an answer of so many bytes. False: the worker has been told.
bool WaitingRequests::has_room(const WaitingRequest& request, const JobKey& key, std::uint64_t bytes) {
  std::string why;
  if (job_.make_room(bytes, why)) return true;
  ++job_.counters.refused;
  job_.replies.fail(request.rank, request.request,
                    "key " + key->name() + ", worker " + std::to_string(request.rank) + ": " + why);
  return false;
}

}  // namespace heddle::kv_detail
