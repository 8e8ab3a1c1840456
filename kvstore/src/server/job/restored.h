// Checks requests of a job that was restored from a snapshot: workers may rely on earlier requests that came
// after the snapshot and are lost.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/key_table.h"
#include "server/job/workers.h"

namespace heddle::kv_detail {

class Restored {
 public:
  Restored(const Workers& workers, const KeyTable& keys) : workers_(workers), keys_(keys) {}

  // Time of the snapshot that the job was restored from; empty: it was not restored.
  const std::string& when() const { return when_; }
  void set(const std::string& when) { when_ = when; }
  explicit operator bool() const { return !when_.empty(); }
  // Why a request cannot be answered, since it relies on a request that the snapshot lacks; empty: it can.
  std::string lost(std::uint32_t rank, const Request& request) const;
  // The error of a request that relies on a set_optimizer or set_state that the snapshot lacks.
  std::string lost_settings() const;

 private:
  const Workers& workers_;
  const KeyTable& keys_;
  std::string when_{};
};

}  // namespace heddle::kv_detail
