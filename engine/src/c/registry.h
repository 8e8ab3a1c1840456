// The handles that are alive, in processes that run with HEDDLE_CHECK=1: so that a call finds out that a handle was
// destroyed. Thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include <heddle/c/status.h>

namespace heddle::c {

// The type of a handle; the first member of each. Values that other memory hardly begins with.
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
  first_added = 0x68650001,  // kinds of a library that is built on this one
};
const char* name_of(Kind kind);

// HEDDLE_CHECK was 1 when the library was loaded. Defined in boundary.cc, before what is first to need it.
extern const bool checked;

// What a library that is built on this one adds: each function answers null, or HEDDLE_FAILED, for what is not its own.
struct Addition {
  const char* (*name_of_kind)(Kind);
  const char* (*name_of_status)(heddle_status);
  heddle_status (*status_of)(const std::exception&);
};
// Called once, while that library is loaded; `addition` lives as long as the process.
void add(const Addition& addition);
const Addition* addition();  // null: nobody has called add()

namespace registry {

void add(const void* handle, Kind kind);
// Calls use() if the handle is alive and of that kind, while no other thread can remove it. use() must not call the registry.
// Else throws BadHandle.
void with(const void* handle, Kind kind, const char* call, const std::function<void()>& use);
// Calls use() as with() does, and takes the handle out of the registry: of several threads that remove one handle, one succeeds.
void remove(const void* handle, Kind kind, const char* call, const std::function<void()>& use);
// Frees memory by release(memory) when many others were freed after it: until then no new handle has its address.
void free_late(void* memory, void (*release)(void*));

}  // namespace registry
}  // namespace heddle::c
