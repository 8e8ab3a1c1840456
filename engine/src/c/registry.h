// The handles that are alive, kept in processes that run with HEDDLE_CHECK=1: a call can tell that its handle
// was destroyed. Thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include <heddle/c/status.h>

namespace heddle::c {

// The type of a handle, its first member. The values are unlikely at the start of other memory.
enum class Kind : std::uint32_t {
  engine = 0x68640001,
  var,
  group,
  prepared,
  completion,
  run,
  graph,
  slot,
  stream,
  error,
  progress,
  waiting,
  text,
  first_added = 0x68650001,  // first of the kinds of a library that is built on this one
};
const char* name_of(Kind kind);

// Whether HEDDLE_CHECK was 1 when the library was loaded. Defined in boundary.cc, before its first use there.
extern const bool checked;

// Extensions by a library that is built on this one: each function returns null, or HEDDLE_FAILED, for values
// that are not the library's.
struct AbiExtension {
  const char* (*name_of_kind)(Kind);
  const char* (*name_of_status)(heddle_status);
  heddle_status (*status_of)(const std::exception&);
};
// Registers the extension. Called once, while the library that is built on this one is loaded;
// `abi_extension` must live as long as the process.
void add(const AbiExtension& abi_extension);
const AbiExtension* abi_extension();  // null: add() was not called

namespace registry {

void add(const void* handle, Kind kind);
// Calls use() if the handle is alive and of that kind, while no other thread can remove it. use() must not call the registry.
// Else throws BadHandle.
void with(const void* handle, Kind kind, const char* call, const std::function<void()>& use);
// Calls use() as with() does, and removes the handle from the registry: of several threads that remove one
// handle, one succeeds.
void remove(const void* handle, Kind kind, const char* call, const std::function<void()>& use);
// Calls release(memory) after many later calls: until then no new handle has the address.
void free_late(void* memory, void (*release)(void*));

}  // namespace registry
}  // namespace heddle::c
