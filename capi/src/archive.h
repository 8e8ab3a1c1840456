// What stands behind a heddle_archive, and the state of optimizers and the like as one.
#pragma once

#include <map>
#include <vector>

#include "array_handle.h"

namespace heddle::c {

using LinkedArrays = std::map<std::string, LinkedArray, std::less<>>;

// Names and texts stand in maps, whose nodes stay where they are.
struct Archive {
  std::mutex mutex;  // guards all below
  LinkedArrays arrays;
  std::map<std::string, std::string, std::less<>> texts;
};

// What is in an archive during a call, and the engines of its arrays, which live as long.
struct ArchiveContent {
  ArchiveContent(const heddle_archive* archive, const char* call);
  // The arrays; throws if one belongs to another engine.
  const std::map<std::string, NDArray>& of_engine(const Engine& engine, const char* call) const;
  std::map<std::string, NDArray> arrays;
  std::map<std::string, std::string> texts;
  std::vector<std::shared_ptr<Engine>> engines;
};

LinkedArrays linked(const std::map<std::string, NDArray>& arrays, const std::shared_ptr<Engine>& engine);
heddle_archive* new_archive(LinkedArrays arrays);

}  // namespace heddle::c
