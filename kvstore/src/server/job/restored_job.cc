// A job that was restored from a snapshot: workers may rely on requests that came after it and are lost.
#include <algorithm>
#include <iterator>

#include "server/job/job.h"

namespace heddle::kv_detail {
namespace {

constexpr const char* kAnew = "; start the job anew from its last checkpoint";

std::string since(const std::string& when) {
  return "the server was restored from a snapshot of " + when + ", ";
}

std::string lost_settings(const std::string& when) {
  return since(when) + "calls of set_optimizer or set_optimizer_state that it had acknowledged are lost" +
         kAnew;
}

// Why the request relies on lost ones; empty: it does not. A pull may have been sent right behind a push that
// has failed. An init was answered when the key had its value.
std::string lost_of_key(const std::string& when, const StoredKey* key, std::uint32_t rank,
                        const Request& request) {
  const bool is_push = request.kind == Kind::push,
             is_pull = request.kind == Kind::pull || request.kind == Kind::get_state;
  if (!key || !key->has_value())
    return since(when) + "the init of a key that it had acknowledged is lost" + kAnew;
  const std::uint64_t has = key->clock(rank), sent = is_push ? 1 : 0;
  if (request.kind == Kind::set_state || request.clock <= has + sent) return {};
  const std::uint64_t missing = request.clock - has - sent;
  const std::string of_key = " of key " + key->name() + " that it had acknowledged ";
  if (is_pull && missing == 1)
    return "the push of key " + key->name() + " before the pull has failed, or " + since(when) +
           "it is lost" + kAnew;
  const std::string how_many = is_pull        ? "pushes"
                               : missing == 1 ? "1 push"
                                              : std::to_string(missing) + " pushes";
  return since(when) + how_many + of_key + (missing == 1 && is_push ? "is lost" : "are lost") + kAnew;
}

}  // namespace

// Keys that are made from now on get other numbers than those that were made after the snapshot, which
// workers may know. Workers repeat pending barriers and set_optimizers, unless these were answered.
void Job::restored(const std::string& when) {
  restored_ = when;
  ++generation_;
  collective_.clear();
  pushing_ = required_;
  for (Worker& worker : workers_) worker.passed = worker.lost_settings = 0;
}

// The worker may have had answers to requests that came after the snapshot.
void Job::resume(std::uint32_t rank, const Request& request) {
  if (restored_.empty()) return;
  changed(rank, request);
  Worker& worker = workers_[rank];
  worker.lost_settings = request.clock > settings_ ? request.clock : 0;
  worker.passed = request.bytes;
  collectives_ = std::max(collectives_, request.bytes);
  for (auto one = collective_.begin(); one != collective_.end();)
    one = pass(one->first, one->second) ? collective_.erase(one) : std::next(one);
  go_on_with_keys();
}

// True: the call was complete before the server was lost, since others have had its answer. It is answered.
bool Job::pass(std::uint32_t rank, const Request& request) {
  Worker& worker = workers_[rank];
  if (worker.passed == 0 || worker.passed >= collectives_) return false;
  if (!collective_.contains(rank)) changed(rank, request);
  worker.passed = 0;
  worker.collective_done = request.number;
  worker.collective_failure = request.kind == Kind::barrier ? "" : lost_settings(restored_);
  worker.collective_failure.empty() ? done(rank, request) : fail(rank, request, worker.collective_failure);
  return true;
}

StoredKey* Job::find_key(std::uint32_t number) const {
  const std::uint32_t index = number & kKeyIndex;
  if (index >= keys_.size()) return nullptr;
  StoredKey* const key = keys_[index].get();
  return generation_ == 0 || numbers_.at(key->name()) == number ? key : nullptr;
}

// Why a request cannot be answered, since it relies on what is not in the snapshot; empty: it can.
std::string Job::lost(std::uint32_t rank, const Request& request) const {
  if (restored_.empty()) return {};
  const Worker& worker = workers_[rank];
  switch (request.kind) {
    case Kind::push:
    case Kind::pull:
    case Kind::get_state:
    case Kind::set_state:
      return worker.lost_settings != 0 ? lost_settings(restored_)
                                       : lost_of_key(restored_, find_key(request.key), rank, request);
    case Kind::push_many:  // each key is checked later
    case Kind::pull_many:
      return worker.lost_settings != 0 ? lost_settings(restored_) : "";
    case Kind::set_optimizer:  // sent by a new process, which expects the job's optimizer
      return worker.rejoined && worker.lost_settings != 0 ? lost_settings(restored_) : "";
    default:
      return {};
  }
}

}  // namespace heddle::kv_detail
