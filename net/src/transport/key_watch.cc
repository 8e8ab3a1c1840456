#include "transport/key_watch.h"

#include <exception>
#include <sys/stat.h>

#include <heddle/comm_keys.h>
#include <heddle/log.h>

namespace heddle::net_detail {
namespace {

constexpr std::chrono::seconds kInterval{1};

}  // namespace

KeyWatch::KeyWatch(const std::string& directory)
    : directory_(directory.empty() ? comm_keys_directory() : directory),
      known_(stamp()),
      next_look_(Clock::now() + kInterval) {}

KeyWatch::Stamp KeyWatch::stamp() const {
  Stamp all{};
  std::size_t i = 0;
  for (const std::string& file :
       {net_detail::key_file_in(directory_), net_detail::allowed_file_in(directory_),
        net_detail::curve_file_in(directory_)}) {
    struct stat found {};
    if (::stat(file.c_str(), &found) == 0)
      all[i] = {static_cast<std::int64_t>(found.st_dev), static_cast<std::int64_t>(found.st_ino),
                found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
    ++i;
  }
  return all;
}

std::optional<net_detail::KeyFiles> KeyWatch::changed() {
  const auto now = Clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + kInterval;
  const Stamp here = stamp();
  if (here == known_) return std::nullopt;
  known_ = here;
  std::string why = "there is no " + net_detail::key_file_in(directory_);
  try {
    if (auto files = net_detail::read_key_files(directory_)) return files;
  } catch (const std::exception& error) {
    why = error.what();
  }
  write_log("heddle: " + why + "; the keys that were read before stay in force");
  return std::nullopt;
}

}  // namespace heddle::net_detail
