// Errors on their way through the engine, in both directions.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include <heddle/call_site.h>
#include <heddle/engine.h>
#include <heddle/error.h>

#include "interpreter.h"

namespace heddle::python {

// The error of an op whose Python function raised: what a wait raises again, the same object.
class PythonFailure : public Error {
 public:
  // Takes the Python error that is set, with the GIL, and adds a note with the op and the line that pushed it.
  static PythonFailure take_set(const char* op, Where where);
  // The exception object with the traceback that it had when the op raised it; with the GIL.
  nb::object exception() const;

 private:
  struct Held {
    Reference exception, traceback;
    bool raised = false;  // with the GIL
  };
  friend bool was_raised(const std::exception_ptr& error);
  PythonFailure(const std::string& text, std::shared_ptr<Held> held) : Error(text), held_(std::move(held)) {}
  std::shared_ptr<Held> held_;
};

// The exception object that stands for a C++ error; with the GIL.
nb::object to_python(const std::exception_ptr& error);
// The same with a note that names the op and the line that pushed it, which those of Python functions have anyway.
nb::object to_python(const ErrorReport& report);
// For the handler of what a wait has thrown: throws it again, with such a note if it is the error that poisons the var.
[[noreturn]] void rethrow_with_op(const Engine& engine, const Var& var);

// Whether to_python or set_current_error has given the error to Python; of C++'s errors the latest 256 are known. With the GIL.
bool was_raised(const std::exception_ptr& error);

// Sets the Python error for the C++ error that is being handled; for catch (...) in slots of types.
void set_current_error() noexcept;

// Calls call() and returns `failed` with a Python error set if it throws.
template <class Result, class Call> Result guarded(Result failed, Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    set_current_error();
    return failed;
  }
}

[[noreturn]] void raise(PyObject* type, const std::string& text);  // a Python exception of that type

// Which argument of which function an error speaks of.
struct ArgumentOf {
  const char* function;
  const char* argument;
};

// TypeError "astype: dtype is a list; want ...".
[[noreturn]] void refuse_type(ArgumentOf of, nb::handle given, const std::string& wanted);
// InvalidArgument "astype: dtype is 'f31'; want ...".
[[noreturn]] void refuse_value(ArgumentOf of, const std::string& given, const std::string& wanted);

// The bytes of a str in UTF-8, which has no lone surrogates, as those of file names with other bytes: they become "\\udc80".
std::string utf8_of(nb::handle text);
// The same; throws InvalidArgument "init: key is '\\udc80', which is no text in UTF-8".
std::string text_in(ArgumentOf of, nb::handle text);

// For the handler of what a call of `function` has thrown: throws it again, in the name of the function.
[[noreturn]] void rethrow_in_call(const char* function, const InvalidArgument& error);

// Calls call() for a function of Python; errors that name something else that it uses begin with its name too.
template <class Call> decltype(auto) in_call(const char* function, Call&& call) {
  try {
    return call();
  } catch (const InvalidArgument& error) {
    rethrow_in_call(function, error);
  }
}

void bind_errors(nb::module_& m);

}  // namespace heddle::python
