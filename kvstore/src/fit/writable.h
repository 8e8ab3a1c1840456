// Whether a file can be written, before a training that writes it at its end.
#pragma once

#include <cerrno>
#include <climits>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <heddle/error.h>

#include "fit/path_parts.h"

namespace heddle::fit_detail {

// The least bytes of a name whose places are filled: a digit, or a value as "%.4f" writes it.
inline std::size_t least_size(const std::string& name) {
  std::size_t size = 0;
  for_parts(
      name, [&](std::string_view text) { size += text.size(); },
      [&](std::string_view place) { size += is_count(place) ? 1 : std::string_view("0.0000").size(); });
  return size;
}

// Throws InvalidArgument if the folder of the path is missing or cannot be written, or the name is none of a file, or too long for
// the temporary file beside it. Of a folder with places nothing is known.
inline void check_writable(const std::string& who, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    const std::string shown = path.size() > 200 ? path.substr(0, 200) + "..." : path;
    throw InvalidArgument(who + ": file '" + shown + "' cannot be written: " + why);
  };
  std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string name = std::filesystem::path(path).filename().string();
  if (folder.empty()) folder = ".";
  long most = NAME_MAX;
  if (!has_places(folder)) {
    if (::access((folder + "/.").c_str(), W_OK | X_OK) != 0)
      refuse(std::generic_category().message(errno) + ", of its folder");
    if (const long known = ::pathconf(folder.c_str(), _PC_NAME_MAX); known > 0) most = known;
  }
  struct stat now {};
  if (has_places(path)) {  // the file will have another name
  } else if (::stat(path.c_str(), &now) != 0) {
    if (errno != ENOENT) refuse(std::generic_category().message(errno));
  } else if (S_ISDIR(now.st_mode)) {
    refuse("it is a folder");
  }
  constexpr long kTemporary = 32;  // bytes behind the name while the file is written
  if (static_cast<long>(least_size(name)) + kTemporary > most)
    refuse("its name has " + std::to_string(least_size(name)) + " bytes; want " +
           std::to_string(most - kTemporary) + " or fewer");
}

}  // namespace heddle::fit_detail
