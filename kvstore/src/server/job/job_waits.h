// Tells which workers of a job wait, and for which others.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/job.h"

namespace heddle::kv_detail {

class JobWaits {
 public:
  explicit JobWaits(const Job& job) : job_(job) {}

  bool has(std::uint32_t rank) const;  // the worker waits for something
  bool has_all() const;                // every worker that others may wait for waits itself
  std::string text() const;            // for each worker that waits, the first thing that it waits for

 private:
  std::string text_of(std::uint32_t rank) const;  // what the worker waits for; empty: nothing

  const Job& job_;
};

}  // namespace heddle::kv_detail
