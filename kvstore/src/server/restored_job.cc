// A job whose state is that of a snapshot: workers may build on what came after it.
#include <algorithm>

#include "server/job.h"

namespace heddle::kv_detail {
namespace {

constexpr const char* kAnew = "; start the job anew from its last checkpoint";

std::string since(const std::string& when) {
  return "the server was restored from a snapshot of " + when + ", ";
}

}  // namespace

// Keys that are made from now on get other numbers than those that were made after the snapshot, which workers may have.
void Job::restored(const std::string& when) {
  restored_ = when;
  ++generation_;
}

StoredKey* Job::find_key(std::uint32_t number) const {
  const std::uint32_t index = number & kKeyIndex;
  if (index >= keys_.size()) return nullptr;
  StoredKey* const key = keys_[index].get();
  return generation_ == 0 || numbers_.at(key->name()) == number ? key : nullptr;
}

// Why a push or a pull cannot be answered that builds on pushes or keys which are not in the snapshot; empty: it can. A pull
// may have been sent right behind a push that has failed.
std::string Job::lost(std::uint32_t rank, const Request& request) const {
  const bool is_push = request.kind == Kind::push,
             is_pull = request.kind == Kind::pull || request.kind == Kind::get_state;
  if (restored_.empty() || (!is_push && !is_pull && request.kind != Kind::set_state)) return {};
  std::string what;
  if (const StoredKey* const key = find_key(request.key); !key) {
    what = "the init of a key that it had acknowledged is lost";
  } else {
    const std::uint64_t has = key->clock(rank), sent = is_push ? 1 : 0;
    if (request.kind == Kind::set_state || request.clock <= has + sent) return {};
    const std::uint64_t missing = request.clock - has - sent;
    const std::string of_key = " of key " + key->name() + " that it had acknowledged ";
    if (is_pull && missing == 1)
      return "the push of key " + key->name() + " before the pull has failed, or " + since(restored_) +
             "it is lost" + kAnew;
    what =
        is_pull ? "pushes" + of_key + "are lost" : std::to_string(missing) + " pushes" + of_key + "are lost";
  }
  return since(restored_) + what + kAnew;
}

}  // namespace heddle::kv_detail
