#include "communicator/traced_name.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <heddle/trace.h>

namespace heddle::comm_detail {
namespace {

// Limits the memory of a program that uses a new size in each call.
constexpr std::size_t kMaxNames = 10'000;

}  // namespace

const char* traced_name(Kind kind, std::size_t bytes) {
  if (!trace::running()) return name_of(kind);
  // The names are never destroyed, since a trace may be written after statics are destroyed.
  static auto* names = new std::map<std::pair<Kind, std::size_t>, std::string>;
  static auto* mutex = new std::mutex;  // guards names
  std::lock_guard guard(*mutex);
  const auto place = names->find({kind, bytes});
  if (place != names->end()) return place->second.c_str();
  if (names->size() >= kMaxNames) return name_of(kind);
  std::string name = name_of(kind) + (' ' + std::to_string(bytes)) + " B";
  return names->emplace(std::pair(kind, bytes), std::move(name)).first->second.c_str();
}

}  // namespace heddle::comm_detail
