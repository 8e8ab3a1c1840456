#include "server/job/job.h"

#include <utility>

#include "server/key/compression.h"

namespace heddle::kv_detail {
namespace {

// Settings of a job or a worker as text for an error. The placement `hash`, which `terms` leave out, is named
// if `others`, the settings to compare with, have another placement.
std::string text_of(const std::string& terms, const std::string& others, std::size_t workers,
                    std::uint32_t servers) {
  const bool hides =
      parse_job_settings(terms).placement == "hash" && parse_job_settings(others).placement != "hash";
  return terms + (hides ? ", placement hash" : "") + ", " + std::to_string(workers) + " workers, " +
         std::to_string(servers) + " servers";
}

}  // namespace

Job::Job(const Hello& hello, std::uint64_t incarnation, const JobHost& host, Clock::time_point now)
    : state_(hello, incarnation, host, now),
      waiting_(state_),
      admission_(state_, waiting_),
      updates_(state_, admission_, waiting_),
      collectives_(state_, updates_),
      stalls_(state_, now) {
  state_.memory.use_overhead(overhead(hello.workers));
}

std::uint64_t Job::overhead(std::uint32_t workers) { return sizeof(Job) + workers * sizeof(JobWorker); }

std::string Job::refusal(const Hello& hello) const {
  if (hello.consistency != state_.consistency_text || hello.workers != workers().size() ||
      hello.servers != state_.servers) {
    return "worker " + std::to_string(hello.rank) + " of job '" + name() + "' has " +
           text_of(hello.consistency, state_.consistency_text, hello.workers, hello.servers) +
           "; the job has " +
           text_of(state_.consistency_text, hello.consistency, workers().size(), state_.servers);
  }
  if (workers().is_connected(hello))
    return "worker " + std::to_string(hello.rank) + " of job '" + name() + "' is connected already";
  return {};
}

Peer Job::join(const Hello& hello, Peer peer, Clock::time_point now) {
  const Recorded recorded = state_.log.join(hello, state_.incarnation);
  JobWorker& worker = state_.workers[hello.rank];
  const Peer before = std::exchange(worker.peer, peer);
  const bool another = worker.greeted && worker.incarnation != hello.incarnation;
  const bool away = worker.dropped || worker.left;
  if (another) {
    worker.rejoined = true;
    worker.collective_done = worker.state_set = worker.passed = worker.lost_settings = 0;
    state_.workers.drop_call(hello.rank);
  }
  worker.incarnation = hello.incarnation;
  worker.greeted = true;
  worker.last_seen = now;
  worker.stats.connected = true;
  state_.workers.join(hello.rank);
  for (const auto& key : state_.keys.all()) {
    if (another && (*key)->failures.of_pushes.contains(hello.rank))
      KeyChange(recorded, state_.keys, *key)->failures.of_pushes.erase(hello.rank);
    if (state_.in_rounds() ? another : away)
      KeyChange(recorded, state_.keys, *key)->join(hello.rank, state_.consistency(), workers().required());
  }
  {
    BufferChange buffers(state_.memory, worker);
    buffers->sent.clear();
    buffers->incoming.clear();
  }
  waiting_.forget(hello.rank);
  stalls_.progress(now);
  return before;
}

void Job::disconnected(std::uint32_t rank, Clock::time_point now) {
  JobWorker& worker = state_.workers[rank];
  worker.disconnect();
  worker.last_seen = now;
  BufferChange(state_.memory, worker)->disconnect();
  admission_.forget_refused(rank);
}

std::vector<Peer> Job::drop_silent(Clock::time_point now, std::chrono::milliseconds worker_timeout) {
  std::vector<Peer> silent;
  for (std::uint32_t rank = 0; rank < workers().size(); ++rank) {
    if (!workers().is_silent(rank, now, worker_timeout)) continue;
    if (const Peer peer = workers()[rank].peer; peer != 0) silent.push_back(peer);
    drop(rank);
  }
  return silent;
}

void Job::drop(std::uint32_t rank) {
  const Recorded recorded = state_.log.drop(rank);
  JobWorker& worker = state_.workers[rank];
  worker.disconnect();
  {
    BufferChange buffers(state_.memory, worker);
    buffers->sent.clear();
    buffers->incoming.clear();
  }
  state_.workers.drop(rank);
  workers_changed(recorded);
}

// Called when a worker has left or was dropped: other workers may have waited for it.
void Job::workers_changed(Recorded recorded) {
  stalls_.workers_changed();
  updates_.complete_rounds(recorded);
  collectives_.complete(recorded);
}

void Job::paused(Clock::duration time) {
  state_.workers.paused(time);
  stalls_.paused(time);
}

void Job::received(std::uint32_t rank, const Request& request, std::size_t payload, Clock::time_point now) {
  JobWorker& worker = state_.workers[rank];
  worker.last_seen = now;
  worker.stats.bytes_received += payload;
  if (request.kind != Kind::ping) stalls_.progress(now);
  const std::string lost = state_.restored.lost(rank, request);
  if (lost.empty()) return handle(rank, request, payload);
  if (is_last(request, payload)) state_.replies.fail(rank, request, lost);
}

void Job::handle(std::uint32_t rank, const Request& request, std::size_t payload) {
  switch (request.kind) {
    case Kind::init:
      return updates_.init(rank, request, payload);
    case Kind::push:
      return updates_.push(rank, request, payload);
    case Kind::pull:
    case Kind::get_state:
      return pull(rank, request, payload);
    case Kind::push_many:
      return updates_.push_many(rank, request);
    case Kind::pull_many:
      return pull_many(rank, request);
    case Kind::set_state:
      return updates_.set_state(rank, request, payload);
    case Kind::set_optimizer:
    case Kind::barrier:
      return collectives_.call(rank, request);
    case Kind::clear_errors:
      return updates_.clear_errors(rank, request);
    case Kind::ping:
      return state_.replies.done(rank, request, stalls_.text_for(rank));
    case Kind::resume:
      return collectives_.resume(rank, request);
    case Kind::leave: {
      const Recorded recorded = state_.log.request(rank, request);
      state_.replies.done(rank, request);
      state_.workers.leave(rank);
      return workers_changed(recorded);
    }
    default:
      throw MalformedMessage("a request that is none");
  }
}

void Job::pull(std::uint32_t rank, const Request& request, std::size_t payload) {
  const StoredKey& key = *state_.keys.of(request.key);
  const auto fail = [&](const std::string& why) {
    state_.replies.fail(rank, request, "key " + key.name() + ": " + why);
  };
  WaitingRequest waiting{rank, request};
  if (!request.text.empty()) {
    if (const std::string why = codec_problem(request, key.value().size(), key.dtype()); !why.empty())
      return fail("worker " + std::to_string(rank) + " wants " + why);
  }
  if (request.row_bytes > 0) {
    waiting.rows = admission_.rows_of_pull(rank, request, payload);
    if (!waiting.rows) return;
  }
  if (request.clock > key.clock(rank))  // the worker sent the pull right behind a push, which has failed
    return fail("the push before the pull has failed");
  waiting_.answer_or_wait(std::move(waiting));
}

void Job::pull_many(std::uint32_t rank, const Request& request) {
  for (const BundleEntry& entry : request.entries) {
    const Request single{.kind = Kind::pull, .key = entry.key, .clock = entry.clock};
    if (const std::string why = state_.restored.lost(rank, single); !why.empty())
      return state_.replies.fail(rank, request, why);
    const StoredKey& key = *state_.keys.of(entry.key);
    const auto fail = [&](const std::string& why) {
      state_.replies.fail(rank, request, "key " + key.name() + ": " + why);
    };
    if (entry.clock > key.clock(rank)) return fail("the push before the pull has failed");
    if (entry.bytes != key.bytes())
      return fail("it has " + std::to_string(key.bytes()) + " bytes, not " + std::to_string(entry.bytes));
  }
  waiting_.answer_or_wait({rank, request});
}

// Raises the generation, so that new keys get other numbers than keys that were made after the snapshot,
// whose numbers workers may know. Forgets pending barriers and set_optimizers: workers repeat those that were
// not answered.
void Job::restored(const std::string& when) {
  state_.restored.set(when);
  state_.keys.set_generation(static_cast<std::uint8_t>(state_.keys.generation() + 1));
  state_.workers.take_calls();
  for (JobWorker& worker : state_.workers) worker.passed = worker.lost_settings = 0;
}

void Job::apply(const Record& record, std::size_t payload, Clock::time_point now) {
  if (record.kind != Record::Kind::key && record.kind != Record::Kind::fail_key &&
      record.rank >= workers().size())
    throw MalformedMessage("a record of worker " + std::to_string(record.rank) + " of " +
                           std::to_string(workers().size()));
  switch (record.kind) {
    case Record::Kind::drop:
      return drop(record.rank);
    case Record::Kind::key:
      state_.keys.of_init(record.request);
      return;
    case Record::Kind::fail_key:
      return state_.keys.fail(state_.keys.of(static_cast<std::uint32_t>(record.number)), record.text);
    case Record::Kind::request: {
      const std::uint64_t before = state_.log.count();
      received(record.rank, record.request, payload, now);
      const bool is_part = record.request.offset + payload < record.request.bytes;
      if (state_.log.count() == before && !is_part)
        throw MalformedMessage("a change of the primary that changes nothing here");
      return;
    }
    default:
      throw MalformedMessage("a record that is none of a job");
  }
}

void Job::promoted(Clock::time_point now) {
  for (JobWorker& worker : state_.workers) {
    worker.disconnect();
    worker.last_seen = now;
    BufferChange(state_.memory, worker)->disconnect();
  }
  waiting_.forget_all();
}

// Takes no time in proportion to the number of keys, since workers wait while statistics are made.
void Job::add_to(ServerStats& stats, Clock::time_point now) const {
  ++stats.jobs;
  stats.keys += state_.keys.size();
  state_.memory.add_to(stats);
  for (const JobWorker& one : workers().all()) {
    if (!one.greeted && (one.dropped || now - stalls_.begun() < kReportMissing)) continue;
    WorkerStats worker = one.stats;
    worker.silent = std::chrono::duration<double>(now - one.last_seen).count();
    worker.pulls_waiting += one.waiting;
    stats.workers.push_back(std::move(worker));
  }
}

}  // namespace heddle::kv_detail
