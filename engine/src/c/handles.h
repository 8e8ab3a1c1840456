// The types behind the handles of the C ABI, and how a call accesses them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <heddle/c/engine.h>
#include <heddle/engine.h>
#include <heddle/graph.h>

#include "c/registry.h"

namespace heddle::c {

// The handle was destroyed, or is of another kind.
class BadHandle : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void throw_null(const char* call, const char* argument);
[[noreturn]] void throw_wrong_kind(const char* call, Kind want, Kind got);

template <class T, Kind its_kind> struct Handle {
  using Value = T;
  static constexpr Kind kKind = its_kind;
  explicit Handle(T its_value) : value(std::move(its_value)) {}
  const Kind kind = its_kind;
  T value;
};

struct ErrorData;
struct StreamInUse {
  Stream* stream = nullptr;
  std::weak_ptr<Engine> engine;  // the engine that owns the stream
};
struct CProgressSource;

}  // namespace heddle::c

struct heddle_engine : heddle::c::Handle<std::shared_ptr<heddle::Engine>, heddle::c::Kind::engine> {
  using Handle::Handle;
};
struct heddle_var : heddle::c::Handle<heddle::Var, heddle::c::Kind::var> {
  using Handle::Handle;
};
struct heddle_group : heddle::c::Handle<heddle::Group, heddle::c::Kind::group> {
  using Handle::Handle;
};
struct heddle_prepared : heddle::c::Handle<heddle::PreparedOp, heddle::c::Kind::prepared> {
  using Handle::Handle;
};
struct heddle_completion : heddle::c::Handle<heddle::Completion, heddle::c::Kind::completion> {
  using Handle::Handle;
};
struct heddle_run : heddle::c::Handle<const heddle::RunContext*, heddle::c::Kind::run> {
  using Handle::Handle;
};
struct heddle_graph : heddle::c::Handle<heddle::Graph, heddle::c::Kind::graph> {
  using Handle::Handle;
};
struct heddle_slot : heddle::c::Handle<std::shared_ptr<heddle::detail::SlotCell>, heddle::c::Kind::slot> {
  using Handle::Handle;
};
struct heddle_stream : heddle::c::Handle<heddle::c::StreamInUse, heddle::c::Kind::stream> {
  using Handle::Handle;
};
struct heddle_error : heddle::c::Handle<std::shared_ptr<const heddle::c::ErrorData>, heddle::c::Kind::error> {
  using Handle::Handle;
};
struct heddle_progress
    : heddle::c::Handle<std::shared_ptr<heddle::c::CProgressSource>, heddle::c::Kind::progress> {
  using Handle::Handle;
};
struct heddle_waiting : heddle::c::Handle<const std::atomic<std::uint32_t>*, heddle::c::Kind::waiting> {
  using Handle::Handle;
};

namespace heddle::c {

template <class H> H* make_handle(typename H::Value value) {
  auto handle = std::make_unique<H>(std::move(value));
  if (checked) registry::add(handle.get(), H::kKind);
  return handle.release();
}

// The fast check, which finds null pointers and handles of another type.
template <class H> void check_kind(const H* handle, const char* call) {
  if (!handle) [[unlikely]]
    throw_null(call, name_of(H::kKind));
  if (handle->kind != H::kKind) [[unlikely]]
    throw_wrong_kind(call, H::kKind, handle->kind);
}

// A handle's value during a call; a copy in a checked process, where another thread may destroy the handle.
template <class H> class HandleAccess {
 public:
  HandleAccess(const H* handle, const char* call) {
    if (checked) [[unlikely]] {
      registry::with(handle, H::kKind, call,
                     [&] { copy_ = std::make_unique<typename H::Value>(handle->value); });
      value_ = copy_.get();
    } else {
      check_kind(handle, call);
      value_ = &handle->value;
    }
  }
  const typename H::Value& operator*() const { return *value_; }
  const typename H::Value* operator->() const { return &**this; }

 private:
  const typename H::Value* value_ = nullptr;
  std::unique_ptr<const typename H::Value> copy_;
};

// Frees the handle and returns its value. In a checked process only one of several threads succeeds.
template <class H> typename H::Value take(H* handle, const char* call) {
  std::optional<typename H::Value> value;
  if (checked) {
    registry::remove(handle, H::kKind, call, [&] { value.emplace(std::move(handle->value)); });
    handle->~H();
    registry::free_late(handle, [](void* memory) { ::operator delete(memory); });
  } else {
    check_kind(handle, call);
    value.emplace(std::move(handle->value));
    delete handle;
  }
  return std::move(*value);
}

// A handle on the stack, which is passed to a callback and valid until that returns.
template <class H> class Lent {
 public:
  explicit Lent(typename H::Value value) : handle_(std::move(value)) {
    if (checked) registry::add(&handle_, H::kKind);
  }
  ~Lent() {
    if (checked) registry::remove(&handle_, H::kKind, "", [] {});
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  H* get() { return &handle_; }

 private:
  H handle_;
};

}  // namespace heddle::c
