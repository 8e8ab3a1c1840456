// Conversion of errors between Python and C++, in both directions.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include <heddle/call_site.h>
#include <heddle/engine.h>
#include <heddle/error.h>

#include "interpreter.h"

namespace heddle::python {

// The error of an op whose Python function raised an exception. A wait raises the same exception object.
class PythonFailure : public Error {
 public:
  // Takes the current Python error, adds a note with the op and the line that pushed it. Needs the GIL.
  static PythonFailure take_set(const char* op, Where where);
  // The exception object with the traceback that it had when the op raised it. Called with the GIL.
  nb::object exception() const;

 private:
  struct Held {
    Reference exception, traceback;
    bool raised = false;  // whether the error was passed to Python; guarded by the GIL
  };
  friend bool was_raised(const std::exception_ptr& error);
  PythonFailure(const std::string& text, std::shared_ptr<Held> held) : Error(text), held_(std::move(held)) {}
  std::shared_ptr<Held> held_;
};

// Converts a C++ error to an exception object. Called with the GIL.
nb::object to_python(const std::exception_ptr& error);
// Converts the error of an op, and adds a note that names the op and the line that pushed it. A PythonFailure
// has that note already.
nb::object to_python(const ErrorReport& report);
// Called in the catch block of a wait for `var`: rethrows the error. If it is the error of the var's op, a
// note names the op and the line that pushed it.
[[noreturn]] void rethrow_with_op(const Engine& engine, const Var& var);

// Whether to_python or set_current_error has passed the error to Python. Of C++ errors only the latest 256
// are remembered. Called with the GIL.
bool was_raised(const std::exception_ptr& error);

// Sets the Python error for the C++ exception being handled. For catch (...) in functions that CPython calls.
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

[[noreturn]] void raise(PyObject* type, const std::string& text);  // throws a Python exception of that type

// The function and argument that an error message names.
struct ArgumentOf {
  const char* function;
  const char* argument;
};

// Throws TypeError with a message such as "astype: dtype is a list; want ...".
[[noreturn]] void refuse_type(ArgumentOf of, nb::handle given, const std::string& wanted);
// Throws InvalidArgument with a message such as "astype: dtype is 'f31'; want ...".
[[noreturn]] void refuse_value(ArgumentOf of, const std::string& given, const std::string& wanted);

// The UTF-8 bytes of a str. Lone surrogates (invalid bytes of file names) become escapes: "\\udc80".
std::string utf8_of(nb::handle text);
// The UTF-8 bytes of a str. For lone surrogates, throws InvalidArgument such as "init: key is '\\udc80',
// which is no text in UTF-8".
std::string text_in(ArgumentOf of, nb::handle text);

// Called in a catch block: rethrows the error with a message that begins with the name of the Python
// function, unless the message has that name or blames an environment variable.
[[noreturn]] void rethrow_in_call(const char* function, const InvalidArgument& error);

// Runs the body of the Python function `function`: InvalidArgument messages begin with its name.
template <class Call> decltype(auto) in_call(const char* function, Call&& call) {
  try {
    return call();
  } catch (const InvalidArgument& error) {
    rethrow_in_call(function, error);
  }
}

void bind_errors(nb::module_& m);

}  // namespace heddle::python
