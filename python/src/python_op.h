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

// The function object of an op. Its Python references end on the thread that ends the op, with the GIL.
class PythonOp {
 public:
  PythonOp(nb::object fn, Where where, bool once) : fn_(std::move(fn)), where_(where), once_(once) {}
  void operator()(RunContext& context);

 private:
  Reference fn_;
  Where where_;
  bool once_;  // false: the op is part of a graph, which calls it again and again
};

// What the function of an asynchronous op is given: ends the op, on any thread. Without an end when nothing names it any more,
// the op fails.
class PythonCompletion {
 public:
  PythonCompletion(Completion completion, const char* op, Where where);
  PythonCompletion(PythonCompletion&& other) noexcept;
  ~PythonCompletion();
  void done();
  void fail(nb::handle exception);
  void fail_with_set_error();  // the Python error that is set
  void fail_at_end();          // the interpreter ends

 private:
  std::optional<Completion> take();
  std::optional<Completion> completion_;  // until one of the calls has taken it; the GIL guards it
  const char* op_;
  Where where_;
};

// Asynchronous: calls fn(completion).
class PythonAsyncOp {
 public:
  PythonAsyncOp(nb::object fn, Where where, bool once) : fn_(std::move(fn)), where_(where), once_(once) {}
  void operator()(RunContext& context, Completion completion);

 private:
  Reference fn_;
  Where where_;
  bool once_;
};

// Fails the ops whose completions Python still holds. Once no thread goes on with Python code, nobody else would end them.
// Called with the GIL.
void fail_held_completions();

void call_skipped(const Reference& skipped, const std::exception_ptr& why) noexcept;

// An op that calls skipped(exception) if it is not going to run: for those who wait outside of the engine.
template <class Op> class WithSkip : public Op {
 public:
  WithSkip(Op op, nb::object skipped) : Op(std::move(op)), skipped_(std::move(skipped)) {}
  void skipped(const std::exception_ptr& why) noexcept { call_skipped(skipped_, why); }

 private:
  Reference skipped_;
};

// Of the innermost op of the calling thread that is a Python function; null outside.
const RunContext* running_context();

void bind_completion(nb::module_& m);

}  // namespace heddle::python
