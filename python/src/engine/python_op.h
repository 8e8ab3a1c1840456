// Function objects of ops that call a Python function.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <heddle/call_site.h>
#include <heddle/engine.h>

#include "interpreter.h"

namespace heddle::python {

// The function object of an op. The thread that ends the op takes the GIL to release the Python references.
class PythonOp {
 public:
  PythonOp(nb::object fn, Where where, bool once) : fn_(std::move(fn)), where_(where), once_(once) {}
  void operator()(RunContext& context);

 private:
  Reference fn_;
  Where where_;
  bool once_;  // whether the op runs once; false for an op of a graph, which runs in each launch
};

// The argument of an asynchronous op's Python function. It completes the op, on any thread. If it is
// destroyed before, the op fails.
class PythonCompletion {
 public:
  PythonCompletion(Completion completion, const char* op, Where where);
  PythonCompletion(PythonCompletion&& other) noexcept;
  ~PythonCompletion();
  void done();
  void fail(nb::handle exception);
  void fail_with_set_error();  // fails the op with the Python error that is set
  void fail_at_end();          // fails the op with the error that the interpreter ends

 private:
  std::optional<Completion> take();
  std::optional<Completion> completion_;  // empty once the op was completed or failed; guarded by the GIL
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

// Fails all asynchronous ops that are not completed yet. Called with the GIL when the interpreter ends, since
// nothing will complete them later.
void fail_held_completions();

void call_skipped(const Reference& skipped, const std::exception_ptr& why) noexcept;

// Wraps the function object of an op. If the op is skipped, calls the Python function skipped(exception), so
// that those who wait for the op outside of the engine, such as a future, learn of it.
template <class Op> class WithSkip : public Op {
 public:
  WithSkip(Op op, nb::object skipped) : Op(std::move(op)), skipped_(std::move(skipped)) {}
  void skipped(const std::exception_ptr& why) noexcept { call_skipped(skipped_, why); }

 private:
  Reference skipped_;
};

// The context of the innermost op with a Python function that the calling thread runs; null if it runs none.
const RunContext* running_context();

void bind_completion(nb::module_& m);

}  // namespace heddle::python
