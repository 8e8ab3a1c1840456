// How back ends of communicators are registered.
//
//   HEDDLE_BACKENDS(tcp) {  // in the file of the back end
//     table.add({.name = "tcp", .make = make_tcp_backend, .everywhere = true});
//   }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"

namespace heddle::comm_detail {

struct BackendInfo {
  std::string name;  // the name for CommOptions::backend
  // Collective: blocks until all ranks of the rendezvous take part. Throws the same error on all ranks if one
  // of them cannot have this back end.
  std::unique_ptr<Backend> (*make)(Rendezvous& rendezvous, const BackendOptions& options);
  // Whether every Linux host can have this back end; the tests then run every call on it.
  bool everywhere = false;
  bool threads = false;  // whether its ranks are threads of one process; error messages do not offer it
  // Returns the name and version of the library that the back end needs; empty: this build has no such
  // library. Null: the back end needs none.
  std::string (*library)() = nullptr;
  std::string option{};  // the CMake option that adds this library
};

class BackendTable {
 public:
  explicit BackendTable(std::vector<BackendInfo>& all) : all_(all) {}
  void add(BackendInfo info);  // throws std::logic_error for a name that is taken

 private:
  std::vector<BackendInfo>& all_;
};

const std::vector<BackendInfo>& backends();                // all back ends of this build, by name
const BackendInfo* find_backend(const std::string& name);  // null: there is no back end of this name

// Heads the function that registers the back ends of one file. The build finds these functions by looking for
// the word HEDDLE_BACKENDS in the sources (cmake/registrations.cmake).
#define HEDDLE_BACKENDS(name)                           \
  void register_##name##_backends(BackendTable& table); \
  void register_##name##_backends(BackendTable& table)

void register_backends(BackendTable& table);  // registers all back ends of this build

}  // namespace heddle::comm_detail
