#include "gpu/shared_library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>

#include <heddle/error.h>

namespace heddle::detail {
namespace {

constexpr const char* kFolders = "HEDDLE_CUDA_LIBRARIES";

// The folders, each with "/" at its end, then "".
std::vector<std::string> places() {
  std::vector<std::string> folders;
  const char* const given = std::getenv(kFolders);
  std::istringstream text(given ? given : "");
  for (std::string folder; std::getline(text, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder + "/");
  }
  folders.push_back("");
  return folders;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::vector<std::string>& names) {
  for (const std::string& folder : places()) {
    for (const std::string& name : names) {
      path_ = folder + name;
      handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
      const char* const why = dlerror();
      missing_ += (missing_.empty() ? "" : "; ") + std::string(why ? why : path_ + " cannot be opened");
    }
  }
  path_.clear();
}

void* SharedLibrary::symbol(const char* name) const {
  void* const found = handle_ ? dlsym(handle_, name) : nullptr;
  if (!found) throw Error((path_.empty() ? missing_ : path_) + ": has no function " + name);
  return found;
}

bool library_folders_given() { return places().size() > 1; }

}  // namespace heddle::detail
