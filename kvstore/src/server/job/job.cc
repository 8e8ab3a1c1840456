#include "server/job/job.h"

#include <algorithm>
#include <cstring>

#include "server/job/compression.h"
#include "server/job/job_waits.h"
#include "wire/state_blob.h"

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::seconds kMissingAfter{5};  // time until ranks that have not come are named
// Most bytes of a set_state: kMostStates arrays like the value, and kStateHeads for heads and counts.
constexpr std::uint64_t kMostStates = 8, kStateHeads = 64 << 10;

// Settings as text for an error, with the placement `hash` if the others have another one.
std::string text_of(const std::string& terms, const std::string& others, std::size_t workers,
                    std::uint32_t servers) {
  const bool hides =
      parse_job_settings(terms).placement == "hash" && parse_job_settings(others).placement != "hash";
  return terms + (hides ? ", placement hash" : "") + ", " + std::to_string(workers) + " workers, " +
         std::to_string(servers) + " servers";
}

// Former values that are smaller are not counted as held.
constexpr std::uint64_t kSmallValue = 64 << 10;

std::weak_ptr<const void> former_value(const StoredKey& key) {
  if (!key.has_value() || key.bytes() < kSmallValue) return {};
  return key.value().owner;
}

// Counts a value that an update has replaced, if replies still hold it.
void count_former(HeldMemory& held, const StoredKey& key, const std::weak_ptr<const void>& former) {
  const std::shared_ptr<const void> still = former.lock();
  if (still && still != key.value().owner) held.add(former, key.bytes());
}

}  // namespace

Job::Job(const Hello& hello, std::uint64_t incarnation, MemoryLimits limits, std::uint64_t& used,
         Counters& counters, std::vector<Outgoing>& out, Changes& changes, Clock::time_point now)
    : name_(hello.job),
      consistency_text_(hello.consistency),
      incarnation_(incarnation),
      job_settings_(parse_job_settings(hello.consistency)),
      servers_(hello.servers),
      counters_(counters),
      out_(out),
      changes_(changes),
      memory_(limits, used, counters, changes),
      workers_(hello.workers),
      overdue_{now, kMissingAfter, {.since = now}},
      required_(hello.workers, true),
      pushing_(required_) {
  memory_.use_overhead(overhead(hello.workers));
  for (std::uint32_t rank = 0; rank < hello.workers; ++rank) {
    workers_[rank].stats.job = name_;
    workers_[rank].stats.rank = static_cast<int>(rank);
    workers_[rank].last_seen = now;
  }
}

std::string Job::refusal(const Hello& hello) const {
  if (hello.consistency != consistency_text_ || hello.workers != workers_.size() ||
      hello.servers != servers_) {
    return "worker " + std::to_string(hello.rank) + " of job '" + name_ + "' has " +
           text_of(hello.consistency, consistency_text_, hello.workers, hello.servers) + "; the job has " +
           text_of(consistency_text_, hello.consistency, workers_.size(), servers_);
  }
  if (is_connected(hello))
    return "worker " + std::to_string(hello.rank) + " of job '" + name_ + "' is connected already";
  return {};
}

// True if another process with this rank is connected.
bool Job::is_connected(const Hello& hello) const {
  if (hello.rank >= workers_.size()) return false;
  const Worker& worker = workers_[hello.rank];
  return worker.peer != 0 && worker.incarnation != hello.incarnation;
}

bool Job::has_had(const Hello& hello) const {
  return hello.rank < workers_.size() && workers_[hello.rank].greeted &&
         workers_[hello.rank].incarnation == hello.incarnation;
}

Peer Job::join(const Hello& hello, Peer peer, Clock::time_point now) {
  Worker& worker = workers_[hello.rank];
  const Peer before = std::exchange(worker.peer, peer);
  const bool another = worker.greeted && worker.incarnation != hello.incarnation;
  if (another) {
    worker.rejoined = true;
    worker.collective_done = worker.state_set = worker.passed = worker.lost_settings = 0;
    collective_.erase(hello.rank);
    for (const auto& key : keys_) {
      if (!key->failures.of_pushes.contains(hello.rank)) continue;
      copy_before_write(*key);
      key->failures.of_pushes.erase(hello.rank);
    }
  }
  overdue_.stall = {.since = now};
  const bool away = worker.dropped || worker.left;
  forget_sent(worker);
  worker.incarnation = hello.incarnation;
  worker.greeted = true;
  worker.left = false;
  worker.last_seen = now;
  worker.stats.connected = true;
  const bool rounds = job_settings_.consistency.mode == Consistency::Mode::sync;
  if (rounds ? another : away) {
    for (const auto& key : keys_) {
      copy_before_write(*key);
      rounds ? key->replaced(hello.rank) : key->rejoin(hello.rank, required_);
    }
  }
  forget_requests(hello.rank);
  worker.dropped = false;
  required_[hello.rank] = true;
  pushing_[hello.rank] = !collective_.contains(hello.rank);
  return before;
}

void Job::disconnected(std::uint32_t rank, Clock::time_point now) {
  Worker& worker = workers_[rank];
  worker.peer = 0;
  worker.last_seen = now;
  worker.stats.connected = false;
  forget_buffers(worker);
  forget_sent(worker);
  drop_incoming(rank);
  std::erase_if(refused_, [rank](const auto& one) { return one.first.first == rank; });
}

// Discards a value of which only some pieces have come. The worker will send it again.
void Job::drop_incoming(StoredKey& key, std::uint32_t rank) {
  if (!key.is_incoming(rank)) return;
  forget_incoming(key, rank);
  key.take_incoming(rank);
  memory_.recount(key);
}

void Job::drop_incoming(std::uint32_t rank) {
  const std::vector<StoredKey*>& keys = workers_[rank].incoming;
  while (!keys.empty()) drop_incoming(*keys.back(), rank);
}

// Searches from the end: most often the key is one of the latest.
void Job::forget_incoming(const StoredKey& key, std::uint32_t rank) {
  std::vector<StoredKey*>& keys = workers_[rank].incoming;
  const auto found = std::find(keys.rbegin(), keys.rend(), &key);
  if (found == keys.rend()) return;
  *found = keys.back();
  keys.pop_back();
}

std::vector<Peer> Job::drop_silent(Clock::time_point now, std::chrono::milliseconds worker_timeout) {
  const auto is_anybody_here = [this] {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& one) { return one.peer != 0; });
  };
  std::vector<Peer> silent;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    Worker& worker = workers_[rank];
    if (worker.left || worker.dropped || now - worker.last_seen < worker_timeout) continue;
    if (!worker.greeted && is_anybody_here()) continue;
    if (worker.peer != 0) silent.push_back(worker.peer);
    drop(rank);
  }
  return silent;
}

void Job::drop(std::uint32_t rank) {
  changes_.add({.kind = Record::Kind::drop, .job = name_, .rank = rank});
  Worker& worker = workers_[rank];
  worker.peer = 0;
  worker.stats.connected = false;
  worker.dropped = true;
  forget_sent(worker);
  required_[rank] = false;
  drop_incoming(rank);
  after_change_of_workers();
}

void Job::paused(Clock::duration time) {
  for (Worker& worker : workers_) worker.last_seen += time;
  overdue_.begun += time;
  overdue_.stall.since += time;
}

bool Job::is_over() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.left || worker.dropped; });
}

void Job::leave(std::uint32_t rank) {
  workers_[rank].left = true;
  required_[rank] = false;
  after_change_of_workers();
}

// Workers that are left may have waited for those that are gone.
void Job::after_change_of_workers() {
  overdue_.stall.text.clear();
  go_on_with_keys();
  complete_collective();
}

void Job::go_on_with_keys() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    pushing_[rank] = required_[rank] && !collective_.contains(rank);
  for (StoredKey* const key : std::exchange(keys_with_waiters_, {})) {
    key->is_tracked = false;
    copy_before_write(*key);
    counters_.rounds += static_cast<std::uint64_t>(key->complete_rounds(rule_, pushing_));
    memory_.recount(*key);
    answer_waiting(*key);
    if (!key->has_value() && !required_[0])
      fail_waiting(*key, "key " + key->name() + ": worker 0, whose value it would have, is gone");
    list(*key);
  }
}

// Adds the key to keys_with_waiters_, keys with pushes or requests that wait: they are looked at if a worker is gone.
void Job::list(StoredKey& key) {
  if (key.is_tracked || !key.has_waiting()) return;
  key.is_tracked = true;
  keys_with_waiters_.push_back(&key);
}

StoredKey& Job::key_of(const Request& request) {
  StoredKey* const key = find_key(request.key);
  if (!key) throw MalformedMessage("there is no key " + std::to_string(request.key));
  return *key;
}

// Finds the key of an init. The first worker that names a key makes it.
StoredKey& Job::key_for_init(const Request& request) {
  const auto [entry, made] = numbers_.try_emplace(
      request.text, static_cast<std::uint32_t>(keys_.size()) | std::uint32_t{generation_} << 24);
  if (made) {
    if (request.text.size() > kMaxKeyText || request.bytes % size_of(request.dtype) != 0 ||
        keys_.size() > kKeyIndex) {
      numbers_.erase(entry);
      throw MalformedMessage("a key of " + std::to_string(request.text.size()) + " letters, with " +
                             std::to_string(request.bytes) + " bytes");
    }
    keys_.push_back(std::make_unique<StoredKey>(request.text, request.dtype, request.bytes, workers_.size()));
    memory_.use_overhead(StoredKey::overhead(request.text.size(), workers_.size()));
    keys_.back()->set_whole({.bytes = request.clock, .rows = request.key});
    if (job_settings_.is_ordered()) {
      keys_.back()->set_init_index(init_index_of(request));
      by_init_index_[init_index_of(request)] = keys_.back().get();
    }
    Request init{.kind = Kind::init,
                 .dtype = request.dtype,
                 .key = request.key,
                 .clock = request.clock,
                 .bytes = request.bytes,
                 .priority = request.priority,
                 .text = request.text};
    changes_.add({.kind = Record::Kind::key, .job = name_, .request = std::move(init)});
  }
  return *keys_[entry->second & kKeyIndex];
}

std::span<std::byte> Job::memory_for(std::uint32_t rank, const Request& request, std::size_t bytes) {
  if (workers_[rank].left) throw MalformedMessage("a request after leave");
  if (!restored_.empty() && !lost(rank, request).empty()) return {};
  if (request.kind == Kind::set_state) {
    StoredKey& key = key_of(request);
    std::vector<std::byte>& state = workers_[rank].state;
    if (request.number <= workers_[rank].state_set) return {};
    if (request.bytes > kMostStates * key.bytes() + kStateHeads)
      throw MalformedMessage("a state of " + std::to_string(request.bytes) + " bytes");
    if (request.offset == 0) begin_state(rank, request, key);
    if (state.size() != request.bytes) return {};
    return std::span(state).subspan(request.offset, bytes);
  }
  if (request.kind == Kind::pull && request.row_bytes > 0) return memory_for_rows(rank, request, bytes);
  if (request.kind == Kind::push_many) {
    workers_[rank].bundle.resize(bytes);
    return workers_[rank].bundle;
  }
  if (request.kind != Kind::init && request.kind != Kind::push)
    throw MalformedMessage("a payload where none belongs");
  std::string why;
  if (request.kind == Kind::init && (out_of_order(request) || !has_room_for_key(request, why))) return {};
  StoredKey& key = request.kind == Kind::init ? key_for_init(request) : key_of(request);
  if (request.offset == 0 && !begin_push(rank, request, key, bytes)) return {};
  if (!key.is_incoming(rank)) return {};  // the value was refused at its first piece
  if (request.bytes != key.incoming_bytes(rank)) throw MalformedMessage("pieces of different values");
  return {key.incoming(rank, request.offset), bytes};
}

void Job::fail_waiting(StoredKey& key, const std::string& why) {
  for (const WaitingRequest& one : take_waiting(key)) fail(one.rank, one.request, why);
}

void Job::received(std::uint32_t rank, const Request& request, std::size_t payload, Clock::time_point now) {
  Worker& worker = workers_[rank];
  worker.last_seen = now;
  worker.stats.bytes_received += payload;
  if (request.kind != Kind::ping) overdue_.stall = {.since = now};
  if (!restored_.empty()) {
    const std::string why = lost(rank, request);
    if (!why.empty()) return is_last(request, payload) ? fail(rank, request, why) : void();
  }
  switch (request.kind) {
    case Kind::init:
      return init(rank, request, payload);
    case Kind::push:
      return push(rank, request, payload);
    case Kind::pull:
    case Kind::get_state:
      return pull(rank, request, payload);
    case Kind::push_many:
      return push_many(rank, request);
    case Kind::pull_many:
      return pull_many(rank, request);
    case Kind::set_state:
      return set_state(rank, request, payload);
    case Kind::set_optimizer:
    case Kind::barrier:
      return collective(rank, request);
    case Kind::clear_errors:
      clear_errors(rank);
      changed(rank, request);
      return done(rank, request);
    case Kind::ping:
      done(rank, request);
      if (JobWaits(*this).has(rank)) out_.back().reply.text = overdue_.stall.text;
      return;
    case Kind::resume:
      return resume(rank, request);
    case Kind::leave:
      changed(rank, request);
      done(rank, request);
      return leave(rank);
    default:
      throw MalformedMessage("a request that is none");
  }
}

void Job::init(std::uint32_t rank, const Request& request, std::size_t payload) {
  if (fail_out_of_order(rank, request, payload)) return;
  if (std::string why; !has_room_for_key(request, why)) {
    if (payload > 0 && !is_last(request, payload)) return;
    ++counters_.refused;
    return fail(rank, request, "key " + request.text + ": " + why);
  }
  StoredKey& key = key_for_init(request);
  if (fail_refused(rank, request, key, payload)) return;
  if (request.has_value && !key.has_value()) {
    if (request.bytes == 0 && !begin_push(rank, request, key, payload)) return;
    if (!key.is_incoming(rank) || !key.arrived(rank, request.offset, payload)) return;
    changed_value(rank, request, key);
    forget_incoming(key, rank);
    copy_before_write(key);
    key.set_value(key.take_incoming(rank));
    memory_.recount(key);
    answer_waiting(key);
  } else if (request.bytes != key.bytes() || request.dtype != key.dtype() || key.is_other_whole(request)) {
    if (payload == 0) begin_push(rank, request, key, payload);  // tells the worker what differs
    return;
  } else if (request.has_value && !is_last(request, payload)) {
    return;
  }
  Request mine = request;
  mine.key = numbers_.at(request.text);
  wait(key, {rank, std::move(mine)});
  if (!key.has_value() && !required_[0]) go_on_with_keys();  // fails pulls that would wait in vain
}

void Job::push(std::uint32_t rank, const Request& request, std::size_t payload) {
  StoredKey& key = key_of(request);
  if (request.clock <= key.clock(rank)) {
    if (!is_last(request, payload)) return;
    ++counters_.duplicates;
    return done(rank, request);
  }
  if (request.clock != key.clock(rank) + 1) throw MalformedMessage("a push before the one before it");
  Push push{.overwrite = request.overwrite, .lr = request.lr, .scale = request.scale};
  const std::uint64_t rounds = key.rounds();
  if (!request.overwrite || request.has_value) {
    if (fail_refused(rank, request, key, payload)) return;
    if (request.bytes == 0 && !begin_push(rank, request, key, payload)) return;
    if (!key.is_incoming(rank) || !key.arrived(rank, request.offset, payload)) return;
    key.check_incoming(rank);
    if (std::string why; !reserve_state(rank, request, key, push.state_bytes, why))
      return refuse_push(rank, request, key, why, true);
    changed_value(rank, request, key);
    forget_incoming(key, rank);
    key.take_incoming(rank, push);
  } else if (const std::string why = problem_with(rank, request, key); !why.empty()) {
    return fail(rank, request, why);
  } else {
    changed(rank, request);
  }
  count_push(rank, request);
  const std::weak_ptr<const void> former = former_value(key);
  copy_before_write(key);
  key.push(rank, std::move(push), job_settings_.consistency, rule_, pushing_);
  count_former(counters_.held, key, former);
  counters_.rounds += key.rounds() - rounds;
  memory_.recount(key);
  list(key);
  done(rank, request);
  answer_waiting(key);
}

void Job::count_push(std::uint32_t rank, const Request& request) {
  ++counters_.pushes;
  WorkerStats& stats = workers_[rank].stats;
  ++stats.pushes;
  stats.clock = std::max(stats.clock, static_cast<std::int64_t>(request.clock));
}

void Job::pull(std::uint32_t rank, const Request& request, std::size_t payload) {
  StoredKey& key = key_of(request);
  WaitingRequest waiting{rank, request};
  if (!request.text.empty()) {
    if (const std::string why = codec_problem(request, key.size(), key.dtype()); !why.empty())
      return fail(rank, request, "key " + key.name() + ": worker " + std::to_string(rank) + " wants " + why);
  }
  if (request.row_bytes > 0) {
    waiting.rows = rows_of_pull(rank, request, payload);
    if (!waiting.rows) return;
  }
  if (request.clock > key.clock(rank))  // the pull was sent right behind that push
    return fail(rank, request, "key " + key.name() + ": the push before the pull has failed");
  wait(key, std::move(waiting));
}

// Memory for a pull's list of rows. Empty: the key cannot have these rows, and the worker has been told.
std::span<std::byte> Job::memory_for_rows(std::uint32_t rank, const Request& request, std::size_t bytes) {
  const StoredKey& key = key_of(request);
  if (const std::string why = row_problem(request, key.bytes(), key.dtype()); !why.empty()) {
    if (request.offset == 0) fail(rank, request, "key " + key.name() + ": " + why);
    return {};
  }
  if (std::string why; request.offset == 0 && !memory_.has_room(request.bytes, why)) {
    ++counters_.refused;
    fail(rank, request, "key " + key.name() + ", worker " + std::to_string(rank) + ": " + why);
    return {};
  }
  const std::span<std::byte> memory = workers_[rank].row_lists.memory_for(request, bytes);
  memory_.recount(workers_[rank]);
  return memory;
}

// Returns the rows of a pull. Null: more pieces follow, or the pull is refused, and the worker has been told.
RowList Job::rows_of_pull(std::uint32_t rank, const Request& request, std::size_t payload) {
  const StoredKey& key = key_of(request);
  const std::string why = row_problem(request, key.bytes(), key.dtype());
  if (why.empty()) {
    RowList list = workers_[rank].row_lists.arrived(request, payload, key.bytes() / request.row_bytes);
    memory_.recount(workers_[rank]);
    return list;
  }
  if (payload == 0) fail(rank, request, "key " + key.name() + ": " + why);
  return nullptr;
}

void Job::answer_waiting(StoredKey& key) {
  if (key.waiting().empty()) return;
  for (WaitingRequest& one : take_waiting(key)) {
    try {
      if (!answer(key, one)) add_waiting(key, std::move(one));
    } catch (const std::bad_alloc&) {  // out of memory: other requests are still answered
      fail(one.rank, one.request, "key " + key.name() + ": the server has no memory for the answer");
    }
  }
}

std::vector<WaitingRequest> Job::take_waiting(StoredKey& key) {
  for (const WaitingRequest& one : key.waiting()) {
    Worker& worker = workers_[one.rank];
    --worker.waiting;
    if (!one.rows) continue;
    worker.waiting_bytes -= bytes_of(one.rows);
    memory_.recount(worker);
  }
  return std::exchange(key.waiting(), {});
}

void Job::add_waiting(StoredKey& key, WaitingRequest waiting) {
  Worker& worker = workers_[waiting.rank];
  ++worker.waiting;
  if (waiting.rows) {
    worker.waiting_bytes += bytes_of(waiting.rows);
    memory_.recount(worker);
  }
  key.waiting().push_back(std::move(waiting));
  list(key);
}

bool Job::answer(StoredKey& key, const WaitingRequest& waiting) {
  const auto& [rank, request, rows] = waiting;
  if (request.kind == Kind::pull_many) return answer_bundle(&key, waiting);
  if (request.kind == Kind::pull && key.failures.has(rank))
    return fail(rank, request, key.failures.text(rank)), true;
  if (request.kind == Kind::init) {
    if (!key.has_value()) return false;
    Reply reply{.kind = Kind::done, .key = request.key, .number = request.number, .clock = key.clock(rank)};
    out_.push_back(reply_to(request, workers_[rank].peer, std::move(reply)));
    return true;
  }
  const std::optional<std::uint64_t> lead =
      key.lead(rank, request.clock, job_settings_.consistency, pushing_);
  if (!lead) return false;
  if (request.kind == Kind::get_state) {
    if (!has_room_for_answer(waiting, key, key.state_bytes())) return true;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(encode_state(key.state()));
    counters_.held.add(bytes, bytes->size());
    send_value(waiting, key.rounds(), {bytes, *bytes});
  } else {
    ++counters_.pulls;
    ++workers_[rank].stats.pulls;
    counters_.worst_staleness = std::max(counters_.worst_staleness, *lead);
    if (!request.text.empty()) return send_compressed(waiting, key), true;
    Payload value;
    if (rows) {
      const std::uint64_t bytes = rows->size() * request.row_bytes;
      if (!has_room_for_answer(waiting, key, bytes)) return true;
      const auto some = std::make_shared<const NDArray>(key.rows_of_value(rows, request.row_bytes));
      counters_.held.add(some, bytes);
      value = {some, {some->data<const std::byte>(), bytes}};
    } else {
      value = key.value();
    }
    send_value(waiting, key.rounds(), value);
  }
  return true;
}

void Job::send_value(const WaitingRequest& waiting, std::uint64_t clock, const Payload& value,
                     std::uint32_t number) {
  const std::span<const std::byte> bytes = value.bytes;
  workers_[waiting.rank].stats.bytes_sent += bytes.size();
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(kPieceBytes, bytes.size() - offset);
    Reply reply{.kind = Kind::value,
                .key = number,
                .number = waiting.request.number,
                .clock = clock,
                .offset = offset,
                .bytes = bytes.size()};
    out_.push_back({workers_[waiting.rank].peer,
                    std::move(reply),
                    {value.owner, bytes.subspan(offset, piece)},
                    waiting.request.priority});
    offset += piece;
  } while (offset < bytes.size());
  out_.back().request = waiting.request.kind;
  out_.back().arrived = waiting.request.arrived;
}

void Job::done(std::uint32_t rank, const Request& request) {
  if (is_bundled(rank, request)) return;
  out_.push_back(reply_to(request, workers_[rank].peer,
                          {.kind = Kind::done,
                           .key = request.key,
                           .number = request.number,
                           .clock = settings_,
                           .bytes = collectives_}));
}

void Job::fail(std::uint32_t rank, const Request& request, const std::string& why) {
  if (is_bundled(rank, request)) {
    if (bundle_->why.empty()) bundle_->why = why;
    bundle_->counted[bundle_->at] = std::byte{0};
    return;
  }
  Reply reply{.kind = Kind::failed, .number = request.number};
  reply.text = why.substr(0, kMaxText);
  out_.push_back(reply_to(request, workers_[rank].peer, std::move(reply)));
}

// Costs no time for each key: workers wait while statistics are made.
void Job::add_to(ServerStats& stats, Clock::time_point now) const {
  ++stats.jobs;
  stats.keys += keys_.size();
  memory_.add_to(stats);
  for (const Worker& one : workers_) {
    if (!one.greeted && (one.dropped || now - overdue_.begun < kMissingAfter)) continue;
    WorkerStats worker = one.stats;
    worker.silent = std::chrono::duration<double>(now - one.last_seen).count();
    worker.pulls_waiting += one.waiting;
    stats.workers.push_back(std::move(worker));
  }
}

}  // namespace heddle::kv_detail
