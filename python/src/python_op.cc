#include "python_op.h"

#include <algorithm>

#include "errors.h"

namespace heddle::python {
namespace {

thread_local const RunningOp* innermost = nullptr;

struct Running : RunningOp {
  Running(const PythonOp* python_op, const RunContext* of) : RunningOp{python_op, of, innermost} {
    innermost = this;
  }
  ~Running() { innermost = outer; }
};

}  // namespace

const RunningOp* running_op() { return innermost; }

bool Declared::has(std::uintptr_t entry) const {
  const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
  if (std::find(few_.begin(), end, entry) != end) return true;
  return more_ && std::find(more_->begin(), more_->end(), entry) != more_->end();
}

void PythonOp::operator()(RunContext& context) {
  const HoldGil gil;
  if (!gil) throw Error(std::string("op '") + context.name + "': the interpreter ended before it");
  const Running running(this, &context);
  PyObject* result = PyObject_CallNoArgs(fn_.get());
  if (!result) throw PythonFailure::take_set(context.name, where_);
  Py_DECREF(result);
  if (once_) fn_ = Reference();  // here, where the thread has the GIL
}

void PythonOpWithSkip::skipped(const std::exception_ptr& why) noexcept {
  const HoldGil gil;
  if (!gil) return;
  try {
    nb::borrow(skipped_.get())(to_python(why));
  } catch (nb::python_error& error) {
    error.restore();
    PyErr_WriteUnraisable(skipped_.get());
  } catch (...) {  // no memory for the error
  }
}

}  // namespace heddle::python
