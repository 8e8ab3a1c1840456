// Calls that all workers of a job make: barriers, and the choice of an optimizer.
#include <algorithm>
#include <utility>

#include "server/job/job.h"

namespace heddle::kv_detail {
namespace {

const std::string kOtherWeights = " in name, shape, dtype or order";

std::string text_of(const Request& request) {
  return request.kind == Kind::barrier ? "barrier" : "set_optimizer " + request.text;
}

bool differ(std::uint64_t one, std::uint64_t other) { return one != 0 && other != 0 && one != other; }

}  // namespace

// A call that all workers make. A worker that repeats it, since its connection was lost, gets the old answer.
void Job::collective(std::uint32_t rank, const Request& request) {
  Worker& worker = workers_[rank];
  if (request.number <= worker.collective_done) {
    if (worker.collective_failure.empty()) return done(rank, request);
    return fail(rank, request, worker.collective_failure);
  }
  if (pass(rank, request)) return;
  // A new process with the rank of a former one joins a job that has its optimizer: it has to be the same.
  if (worker.rejoined && request.kind == Kind::set_optimizer && rule_.kind != UpdateRule::Kind::replace) {
    const std::string mine =
        update_rule_text(rule_.name, rule_.kind == UpdateRule::Kind::add ? OptimizerParams{} : rule_.params);
    changed(rank, request);
    worker.rejoined = false;
    worker.collective_done = request.number;
    worker.collective_failure.clear();
    if (mine != request.text)
      worker.collective_failure = "the job has the optimizer " + mine + ", this worker " + request.text;
    else if (differ(weights_, request.clock))
      worker.collective_failure = "the job's weights differ from those of this worker" + kOtherWeights;
    if (worker.collective_failure.empty()) return done(rank, request);
    return fail(rank, request, worker.collective_failure);
  }
  changed(rank, request);
  collective_[rank] = request;
  complete_collective();
  if (collective_.contains(rank)) go_on_with_keys();
}

void Job::complete_collective() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (required_[rank] && !collective_.contains(rank)) return;
  }
  if (collective_.empty()) return;
  const std::string failure = perform_collective();
  pushing_ = required_;
  ++collectives_;
  for (Worker& worker : workers_) worker.passed = 0;
  for (const auto& [rank, request] : std::exchange(collective_, {})) {
    workers_[rank].collective_done = request.number;
    workers_[rank].collective_failure = failure;
    failure.empty() ? done(rank, request) : fail(rank, request, failure);
  }
}

std::string Job::perform_collective() {
  const auto& [first, wanted] = *collective_.begin();
  auto known = collective_.end();
  for (auto one = collective_.begin(); one != collective_.end(); ++one) {
    const auto& [rank, request] = *one;
    // The text of a barrier says why a call that all workers make has failed on that worker.
    if (request.kind == Kind::barrier && !request.text.empty())
      return "the call has failed on worker " + std::to_string(rank) + ": " + request.text;
    if (request.kind != wanted.kind || request.text != wanted.text)
      return "the workers differ: worker " + std::to_string(first) + " has called " + text_of(wanted) +
             ", worker " + std::to_string(rank) + " " + text_of(request);
    if (request.clock == 0) continue;
    if (known == collective_.end()) known = one;
    if (differ(known->second.clock, request.clock))
      return "the weights of worker " + std::to_string(known->first) + " differ from those of worker " +
             std::to_string(rank) + kOtherWeights;
  }
  if (wanted.kind == Kind::barrier) return {};
  try {
    rule_ = parse_update_rule(wanted.text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  // The new optimizer replaces all settings before it: those that are not in the snapshot are not missed.
  for (Worker& worker : workers_) settings_ = std::max(settings_, std::exchange(worker.lost_settings, 0));
  ++settings_;
  weights_ = known == collective_.end() ? 0 : known->second.clock;
  state_sizes_.clear();
  for (const auto& key : keys_) {
    copy_before_write(*key);
    key->reset_optimizer();
    memory_.recount(*key);
  }
  for (StoredKey* const key : keys_with_waiters_) reserve_for_waiting(*key);
  return {};
}

// Reserves memory for state that waiting pushes will make: a change of the rule changes its size.
void Job::reserve_for_waiting(StoredKey& key) {
  const std::uint64_t before = key.counted.total();
  key.reserve_for_waiting(rule_, state_sizes_.of(rule_, key.dtype()));
  const std::uint64_t after = key.memory().total();
  if (std::string why; after > before && !memory_.has_room(after - before, why))
    return fail_key(key, "key " + key.name() + ": " + why);
  memory_.recount(key);
}

}  // namespace heddle::kv_detail
