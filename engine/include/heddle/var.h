// Var: the handle by which the engine knows a piece of data. VarList: the vars that an op reads, or mutates.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace heddle {

namespace detail {
struct VarState;
void retain(VarState* state) noexcept;
void release(VarState* state) noexcept;
}  // namespace detail

// A reference-counted handle; copies name the same data. Made by Engine::new_var. Copies may be used from any thread
// and may outlive the engine. When the last handle is gone, the var lives on until the last op on it is done.
class Var {
 public:
  Var() = default;  // an empty handle, which names no data
  Var(const Var& other) noexcept : state_(other.state_) {
    if (state_) detail::retain(state_);
  }
  Var(Var&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Var& operator=(Var other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Var() {
    if (state_) detail::release(state_);
  }

  explicit operator bool() const { return state_ != nullptr; }
  bool operator==(const Var& other) const { return state_ == other.state_; }
  detail::VarState* state() const { return state_; }  // used by the engine
  static Var adopt(detail::VarState* state) {         // For the engine: takes over a reference of the caller.
    Var var;
    var.state_ = state;
    return var;
  }

 private:
  detail::VarState* state_ = nullptr;
};

// An element of a VarList: the vars and arrays in `.read = {a, b.var()}` convert to it.
struct VarRef {
  VarRef(const Var& var) : state(var.state()) {}
  detail::VarState* state;
};

// The vars that an op reads, or those that it mutates. Holds raw pointers, up to eight without an allocation:
// the handles that it was made from must live until the push returns.
class VarList {
 public:
  VarList() {}  // `= default` would make `VarList list{}` zero all of inline_
  VarList(std::initializer_list<VarRef> vars) {
    for (VarRef var : vars) add(var);
  }
  VarList(const std::vector<Var>& vars) {
    for (const Var& var : vars) add(var);
  }
  void add(VarRef var) {
    if (size_ < kInline) {
      inline_[size_++] = var.state;
    } else {
      if (more_.empty()) {
        more_.reserve(8 * kInline);
        more_.assign(inline_.begin(), inline_.end());
      }
      more_.push_back(var.state);
      ++size_;
    }
  }
  std::size_t size() const { return size_; }
  detail::VarState* const* begin() const { return size_ > kInline ? more_.data() : inline_.data(); }
  detail::VarState* const* end() const { return begin() + size_; }

 private:
  static constexpr std::size_t kInline = 8;
  std::array<detail::VarState*, kInline> inline_;
  std::size_t size_ = 0;
  std::vector<detail::VarState*> more_;
};

}  // namespace heddle
