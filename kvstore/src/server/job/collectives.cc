#include "server/job/collectives.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr const char* kOtherWeights = " in name, shape, dtype or order";

std::string text_of(const Request& request) {
  return request.kind == Kind::barrier ? "barrier" : "set_optimizer " + request.text;
}

bool differ(std::uint64_t one, std::uint64_t other) { return one != 0 && other != 0 && one != other; }

// Why the workers' calls do not fit together; empty: they do. `weights`: set to the keys_digest of the calls
// that have one.
std::string disagreement(const Workers::Calls& calls, std::uint64_t& weights) {
  const auto& [first, wanted] = *calls.begin();
  std::uint32_t known = first;
  for (const auto& [rank, request] : calls) {
    // A barrier has a text if it ends a call that all workers make: it says why the call has failed on this
    // worker.
    if (request.kind == Kind::barrier && !request.text.empty())
      return "the call has failed on worker " + std::to_string(rank) + ": " + request.text;
    if (request.kind != wanted.kind || request.text != wanted.text)
      return "the workers differ: worker " + std::to_string(first) + " has called " + text_of(wanted) +
             ", worker " + std::to_string(rank) + " " + text_of(request);
    if (differ(weights, request.keys_digest))
      return "the weights of worker " + std::to_string(known) + " differ from those of worker " +
             std::to_string(rank) + kOtherWeights;
    if (weights == 0) known = rank, weights = request.keys_digest;
  }
  return {};
}

}  // namespace

void Collectives::call(std::uint32_t rank, const Request& request) {
  const JobWorker& worker = job_.workers[rank];
  if (request.number <= worker.collective_done) {
    if (worker.collective_failure.empty()) return job_.replies.done(rank, request);
    return job_.replies.fail(rank, request, worker.collective_failure);
  }
  if (pass(rank, request)) return;
  const bool has_optimizer = job_.optimizer.rule.kind != UpdateRule::Kind::replace;
  if (worker.rejoined && request.kind == Kind::set_optimizer && has_optimizer)
    return join_optimizer(rank, request);
  const Recorded recorded = job_.log.request(rank, request);
  job_.workers.add_call(rank, request);
  complete(recorded);
  if (job_.workers.has_called(rank)) updates_.complete_rounds(recorded);
}

// Answers the set_optimizer of a new process that has taken the rank of a former one. The job has an
// optimizer already, and the new process must choose the same one.
void Collectives::join_optimizer(std::uint32_t rank, const Request& request) {
  const UpdateRule& rule = job_.optimizer.rule;
  const std::string mine =
      update_rule_text(rule.name, rule.kind == UpdateRule::Kind::add ? OptimizerParams{} : rule.params);
  job_.log.request(rank, request);
  job_.workers[rank].rejoined = false;
  std::string failure;
  if (mine != request.text)
    failure = "the job has the optimizer " + mine + ", this worker " + request.text;
  else if (differ(job_.optimizer.weights, request.keys_digest))
    failure = std::string("the job's weights differ from those of this worker") + kOtherWeights;
  end(rank, request, failure);
}

void Collectives::end(std::uint32_t rank, const Request& request, const std::string& failure) {
  job_.workers[rank].collective_done = request.number;
  job_.workers[rank].collective_failure = failure;
  failure.empty() ? job_.replies.done(rank, request) : job_.replies.fail(rank, request, failure);
}

void Collectives::complete(Recorded recorded) {
  if (!job_.workers.have_all_called() || job_.workers.calls().empty()) return;
  const std::string failure = perform(recorded);
  ++job_.counts.collectives;
  for (JobWorker& worker : job_.workers) worker.passed = 0;
  for (const auto& [rank, request] : job_.workers.take_calls()) end(rank, request, failure);
}

std::string Collectives::perform(Recorded recorded) {
  const Workers::Calls& calls = job_.workers.calls();
  const Request& wanted = calls.begin()->second;
  std::uint64_t weights = 0;
  std::string why = disagreement(calls, weights);
  if (!why.empty() || wanted.kind == Kind::barrier) return why;
  UpdateRule rule;
  try {
    rule = parse_update_rule(wanted.text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  set_optimizer(recorded, std::move(rule), weights);
  return {};
}

void Collectives::set_optimizer(Recorded recorded, UpdateRule rule, std::uint64_t weights) {
  job_.optimizer = {.rule = std::move(rule), .weights = weights};
  // The new optimizer replaces all earlier settings. So it does not matter any longer that the snapshot lacks
  // some.
  std::uint64_t& settings = job_.counts.settings;
  for (JobWorker& worker : job_.workers)
    settings = std::max(settings, std::exchange(worker.lost_settings, 0));
  ++settings;
  updates_.reset_optimizers(recorded);
}

void Collectives::resume(std::uint32_t rank, const Request& request) {
  if (!job_.restored) return;
  const Recorded recorded = job_.log.request(rank, request);
  JobWorker& worker = job_.workers[rank];
  worker.lost_settings = request.settings > job_.counts.settings ? request.settings : 0;
  worker.passed = request.collectives;
  job_.counts.collectives = std::max(job_.counts.collectives, request.collectives);
  for (auto one = job_.workers.calls().begin(); one != job_.workers.calls().end();) {
    const auto call = one++;
    if (pass(call->first, call->second)) job_.workers.drop_call(call->first);
  }
  updates_.complete_rounds(recorded);
}

// Answers a call of a restored job if other workers have had its answer, so that it was complete before the
// server was lost. Returns whether that is so.
bool Collectives::pass(std::uint32_t rank, const Request& request) {
  JobWorker& worker = job_.workers[rank];
  if (worker.passed == 0 || worker.passed >= job_.counts.collectives) return false;
  if (!job_.workers.has_called(rank)) job_.log.request(rank, request);
  worker.passed = 0;
  end(rank, request, request.kind == Kind::barrier ? "" : job_.restored.lost_settings());
  return true;
}

}  // namespace heddle::kv_detail
