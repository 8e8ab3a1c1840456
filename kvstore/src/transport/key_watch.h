// The files of a directory of keys, which are read again when they change: keys are rotated without a restart.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "net/key_files.h"

namespace heddle::kv_detail {

class KeyWatch {
 public:
  // Before the files are read for the first time. Empty: comm_keys_directory().
  explicit KeyWatch(const std::string& directory);
  const std::string& directory() const { return directory_; }
  // The files, if they are others than the last time. Looks at them once a second at most. Files that are missing or wrong are
  // said to be so on stderr, once, and change nothing.
  std::optional<comm_detail::KeyFiles> changed();

 private:
  using Clock = std::chrono::steady_clock;
  // Tells versions of comm.key, comm.allowed and comm.curve apart: device, inode, size and time of change of each.
  using Stamp = std::array<std::array<std::int64_t, 5>, 3>;
  Stamp stamp() const;

  const std::string directory_;
  Stamp known_;
  Clock::time_point next_look_;
};

}  // namespace heddle::kv_detail
