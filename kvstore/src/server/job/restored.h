// A job that was restored from a snapshot: workers may rely on requests that came after it and are lost.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/key_table.h"
#include "server/job/workers.h"

namespace heddle::kv_detail {

class Restored {
 public:
  Restored(const Workers& workers, const KeyTable& keys) : workers_(workers), keys_(keys) {}

  const std::string& when() const { return when_; }  // time of the snapshot; empty: not restored
  void set(const std::string& when) { when_ = when; }
  explicit operator bool() const { return !when_.empty(); }
  // Why a request cannot be answered, since it relies on what is not in the snapshot; empty: it can.
  std::string lost(std::uint32_t rank, const Request& request) const;
  std::string lost_settings() const;  // the error where settings are not in the snapshot

 private:
  const Workers& workers_;
  const KeyTable& keys_;
  std::string when_{};
};

}  // namespace heddle::kv_detail
