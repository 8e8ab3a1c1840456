// An op that calls a Python function.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/engine.h>

#include "interpreter.h"

namespace heddle::python {

// The vars that an op has declared, so that Python code in it may look at their data without a wait.
class Declared {
 public:
  void add(const detail::VarState* var, bool mutates) {
    const auto entry = reinterpret_cast<std::uintptr_t>(var) | static_cast<std::uintptr_t>(mutates);
    if (count_ < few_.size()) {
      few_[count_++] = entry;
    } else {
      if (!more_) more_ = std::make_unique<std::vector<std::uintptr_t>>();
      more_->push_back(entry);
    }
  }
  bool reads(const Var& var) const { return has(entry_of(var, false)) || mutates(var); }
  bool mutates(const Var& var) const { return has(entry_of(var, true)); }

 private:
  static std::uintptr_t entry_of(const Var& var, bool mutates) {
    return reinterpret_cast<std::uintptr_t>(var.state()) | static_cast<std::uintptr_t>(mutates);
  }
  bool has(std::uintptr_t entry) const;
  std::array<std::uintptr_t, 4> few_;
  std::size_t count_ = 0;
  std::unique_ptr<std::vector<std::uintptr_t>> more_;
};

// The function object of such an op. Its Python references end on the thread that ends the op, with the GIL.
class PythonOp {
 public:
  PythonOp(nb::object fn, Declared declared, Where where, bool once)
      : fn_(std::move(fn)), declared_(std::move(declared)), where_(where), once_(once) {}
  void operator()(RunContext& context);
  const Declared& declared() const { return declared_; }
  Where where() const { return where_; }

 private:
  Reference fn_;
  Declared declared_;
  Where where_;
  bool once_;  // false: the op is part of a graph, which calls it again and again
};

// One that calls skipped(exception) if it is not going to run: for those who wait outside of the engine.
class PythonOpWithSkip : public PythonOp {
 public:
  PythonOpWithSkip(PythonOp op, nb::object skipped) : PythonOp(std::move(op)), skipped_(std::move(skipped)) {}
  void skipped(const std::exception_ptr& why) noexcept;

 private:
  Reference skipped_;
};

// The innermost op of the calling thread that is a Python function, and its context; null outside.
struct RunningOp {
  const PythonOp* op;
  const RunContext* context;
  const RunningOp* outer;
};
const RunningOp* running_op();

}  // namespace heddle::python
