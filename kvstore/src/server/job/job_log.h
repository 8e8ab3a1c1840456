// Records the changes of one job for the server's backup.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "server/job/changes.h"
#include "server/key/incoming.h"

namespace heddle::kv_detail {

class JobKey;
class KeyTable;

class JobLog {
 public:
  JobLog(std::string job, Changes& changes) : job_(std::move(job)), changes_(changes) {}

  const std::string& job() const { return job_; }
  bool has_backup() const { return changes_.wanted; }  // whether a backup gets the records
  Recorded join(const Hello& hello, std::uint64_t incarnation);
  Recorded drop(std::uint32_t rank);
  Recorded key(const Request& init);
  Recorded fail_key(std::uint32_t number, const std::string& why);
  // Records a request that was accepted, with its whole payload: once all pieces of the payload have come.
  Recorded request(std::uint32_t rank, const Request& request, const Payload& whole = {});
  Recorded request(std::uint32_t rank, const Request& request, const Incoming& value);
  std::uint64_t count() const { return changes_.count; }
  // Called before a key changes: copies it for the snapshots that are being collected.
  void copy_for_savers(const KeyTable& keys, const JobKey& key) const noexcept;

 private:
  Recorded add(Record record);

  const std::string job_;
  Changes& changes_;
};

}  // namespace heddle::kv_detail
