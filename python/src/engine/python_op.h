// Ops that call a Python function.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <heddle/call_site.h>
#include <heddle/engine.h>

#include "interpreter.h"

namespace heddle::python {

// The function object of an op. The thread that ends the op releases its references, with the GIL.
class PythonOp {
 public:
  PythonOp(nb::object fn, Where where, bool once) : fn_(std::move(fn)), where_(where), once_(once) {}
  void operator()(RunContext& context);

 private:
  Reference fn_;
  Where where_;
  bool once_;  // false: the op is part of a graph, which calls it again and again
};

// The argument of an asynchronous op's function: completes the op, on any thread, or fails it if destroyed.
class PythonCompletion {
 public:
  PythonCompletion(Completion completion, const char* op, Where where);
  PythonCompletion(PythonCompletion&& other) noexcept;
  ~PythonCompletion();
  void done();
  void fail(nb::handle exception);
  void fail_with_set_error();  // fails the op with the current Python error
  void fail_at_end();          // fails the op because the interpreter ends

 private:
  std::optional<Completion> take();
  std::optional<Completion> completion_;  // empty after one of the calls; guarded by the GIL
  const char* op_;
  Where where_;
};

// The function object of an asynchronous op: calls fn(completion).
class PythonAsyncOp {
 public:
  PythonAsyncOp(nb::object fn, Where where, bool once) : fn_(std::move(fn)), where_(where), once_(once) {}
  void operator()(RunContext& context, Completion completion);

 private:
  Reference fn_;
  Where where_;
  bool once_;
};

// Fails the ops whose completions Python still holds: when the interpreter ends, nothing else completes them.
// Called with the GIL.
void fail_held_completions();

void call_skipped(const Reference& skipped, const std::exception_ptr& why) noexcept;

// An op that calls skipped(exception) if it is skipped, for waits outside of the engine, such as a future's.
template <class Op> class WithSkip : public Op {
 public:
  WithSkip(Op op, nb::object skipped) : Op(std::move(op)), skipped_(std::move(skipped)) {}
  void skipped(const std::exception_ptr& why) noexcept { call_skipped(skipped_, why); }

 private:
  Reference skipped_;
};

// The context of the calling thread's innermost op with a Python function; null outside.
const RunContext* running_context();

void bind_completion(nb::module_& m);

}  // namespace heddle::python
