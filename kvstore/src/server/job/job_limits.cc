// Limits of what one worker can take from a job, and refusals.
#include <algorithm>
#include <utility>

#include "server/job/compression.h"
#include "server/job/job.h"

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kMostWaiting = 1 << 10;  // most requests of a worker at one key; no program needs more

}  // namespace

bool Job::has_room_for_key(const Request& request, std::string& why) const {
  return numbers_.contains(request.text) ||
         memory_.has_room_for_overhead(StoredKey::overhead(request.text.size(), workers_.size()), why);
}

std::uint64_t Job::overhead(std::uint32_t workers) { return sizeof(Job) + workers * sizeof(Worker); }

// Frees copies of sent values if there is no room: they can be made again.
bool Job::make_room(std::uint64_t bytes, std::string& why) {
  if (memory_.has_room(bytes, why)) return true;
  for (Worker& one : workers_) forget_sent(one);
  why.clear();
  return memory_.has_room(bytes, why);
}

void Job::forget_buffers(Worker& worker) {
  worker.state = {};
  worker.state_refusal.clear();
  worker.row_lists.clear();
  memory_.recount(worker);
}

// Forgets the worker's requests: it repeats those without an answer.
void Job::forget_requests(std::uint32_t rank) {
  drop_incoming(rank);
  for (StoredKey* const key : keys_with_waiters_) {
    const std::vector<WaitingRequest>& all = key->waiting();
    const auto is_mine = [rank](const WaitingRequest& one) { return one.rank == rank; };
    if (std::none_of(all.begin(), all.end(), is_mine)) continue;
    for (WaitingRequest& one : take_waiting(*key)) {
      if (one.rank != rank) add_waiting(*key, std::move(one));
    }
  }
}

// Allocates the memory that a set_state is received into; it stays empty if there is no room.
void Job::begin_state(std::uint32_t rank, const Request& request, const StoredKey& key) {
  Worker& worker = workers_[rank];
  worker.state = {};
  worker.state_refusal.clear();
  memory_.recount(worker);
  if (std::string why; make_room(request.bytes, why)) {
    worker.state.assign(request.bytes, std::byte{0});
    return memory_.recount(worker);
  } else {
    ++counters_.refused;
    worker.state_refusal = "key " + key.name() + ", worker " + std::to_string(rank) + ": " + why;
  }
}

// False: there is no room, and the worker has been told.
bool Job::has_room_for_answer(const WaitingRequest& waiting, const StoredKey& key, std::uint64_t bytes) {
  std::string why;
  if (make_room(bytes, why)) return true;
  ++counters_.refused;
  fail(waiting.rank, waiting.request,
       "key " + key.name() + ", worker " + std::to_string(waiting.rank) + ": " + why);
  return false;
}

// Allocates memory for a value. False: it is refused, and the worker is told, or was received before.
bool Job::begin_push(std::uint32_t rank, const Request& request, StoredKey& key, std::size_t payload) {
  drop_incoming(key, rank);
  refused_.erase({rank, &key});
  const bool known = request.kind == Kind::init ? key.has_value() : request.clock <= key.clock(rank);
  std::string why = problem_with(rank, request, key);
  if (why.empty() && known) return false;
  const bool is_last_piece = payload == 0 || is_last(request, payload);
  if (why.empty()) {
    const std::uint64_t decoded = is_compressed(request) ? key.bytes() : 0,
                        state = state_needed(request, key);
    if (!make_room(request.bytes + decoded + state, why)) {
      refuse_push(rank, request, key, why, is_last_piece);
      return false;
    }
    try {
      key.begin_incoming(rank, request);
      workers_[rank].incoming.push_back(&key);
      if (state > 0) key.reserve_state(key.memory().state + state);
      memory_.recount(key);
      return true;
    } catch (const std::bad_alloc&) {
      key.take_incoming(rank);
      why =
          "key " + key.name() + ": the server has no memory for " + std::to_string(request.bytes) + " bytes";
    }
  }
  tell_refused(rank, request, key, why, is_last_piece);
  return false;
}

// Bytes of state that a push of a whole value will make, and that are not reserved yet.
std::uint64_t Job::state_needed(const Request& request, const StoredKey& key) {
  if (rule_.kind != UpdateRule::Kind::optimizer || request.kind != Kind::push || request.overwrite ||
      request.row_bytes > 0)
    return 0;
  const std::uint64_t needed = key.whole_state_bytes(state_sizes_.of(rule_, key.dtype())),
                      has = key.memory().state;
  return needed > has ? needed - has : 0;
}

// Reserves memory for state that a complete push will make, or sets `why`. `rows`: bytes for its rows.
bool Job::reserve_state(std::uint32_t rank, const Request& request, StoredKey& key, std::uint64_t& rows,
                        std::string& why) {
  rows = request.row_bytes > 0 ? key.row_state_bytes(rank, rule_) : 0;
  const std::uint64_t more = rows + state_needed(request, key);
  if (more > 0 && !make_room(more, why)) return false;
  if (more > rows) key.reserve_state(key.memory().state + more - rows);
  return true;
}

// Refuses a push for which there is no room.
void Job::refuse_push(std::uint32_t rank, const Request& request, StoredKey& key, const std::string& room,
                      bool last) {
  ++counters_.refused;
  const std::string why = "key " + key.name() + ", worker " + std::to_string(rank) + ": " + room;
  drop_incoming(key, rank);
  // In a round without this push, workers would be at different rounds: the key fails.
  if (request.kind == Kind::push && job_settings_.consistency.mode == Consistency::Mode::sync)
    fail_key(key, why);
  tell_refused(rank, request, key, why, last);
}

// The worker is told at the last piece: once it knows, it may change the memory that it sends from.
void Job::tell_refused(std::uint32_t rank, const Request& request, StoredKey& key, const std::string& why,
                       bool last) {
  if (last) {
    fail(rank, request, why);
  } else {
    refused_[{rank, &key}] = why;
  }
  if (request.kind == Kind::init && request.has_value) fail_waiting(key, why);
  if (key.failures.any()) answer_waiting(key);
}

// Sets the key's error, and drops pushes that wait: pushes that would have completed their round have failed.
void Job::fail_key(StoredKey& key, const std::string& why) {
  changes_.add(
      {.kind = Record::Kind::fail_key, .job = name_, .number = numbers_.at(key.name()), .text = why});
  copy_before_write(key);
  key.failures.set(why);
  key.drop_pushes();
  memory_.recount(key);
}

// Why the request cannot be accepted; empty: it can.
std::string Job::problem_with(std::uint32_t rank, const Request& request, const StoredKey& key) const {
  const auto who = [&key] { return "key " + key.name() + ": "; };
  if (request.row_bytes > 0) {
    if (const std::string why = row_problem(request, key.bytes(), key.dtype()); !why.empty())
      return who() + "worker " + std::to_string(rank) + " has " + why;
  }
  if (is_compressed(request)) {
    if (const std::string why = codec_problem(request, key.size(), key.dtype()); !why.empty())
      return who() + "worker " + std::to_string(rank) + " has " + why;
  }
  const bool has_bytes = !request.overwrite || request.has_value,
             other_size = request.row_bytes == 0 && !is_compressed(request) && request.bytes != key.bytes();
  if (has_bytes && (other_size || request.dtype != key.dtype())) {
    return who() + "worker " + std::to_string(rank) + " has " + std::to_string(request.bytes) + " bytes of " +
           name_of(request.dtype) + ", the key " + std::to_string(key.bytes()) + " of " +
           name_of(key.dtype());
  }
  if (request.kind == Kind::init && key.is_other_whole(request)) {
    return who() + "worker " + std::to_string(rank) + " has " + std::to_string(request.clock) +
           " bytes on all servers, the key " + std::to_string(key.whole().bytes);
  }
  if (request.kind == Kind::push && !key.has_value()) return who() + "it has no value yet";
  if (request.kind != Kind::push || request.clock <= key.clock(rank)) return {};
  if (!key.failures.any() && key.ahead(rank) >= kMostAhead) {
    return who() + "worker " + std::to_string(rank) + " is " + std::to_string(kMostAhead) +
           " rounds ahead of another worker; pull now and then, which waits for the others";
  }
  return key.failures.text(rank);
}

// True: the request was refused at its first piece, and this is its last.
bool Job::fail_refused(std::uint32_t rank, const Request& request, const StoredKey& key,
                       std::size_t payload) {
  if (!is_last(request, payload)) return false;
  const auto found = refused_.find({rank, &key});
  if (found == refused_.end()) return false;
  fail(rank, request, found->second);
  refused_.erase(found);
  return true;
}

void Job::clear_errors(std::uint32_t rank) {
  for (const auto& key : keys_) {
    if (!key->failures.has(rank)) continue;
    copy_before_write(*key);
    key->clear_failure(rank, job_settings_.consistency);
    memory_.recount(*key);
    answer_waiting(*key);
  }
}

// Answers the request now, or lets it wait at the key.
void Job::wait(StoredKey& key, WaitingRequest waiting) {
  if (answer(key, waiting)) return;
  check_waiting(key, waiting.rank);
  add_waiting(key, std::move(waiting));
}

void Job::check_waiting(StoredKey& key, std::uint32_t rank) const {
  const std::vector<WaitingRequest>& all = key.waiting();
  const auto is_mine = [rank](const WaitingRequest& one) { return one.rank == rank; };
  if (all.size() >= kMostWaiting &&
      std::count_if(all.begin(), all.end(), is_mine) >= static_cast<std::ptrdiff_t>(kMostWaiting))
    throw MalformedMessage("key " + key.name() + ": " + std::to_string(kMostWaiting) +
                           " requests of the worker wait already");
}

}  // namespace heddle::kv_detail
