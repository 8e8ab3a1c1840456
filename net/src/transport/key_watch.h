// Reads the files of a key directory again when they change, so that keys are rotated without a restart.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "security/key_files.h"

namespace heddle::net_detail {

class KeyWatch {
 public:
  // Must be made before the files are first read. An empty directory: comm_keys_directory().
  explicit KeyWatch(const std::string& directory);
  const std::string& directory() const { return directory_; }
  // The files, if they have changed since the last call. Looks at them once a second at most. Missing or
  // invalid files are reported on stderr, once, and change nothing.
  std::optional<net_detail::KeyFiles> changed();

 private:
  using Clock = std::chrono::steady_clock;
  // Device, inode, size and time of change of comm.key, comm.allowed and comm.curve.
  using Stamp = std::array<std::array<std::int64_t, 5>, 3>;
  Stamp stamp() const;

  const std::string directory_;
  Stamp known_;
  Clock::time_point next_look_;
};

}  // namespace heddle::net_detail
