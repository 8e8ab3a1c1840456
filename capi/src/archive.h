// The object of a heddle_archive handle, and functions that make one, for example of an optimizer's state.
#pragma once

#include <map>
#include <vector>

#include "array_handle.h"

namespace heddle::c {

using LinkedArrays = std::map<std::string, LinkedArray, std::less<>>;

// The content of an archive. Its maps never move names and texts, so pointers given to callers stay valid.
struct Archive {
  std::mutex mutex;  // guards `arrays` and `texts`
  LinkedArrays arrays;
  std::map<std::string, std::string, std::less<>> texts;
};

// A copy of an archive's content for the duration of a call. Keeps the engines of its arrays alive.
struct ArchiveContent {
  ArchiveContent(const heddle_archive* archive, const char* call);
  // Returns `arrays`; throws if one of them belongs to another engine.
  const std::map<std::string, NDArray>& of_engine(const Engine& engine, const char* call) const;
  std::map<std::string, NDArray> arrays;
  std::map<std::string, std::string> texts;
  std::vector<std::shared_ptr<Engine>> engines;
};

LinkedArrays linked(const std::map<std::string, NDArray>& arrays, const std::shared_ptr<Engine>& engine);
heddle_archive* new_archive(LinkedArrays arrays);

}  // namespace heddle::c
