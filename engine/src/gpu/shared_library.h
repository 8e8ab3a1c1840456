// Libraries of NVIDIA, opened when they are first needed: a machine may have a driver and nothing else.
#pragma once

#include <string>
#include <vector>

namespace heddle::detail {

// A library that stays open until the process ends.
class SharedLibrary {
 public:
  // Opens the first of `names` that there is: in the folders of HEDDLE_CUDA_LIBRARIES (separated by ":"), in order, and then
  // where the dynamic loader looks.
  explicit SharedLibrary(const std::vector<std::string>& names);

  bool is_open() const { return handle_; }
  const std::string& path() const { return path_; }        // what was opened
  const std::string& missing() const { return missing_; }  // why nothing was: one reason for each file
  // A function of the library. Throws Error, which names the library and the function, if it has none.
  template <class Fn> void find(const char* name, Fn*& function) const {
    function = reinterpret_cast<Fn*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string path_, missing_;
};

// Whether HEDDLE_CUDA_LIBRARIES names folders: then a library that is not found is an error.
bool library_folders_given();

}  // namespace heddle::detail
