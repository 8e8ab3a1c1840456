#include "server/job/restored.h"

namespace heddle::kv_detail {
namespace {

constexpr const char* kAnew = "; start the job anew from its last checkpoint";

std::string since(const std::string& when) {
  return "the server was restored from a snapshot of " + when + ", ";
}

// Which lost init or pushes of the key the request relies on; empty: none. If the key has no value, its init
// is lost, since an init is answered once the key has a value. A pull that lacks one push may also have been
// sent right behind a push that has failed.
std::string lost_of_key(const std::string& when, const JobKey* key, std::uint32_t rank,
                        const Request& request) {
  const bool is_push = request.kind == Kind::push,
             is_pull = request.kind == Kind::pull || request.kind == Kind::get_state;
  if (!key || !(*key)->has_value())
    return since(when) + "the init of a key that it had acknowledged is lost" + kAnew;
  const std::uint64_t has = (*key)->clock(rank), sent = is_push ? 1 : 0;
  if (request.kind == Kind::set_state || request.clock <= has + sent) return {};
  const std::uint64_t missing = request.clock - has - sent;
  const std::string of_key = " of key " + (*key)->name() + " that it had acknowledged ";
  if (is_pull && missing == 1)
    return "the push of key " + (*key)->name() + " before the pull has failed, or " + since(when) +
           "it is lost" + kAnew;
  const std::string how_many = is_pull        ? "pushes"
                               : missing == 1 ? "1 push"
                                              : std::to_string(missing) + " pushes";
  return since(when) + how_many + of_key + (missing == 1 && is_push ? "is lost" : "are lost") + kAnew;
}

}  // namespace

std::string Restored::lost_settings() const {
  return since(when_) + "calls of set_optimizer or set_optimizer_state that it had acknowledged are lost" +
         kAnew;
}

std::string Restored::lost(std::uint32_t rank, const Request& request) const {
  if (when_.empty()) return {};
  const JobWorker& worker = workers_[rank];
  const bool lacks_settings = worker.lost_settings != 0;
  switch (request.kind) {
    case Kind::push:
    case Kind::pull:
    case Kind::get_state:
    case Kind::set_state:
      return lacks_settings ? lost_settings() : lost_of_key(when_, keys_.find(request.key), rank, request);
    case Kind::push_many:  // its pushes are checked one by one later
    case Kind::pull_many:
      return lacks_settings ? lost_settings() : "";
    case Kind::set_optimizer:  // a new process, which has taken a rank, expects the job's optimizer
      return worker.rejoined && lacks_settings ? lost_settings() : "";
    default:
      return {};
  }
}

}  // namespace heddle::kv_detail
