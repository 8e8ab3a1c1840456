#include "errors.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <string>
#include <typeinfo>

#include <heddle/array_error.h>
#include <heddle/check.h>
#include <heddle/comm_error.h>
#include <heddle/store_error.h>

#include "arrays/array.h"
#include "words.h"

namespace heddle::python {
namespace {

// An exception class of heddle/_errors.py.
nb::object class_named(const char* name) { return nb::module_::import_("heddle._errors").attr(name); }

nb::object made(const char* name, const std::string& message) {
  const std::string text = in_python_words(message);
  // The message may quote bytes of a file that are no valid UTF-8, so decoding must not fail.
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!decoded) raise_set();
  return class_named(name)(nb::steal(decoded));
}

nb::object aggregate(const AggregateError& error) {
  nb::list list;
  for (const ErrorReport& report : error.reports()) list.append(to_python(report));
  std::string text = std::to_string(error.reports().size() + error.more()) + " ops failed";
  return class_named("AggregateError").attr("_of")(text.c_str(), list);
}

// The latest C++ errors that were passed to Python. A PythonFailure has a flag of its own instead. Guarded by
// the GIL.
struct Raised {
  std::array<std::exception_ptr, 256> errors;
  std::size_t next = 0;
};
Raised& raised() {
  static auto& immortal = *new Raised;
  return immortal;
}

// The exception object for a C++ error. The order of the catch clauses matters: derived classes before bases.
nb::object from_cpp(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PythonFailure& failure) {
    return failure.exception();
  } catch (nb::python_error& set) {
    set.restore();
    return {};
  } catch (const AggregateError& all) {
    return aggregate(all);
  } catch (...) {
    raised().errors[raised().next++ % raised().errors.size()] = error;
  }
  try {
    std::rethrow_exception(error);
  } catch (const InvalidIndex& bad) {
    return made("InvalidIndex", bad.message());
  } catch (const InvalidArgument& bad) {
    return made("InvalidArgument", bad.message());
  } catch (const OutOfMemory& memory) {
    return made("OutOfMemory", without_call_site(memory.what()));
  } catch (const Cancelled& cancelled) {
    return made(cancelled.why() == Cancelled::Why::overdue ? "DeadlineExceeded" : "Cancelled",
                cancelled.what());
  } catch (const WouldDeadlock& dead) {
    return made("WouldDeadlock", dead.what());
  } catch (const UndeclaredAccess& access) {
    return made("UndeclaredAccess", access.what());
  } catch (const DroppedCompletion& dropped) {
    return made("DroppedCompletion", dropped.what());
  } catch (const PeerSilent& peer) {
    return made("PeerSilent", peer.what());
  } catch (const PeerLost& peer) {
    return made("PeerLost", peer.what());
  } catch (const RemoteFailure& failure) {
    return made("RemoteFailure", failure.what());
  } catch (const CommMismatch& mismatch) {
    return made("CommMismatch", mismatch.what());
  } catch (const CommAborted& aborted) {
    return made("CommAborted", aborted.what());
  } catch (const StoreError& store) {
    return made("StoreError", store.what());
  } catch (const CommError& comm) {
    return made("CommError", comm.what());
  } catch (const Error& other) {
    return made("Error", other.what());
  } catch (const std::bad_alloc& memory) {
    return nb::borrow(PyExc_MemoryError)(memory.what());
  } catch (const std::bad_cast&) {
    return nb::borrow(PyExc_TypeError)("a Python function has returned what is not wanted of it");
  } catch (const std::exception& other) {
    return made("Error", other.what());
  } catch (...) {
    return made("Error", "an error of an unknown type");
  }
}

std::string message_text(nb::handle exception) {
  std::string text = utf8_of(exception.type().attr("__name__"));
  PyObject* message = PyObject_Str(exception.ptr());
  if (!message) {
    PyErr_Clear();
    return text;
  }
  const std::string said = utf8_of(nb::steal(message));
  return said.empty() ? text : text + ": " + said;
}

void add_note(nb::handle exception, const std::string& note) {
  PyObject* done = PyObject_CallMethod(exception.ptr(), "add_note", "s", note.c_str());
  if (!done) PyErr_Clear();  // an exception that does not support notes stays without the note
  Py_XDECREF(done);
}

std::string note_of(const std::string& op, Where where) {
  std::string note = "in op '" + in_python_words(op) + "'";
  if (where.line())
    note += std::string(", pushed at ") + where.file_name() + ":" + std::to_string(where.line());
  return note;
}

bool is_python_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PythonFailure&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

PythonFailure PythonFailure::take_set(const char* op, Where where) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  const nb::object exception = nb::steal(value), trace = nb::steal(traceback);
  auto held = std::make_shared<Held>();
  if (trace.is_valid()) {
    PyException_SetTraceback(value, trace.ptr());
    held->traceback = Reference(trace);
  }
  held->exception = Reference(exception);
  add_note(exception, note_of(op, where));
  return PythonFailure(message_text(exception), std::move(held));
}

nb::object PythonFailure::exception() const {
  held_->raised = true;
  PyObject* trace = held_->traceback.get();
  // Each time Python raises the exception object, its traceback becomes longer. So it is reset to the
  // traceback of the op.
  PyException_SetTraceback(held_->exception.get(), trace ? trace : Py_None);
  return nb::borrow(held_->exception.get());
}

bool was_raised(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PythonFailure& failure) {
    return failure.held_->raised;
  } catch (...) {
    const auto& errors = raised().errors;
    return std::find(errors.begin(), errors.end(), error) != errors.end();
  }
}

nb::object to_python(const std::exception_ptr& error) {
  nb::object exception = from_cpp(error);
  if (exception.is_valid()) return exception;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return nb::steal(value);
}

nb::object to_python(const ErrorReport& report) {
  nb::object exception = to_python(report.exception);
  if (!is_python_failure(report.exception)) add_note(exception, note_of(report.op, report.where));
  return exception;
}

void rethrow_with_op(const Engine& engine, const Var& var) {
  const std::exception_ptr error = std::current_exception();
  const ErrorReport report = engine.error_of(var);
  if (report.exception != error) std::rethrow_exception(error);
  const nb::object exception = to_python(report);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  raise_set();
}

void set_current_error() noexcept {
  try {
    const nb::object exception = from_cpp(std::current_exception());
    if (exception.is_valid()) PyErr_SetObject(exception.type().ptr(), exception.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  } catch (...) {
    PyErr_NoMemory();
  }
}

void raise(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  raise_set();
}

void refuse_type(ArgumentOf of, nb::handle given, const std::string& wanted) {
  raise(PyExc_TypeError,
        std::string(of.function) + ": " + of.argument + " is a " + kind_of(given) + "; want " + wanted);
}

void refuse_value(ArgumentOf of, const std::string& given, const std::string& wanted) {
  throw InvalidArgument(std::string(of.function) + ": " + of.argument + " is " + given + "; want " + wanted);
}

std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size))
    return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  PyObject* escaped = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  if (!escaped) raise_set();
  const nb::object owned = nb::steal(escaped);
  return {PyBytes_AsString(escaped), static_cast<std::size_t>(PyBytes_Size(escaped))};
}

std::string text_in(ArgumentOf of, nb::handle text) {
  if (PyUnicode_AsUTF8AndSize(text.ptr(), nullptr)) return utf8_of(text);
  PyErr_Clear();
  throw InvalidArgument(std::string(of.function) + ": " + of.argument + " is '" + utf8_of(text) +
                        "', which is no text in UTF-8");
}

void rethrow_in_call(const char* function, const InvalidArgument& error) {
  const std::string text = error.message(), named = text.substr(0, text.find(": "));
  if (named.find(function) != std::string::npos || text.starts_with("HEDDLE_"))
    throw;  // the message already names the function, or blames an environment variable
  throw InvalidArgument(std::string(function) + ": " + text);
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const Error&) {
      set_current_error();
    } catch (const OutOfMemory&) {
      set_current_error();
    } catch (const std::bad_cast&) {
      set_current_error();
    }
  });
}

}  // namespace heddle::python
