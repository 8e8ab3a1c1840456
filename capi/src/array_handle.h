// The objects of this library's handles, and how a call accesses them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <heddle/c/heddle.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>
#include <heddle/row_sparse.h>

#include "c/boundary.h"
#include "c/handles.h"

namespace heddle::c {

constexpr Kind added_kind(std::uint32_t number) {
  return static_cast<Kind>(static_cast<std::uint32_t>(Kind::first_added) + number);
}
inline constexpr Kind kArray = added_kind(0), kArchive = added_kind(1), kGenerator = added_kind(2),
                      kRowSparse = added_kind(3), kOptimizer = added_kind(4), kCommunicator = added_kind(5),
                      kStore = added_kind(6), kTrainer = added_kind(7), kModule = added_kind(8),
                      kMetric = added_kind(9), kModuleHook = added_kind(10);

// A weak reference to an array's engine, so that heddle_engine_destroy destroys the engine although arrays
// of the engine still exist.
class EngineLink {
 public:
  explicit EngineLink(const std::shared_ptr<Engine>& engine);
  std::shared_ptr<Engine> lock(const char* call) const;  // throws BadHandle if the engine was destroyed
  bool is_of(const Engine& engine) const { return pointer_ == &engine; }

 private:
  Engine* pointer_;
  std::weak_ptr<Engine> engine_;
  std::shared_ptr<Engine> default_;  // keeps the default engine alive; null for other engines
};

struct LinkedArray {
  NDArray array;
  EngineLink engine;
};
struct LinkedRows {
  RowSparse rows;
  EngineLink engine;
};
struct LockedGenerator {
  explicit LockedGenerator(std::uint64_t seed) : generator(seed) {}
  std::mutex mutex;  // guards the generator
  Generator generator;
};
struct Archive;
struct LockedOptimizer;
struct LockedStore;
struct LockedTrainer;
struct LinkedModule;
struct Rank;

}  // namespace heddle::c

struct heddle_array : heddle::c::Handle<heddle::c::LinkedArray, heddle::c::kArray> {
  using Handle::Handle;
};
struct heddle_archive : heddle::c::Handle<std::shared_ptr<heddle::c::Archive>, heddle::c::kArchive> {
  using Handle::Handle;
};
struct heddle_generator
    : heddle::c::Handle<std::shared_ptr<heddle::c::LockedGenerator>, heddle::c::kGenerator> {
  using Handle::Handle;
};
struct heddle_row_sparse : heddle::c::Handle<heddle::c::LinkedRows, heddle::c::kRowSparse> {
  using Handle::Handle;
};
struct heddle_optimizer
    : heddle::c::Handle<std::shared_ptr<heddle::c::LockedOptimizer>, heddle::c::kOptimizer> {
  using Handle::Handle;
};
struct heddle_communicator
    : heddle::c::Handle<std::shared_ptr<const heddle::c::Rank>, heddle::c::kCommunicator> {
  using Handle::Handle;
};
struct heddle_kvstore : heddle::c::Handle<std::shared_ptr<heddle::c::LockedStore>, heddle::c::kStore> {
  using Handle::Handle;
};
struct heddle_trainer : heddle::c::Handle<std::shared_ptr<heddle::c::LockedTrainer>, heddle::c::kTrainer> {
  using Handle::Handle;
};
struct heddle_module : heddle::c::Handle<std::shared_ptr<const heddle::c::LinkedModule>, heddle::c::kModule> {
  using Handle::Handle;
};

namespace heddle::c {

const heddle_site* site_of_thread();  // what this thread has passed to heddle_site_set

// Runs `body` in guarded(). The ops that it pushes have the thread's call site of heddle_site_set.
template <class Body> heddle_status called(heddle_error** error, Body&& body) noexcept {
  return guarded(error, [&] {
    const CallSite site(location_of(site_of_thread()));
    body();
  });
}

// Access to an array or row-sparse array during a call. Keeps its engine alive.
template <class H> class Used {
 public:
  Used(const H* handle, const char* call) : value_(handle, call), engine_(value_->engine.lock(call)) {}
  const typename H::Value* operator->() const { return &*value_; }
  Engine& engine() const { return *engine_; }
  const std::shared_ptr<Engine>& shared_engine() const { return engine_; }

 private:
  HandleAccess<H> value_;
  std::shared_ptr<Engine> engine_;
};
using UsedArray = Used<heddle_array>;
using UsedRows = Used<heddle_row_sparse>;

// The engine of a handle; the default engine if the handle is null.
std::shared_ptr<Engine> engine_of(heddle_engine* engine, const char* call);
// Throws InvalidArgument if the engine of an array argument is not the engine that the call needs.
void check_engine(const Engine& of_array, const Engine& wanted, const char* call);

DType dtype_of_number(std::int32_t dtype, const char* call);
Device device_of(const heddle_device& device, const char* call);
heddle_device device_of(const Device& device);
Dims dims_of(const std::int64_t* numbers, std::int32_t count, const char* call);
std::string text_of(const char* text, const char* call, const char* argument);  // throws if `text` is null
// Makes a copy of the text that lives as long as the process, one for equal texts, as heddle_intern does.
const char* static_text(const std::string& text);

heddle_array* new_handle(NDArray array, const EngineLink& engine);
heddle_row_sparse* new_handle(RowSparse rows, const EngineLink& engine);

// The body of an API function that makes a new array from the array `from`, by make(array).
template <class Make>
heddle_status make_array(const heddle_array* from, heddle_array** made, const char* call,
                         heddle_error** error, Make&& make) noexcept {
  return called(error, [&] {
    const UsedArray source(from, call);
    check_out(made, call, "the new array");
    *made = new_handle(make(source->array), source->engine);
  });
}

}  // namespace heddle::c
