// Whether a file can be written, before a training that writes it at its end.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <heddle/error.h>

namespace heddle::fit_detail {

// Throws InvalidArgument if the folder of the path is missing or cannot be written, or the name is none of a file. Of a
// path with placeholders in the folder nothing is known.
inline void check_writable(const std::string& who, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    const std::string shown = path.size() > 200 ? path.substr(0, 200) + "..." : path;
    throw InvalidArgument(who + ": file '" + shown + "' cannot be written: " + why);
  };
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.find('{') != std::string::npos) return;
  if (folder.empty()) folder = ".";
  if (::access((folder + "/.").c_str(), W_OK | X_OK) != 0)
    refuse(std::generic_category().message(errno) + ", of its folder");
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) {
    if (errno != ENOENT) refuse(std::generic_category().message(errno));
  } else if (S_ISDIR(now.st_mode)) {
    refuse("it is a folder");
  }
  std::string name = std::filesystem::path(path).filename().string();
  for (std::size_t open = name.find('{'); open != std::string::npos; open = name.find('{'))
    name.erase(open,
               name.find('}', open) - open);  // a place has a digit at least, as long as the brace that stays
  const long most = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  constexpr long kTemporary = 32;  // bytes behind the name while the file is written
  if (most > 0 && static_cast<long>(name.size()) + kTemporary > most)
    refuse("its name has " + std::to_string(name.size()) + " bytes; want " +
           std::to_string(most - kTemporary) + " or fewer");
}

}  // namespace heddle::fit_detail
