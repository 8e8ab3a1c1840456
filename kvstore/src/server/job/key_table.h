// The keys of a job, by number and by name.
//
// The table also checks that all workers initialise keys in one order, where that order decides which server
// keeps a key. Workers whose orders are the same up to some key send that key, whichever it is, to at least
// one common server. That server sees two keys with one position in the order, or one key with two. A worker
// names a key when the server has the one before.
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

  const std::vector<std::unique_ptr<JobKey>>& all() const { return keys_; }  // by index
  std::size_t size() const { return keys_.size(); }
  JobKey* find(std::uint32_t number) const;  // null: there is none
  JobKey& of(std::uint32_t number) const;    // throws MalformedMessage
  bool has(const std::string& name) const { return numbers_.contains(name); }
  // False: `why` says that the key of this init cannot be made.
  bool has_room_for(const Request& init, std::string& why) const;
  // The key of an init. The first worker that names a key makes it. Throws MalformedMessage.
  JobKey& of_init(const Request& init);
  // The key that contradicts this init's position in the order; null: none.
  JobKey* out_of_order(const Request& init) const;
  std::string order_problem(std::uint32_t rank, const Request& init, const StoredKey& other) const;
  // Adds a key, whose index is the next one.
  JobKey& add(std::uint32_t number, StoredKey key);
  bool has_place(std::uint32_t place) const { return by_place_.contains(place); }
  // Sets the key's error, and drops pushes that wait.
  void fail(JobKey& key, const std::string& why);

  std::uint8_t generation() const { return generation_; }
  void set_generation(std::uint8_t generation) { generation_ = generation; }

  // Keys with pushes or requests that wait, maybe others: these are looked at if a worker is gone.
  const std::vector<JobKey*>& listed() const { return listed_; }
  void list(JobKey& key) noexcept;  // if pushes or requests wait
  // Takes all keys off the list, and calls `visit` with one after the other.
  template <class F> void visit_listed(F visit);

 private:
  friend class KeyChange;
  bool is_ordered() const { return settings_.is_ordered(); }

  const JobSettings& settings_;
  const std::size_t workers_;
  JobMemory& memory_;
  JobLog& log_;
  std::vector<std::unique_ptr<JobKey>> keys_{};  // by index: the number without its generation
  std::vector<JobKey*> listed_{};                // has capacity for all keys
  std::unordered_map<std::string, std::uint32_t> numbers_{};
  std::unordered_map<std::uint32_t, JobKey*> by_place_{};  // keys by StateKey::place, if they have one
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
