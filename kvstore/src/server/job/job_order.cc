// Checks that all workers initialise keys in one order, where that order decides which server keeps a key.
// Workers whose orders are the same up to some key send that key, whichever it is, to at least one common
// server. That server sees two keys with one position in the order, or one key with two. A worker names a key
// when the server has the one before.
#include "server/job/job.h"

namespace heddle::kv_detail {

namespace {

std::string number(std::uint32_t place) { return "number " + std::to_string(std::uint64_t{place} + 1); }

std::string problem(std::uint32_t rank, const Request& request, const StoredKey& other) {
  return "key " + request.text + ": worker " + std::to_string(rank) + " initialises it as " +
         number(init_index_of(request)) + " of its keys, other workers " +
         (other.name() == request.text ? "as " + number(other.place())
                                       : "have key " + other.name() + " there");
}

}  // namespace

// The key that contradicts this one's position in the order; null: none.
StoredKey* Job::out_of_order(const Request& request) const {
  if (!job_settings_.is_ordered()) return nullptr;
  const std::uint32_t place = init_index_of(request);
  if (const auto found = numbers_.find(request.text); found != numbers_.end()) {
    StoredKey* const key = keys_[found->second & kKeyIndex].get();
    return key->place() == place ? nullptr : key;
  }
  const auto taken = by_init_index_.find(place);
  return taken == by_init_index_.end() ? nullptr : taken->second;
}

// True: the init is refused, now or at its last piece. As long as the other key has no value, nobody knows
// whose order is the right one, and it may never get a value: its inits fail, too.
bool Job::fail_out_of_order(std::uint32_t rank, const Request& request, std::size_t payload) {
  StoredKey* const other = out_of_order(request);
  if (!other) return false;
  if (payload > 0 && !is_last(request, payload)) return true;
  const std::string why = problem(rank, request, *other) + ". With the placement " + job_settings_.placement +
                          " all workers have to initialise the same keys in the same order";
  if (!other->has_value()) fail_waiting(*other, why);
  fail(rank, request, why);
  return true;
}

}  // namespace heddle::kv_detail
