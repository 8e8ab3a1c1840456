#include "server/job/key_table.h"

#include <utility>

#include "server/job/key_change.h"
#include "server/job/outgoing.h"

namespace heddle::kv_detail {
namespace {

std::string place_text(std::uint32_t place) { return "number " + std::to_string(std::uint64_t{place} + 1); }

}  // namespace

JobKey* KeyTable::find(std::uint32_t number) const {
  const std::uint32_t index = number & kKeyIndex;
  if (index >= keys_.size()) return nullptr;
  JobKey* const key = keys_[index].get();
  return generation_ == 0 || key->number() == number ? key : nullptr;
}

JobKey& KeyTable::of(std::uint32_t number) const {
  JobKey* const key = find(number);
  if (!key) throw MalformedMessage("there is no key " + std::to_string(number));
  return *key;
}

bool KeyTable::has_room_for(const Request& init, std::string& why) const {
  return has(init.text) || memory_.has_room_for_overhead(JobKey::overhead(init.text.size(), workers_), why);
}

JobKey& KeyTable::of_init(const Request& init) {
  if (const auto found = numbers_.find(init.text); found != numbers_.end())
    return *keys_[found->second & kKeyIndex];
  if (init.text.size() > kMaxKeyText || init.bytes % size_of(init.dtype) != 0 || keys_.size() > kKeyIndex)
    throw MalformedMessage("a key of " + std::to_string(init.text.size()) + " letters, with " +
                           std::to_string(init.bytes) + " bytes");
  const auto index = static_cast<std::uint32_t>(keys_.size());
  const std::vector<std::uint64_t> nothing(workers_);
  StoredKey made({.name = init.text,
                  .dtype = init.dtype,
                  .bytes = init.bytes,
                  .whole_bytes = init.whole.bytes,
                  .whole_rows = init.whole.rows,
                  .place = is_ordered() ? init_index_of(init) : StateKey::kNoIndex},
                 {.clocks = nothing, .missed = nothing});
  JobKey& key = add(index | std::uint32_t{generation_} << 24, std::move(made));
  log_.key(init);
  return key;
}

JobKey& KeyTable::add(std::uint32_t number, StoredKey key) {
  // Whatever may throw std::bad_alloc comes first, so that a key is added to all tables or to none.
  auto owned = std::make_unique<JobKey>(number, std::move(key));
  JobKey& made = *owned;
  if (keys_.size() == keys_.capacity()) keys_.reserve(2 * keys_.size() + 8);
  listed_.reserve(keys_.capacity());
  const auto named = numbers_.emplace(made->name(), number).first;
  try {
    if (is_ordered()) by_place_[made->place] = &made;
  } catch (...) {
    numbers_.erase(named);
    throw;
  }
  keys_.push_back(std::move(owned));
  memory_.use_overhead(JobKey::overhead(made->name().size(), workers_));
  memory_.recount(made);
  list(made);
  return made;
}

JobKey* KeyTable::out_of_order(const Request& init) const {
  if (!is_ordered()) return nullptr;
  const std::uint32_t place = init_index_of(init);
  if (const auto found = numbers_.find(init.text); found != numbers_.end()) {
    JobKey* const key = keys_[found->second & kKeyIndex].get();
    return (*key)->place == place ? nullptr : key;
  }
  const auto taken = by_place_.find(place);
  return taken == by_place_.end() ? nullptr : taken->second;
}

std::string KeyTable::order_problem(std::uint32_t rank, const Request& init, const StoredKey& other) const {
  return "key " + init.text + ": worker " + std::to_string(rank) + " initialises it as " +
         place_text(init_index_of(init)) + " of its keys, other workers " +
         (other.name() == init.text ? "as " + place_text(other.place)
                                    : "have key " + other.name() + " there") +
         ". With the placement " + settings_.placement +
         " all workers have to initialise the same keys in the same order";
}

void KeyTable::fail(JobKey& key, const std::string& why) {
  KeyChange change(log_.fail_key(key.number(), why), *this, key);
  change->fail(why);
}

void KeyTable::list(JobKey& key) noexcept {
  if (key.is_listed || !key.has_waiting()) return;
  key.is_listed = true;
  listed_.push_back(&key);
}

}  // namespace heddle::kv_detail
