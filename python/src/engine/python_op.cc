#include "engine/python_op.h"

#include <pthread.h>
#include <string>
#include <unordered_set>

#include "arrays/array.h"
#include "errors.h"
#include "holders.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

thread_local const RunContext* innermost = nullptr;

// The completions of asynchronous ops that have not ended. Guarded by the GIL. In the child of a fork the set
// is replaced by an empty one.
std::unordered_set<PythonCompletion*>* held_completions = new std::unordered_set<PythonCompletion*>;
const int at_fork =
    pthread_atfork(nullptr, nullptr, [] { held_completions = new std::unordered_set<PythonCompletion*>; });

Error ended_before(const char* op) {
  return Error(std::string("op '") + op + "': the interpreter ended before it");
}

class Running {
 public:
  explicit Running(const RunContext* context) : outer_(std::exchange(innermost, context)) {}
  ~Running() { innermost = outer_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const RunContext* outer_;
};

void check_held(const HoldGil& gil, const RunContext& context) {
  if (!gil) throw ended_before(context.name);
}

}  // namespace

const RunContext* running_context() { return innermost; }

void PythonOp::operator()(RunContext& context) {
  const HoldGil gil;
  check_held(gil, context);
  const Running running(&context);
  PyObject* result = PyObject_CallNoArgs(fn_.get());
  if (!result) throw PythonFailure::take_set(context.name, where_);
  Py_DECREF(result);
  if (once_) fn_ = Reference();  // releases the function now, while the thread has the GIL
}

void PythonAsyncOp::operator()(RunContext& context, Completion completion) {
  const HoldGil gil;
  check_held(gil, context);
  const Running running(&context);
  const nb::object object = nb::cast(PythonCompletion(std::move(completion), context.name, where_));
  PyObject* result = PyObject_CallFunctionObjArgs(fn_.get(), object.ptr(), nullptr);
  // The function has raised, so the op fails at once. Other Python objects may still hold the completion;
  // what they report later is ignored.
  if (!result) nb::inst_ptr<PythonCompletion>(object)->fail_with_set_error();
  Py_XDECREF(result);
  if (once_) fn_ = Reference();
}

PythonCompletion::PythonCompletion(Completion completion, const char* op, Where where)
    : completion_(std::move(completion)), op_(op), where_(where) {
  held_completions->insert(this);
}

PythonCompletion::PythonCompletion(PythonCompletion&& other) noexcept
    : completion_(other.take()), op_(other.op_), where_(other.where_) {
  if (completion_) held_completions->insert(this);
}

PythonCompletion::~PythonCompletion() {
  if (std::optional<Completion> completion = take()) without_gil([&] { completion.reset(); });
}

std::optional<Completion> PythonCompletion::take() {
  held_completions->erase(this);
  return std::exchange(completion_, std::nullopt);
}

void PythonCompletion::done() {
  if (std::optional<Completion> completion = take()) without_gil([&] { completion->done(); });
}

void PythonCompletion::fail(nb::handle exception) {
  if (!PyExceptionInstance_Check(exception.ptr())) {
    refuse_type({"fail", "exception"}, exception, "an exception");
  }
  if (!completion_) return;
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  fail_with_set_error();
}

void PythonCompletion::fail_with_set_error() {
  if (!completion_) return PyErr_Clear();
  // The error is made before the completion is taken: take_set may run Python code and block for ever when
  // the interpreter ends, and then fail_held_completions() must still find the completion.
  std::exception_ptr error = std::make_exception_ptr(PythonFailure::take_set(op_, where_));
  if (std::optional<Completion> completion = take()) without_gil([&] { completion->fail(std::move(error)); });
}

void PythonCompletion::fail_at_end() {
  if (std::optional<Completion> completion = take()) {
    const ReleaseGil released;
    completion->fail(std::make_exception_ptr(ended_before(op_)));
  }
}

void fail_held_completions() {
  while (!held_completions->empty()) (*held_completions->begin())->fail_at_end();
}

void call_skipped(const Reference& skipped, const std::exception_ptr& why) noexcept {
  const HoldGil gil;
  if (!gil) return;
  try {
    nb::borrow(skipped.get())(to_python(why));
  } catch (nb::python_error& error) {
    error.restore();
    PyErr_WriteUnraisable(skipped.get());
  } catch (...) {  // there is no memory for the exception object: skipped() is not called
  }
}

void bind_completion(nb::module_& m) {
  nb::class_<PythonCompletion>(m, "Completion", "Ends an op of Engine.push_async, on any thread.")
      .def("done", &PythonCompletion::done,
           "The op has done its work. Of done and fail the first call counts.")
      .def("fail", &PythonCompletion::fail, "exception"_a,
           nb::sig("def fail(self, exception: BaseException) -> None"),
           "The op has failed with this exception, which poisons what it mutates.");
}

}  // namespace heddle::python
