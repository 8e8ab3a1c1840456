// The keys of a job, by number and by name.
//
// The table also checks that all workers initialise keys in the same order, if that order decides which
// server keeps a key. Let the orders of two workers differ for the first time at some position. The workers
// then send their keys of that position to at least one common server, which sees two keys with one position,
// or one key with two positions. A worker sends an init only when its previous init is answered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/job/job_key.h"
#include "server/job/job_log.h"
#include "server/job/job_memory.h"
#include "wire/job_settings.h"

namespace heddle::kv_detail {

class KeyTable {
 public:
  KeyTable(const JobSettings& settings, std::size_t workers, JobMemory& memory, JobLog& log)
      : settings_(settings), workers_(workers), memory_(memory), log_(log) {}
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  const std::vector<std::unique_ptr<JobKey>>& all() const { return keys_; }  // all keys, by JobKey::index()
  std::size_t size() const { return keys_.size(); }
  JobKey* find(std::uint32_t number) const;  // null: there is no key with this number
  JobKey& of(std::uint32_t number) const;    // throws MalformedMessage if there is no key with this number
  bool has(const std::string& name) const { return numbers_.contains(name); }
  // False: `why` says that the key of this init cannot be made.
  bool has_room_for(const Request& init, std::string& why) const;
  // The key of an init. The first worker that names a key makes it. Throws MalformedMessage.
  JobKey& of_init(const Request& init);
  // The key that contradicts this init's position in the order; null: none.
  JobKey* out_of_order(const Request& init) const;
  std::string order_problem(std::uint32_t rank, const Request& init, const StoredKey& other) const;
  // Adds a key with this number, whose index is that of the next free place in the table.
  JobKey& add(std::uint32_t number, StoredKey key);
  bool has_place(std::uint32_t place) const { return by_place_.contains(place); }
  // Sets the key's error, and drops pushes of the key that wait.
  void fail(JobKey& key, const std::string& why);

  std::uint8_t generation() const { return generation_; }
  void set_generation(std::uint8_t generation) { generation_ = generation; }

  // All keys at which pushes or requests wait, and maybe more keys. They are visited when a worker is gone.
  const std::vector<JobKey*>& listed() const { return listed_; }
  void list(JobKey& key) noexcept;  // puts the key on the list if pushes or requests wait at it
  // Takes all keys off the list, and calls `visit` with one key after the other.
  template <class F> void visit_listed(F visit);

 private:
  friend class KeyChange;
  bool is_ordered() const { return settings_.is_ordered(); }

  const JobSettings& settings_;
  const std::size_t workers_;
  JobMemory& memory_;
  JobLog& log_;
  std::vector<std::unique_ptr<JobKey>> keys_{};  // keys by index, their number without its generation
  std::vector<JobKey*> listed_{};                // has capacity for all keys, so that list() cannot throw
  std::unordered_map<std::string, std::uint32_t> numbers_{};
  std::unordered_map<std::uint32_t, JobKey*> by_place_{};  // keys that have a StateKey::place, by that place
  std::uint8_t generation_ = 0;
};

template <class F> void KeyTable::visit_listed(F visit) {
  if (listed_.empty()) return;
  std::vector<JobKey*> all;
  all.reserve(listed_.capacity());
  all.swap(listed_);
  for (JobKey* const key : all) {
    key->is_listed = false;
    visit(*key);
  }
}

}  // namespace heddle::kv_detail
