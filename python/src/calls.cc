// Improves the errors of calls with wrong arguments: nanobind lists overloads, while heddle/_calls.py names
// the wrong argument.
#include "calls.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <utility>

namespace heddle::python {
namespace {

using Call = PyObject* (*)(PyObject* self, PyObject* const* args, std::size_t count, PyObject* keywords);

// The most wrappers. Each of nanobind's few vectorcall functions gets one, which examines the error of a
// call.
constexpr std::size_t kMost = 12;
std::array<Call, kMost> originals;

bool is_refusal(nb::handle error) {
  const nb::object text = nb::steal(PyObject_Str(error.ptr()));
  const char* bytes = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), nullptr) : nullptr;
  if (!bytes) PyErr_Clear();
  return bytes && std::strstr(bytes, "(): incompatible function arguments. The following");
}

nb::object explained(PyObject* self, PyObject* const* args, std::size_t count, PyObject* keywords) {
  const CallsPython calling;
  nb::list given;
  for (std::size_t i = 0; i < count; ++i) given.append(nb::handle(args[i]));
  nb::dict named;
  const Py_ssize_t size = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < size; ++i)
    named[nb::handle(PyTuple_GetItem(keywords, i))] = nb::handle(args[count + static_cast<std::size_t>(i)]);
  return nb::module_::import_("heddle._calls").attr("refusal")(nb::handle(self), given, named);
}

// Replaces the error that nanobind has set by a better one; keeps it if that fails.
void explain(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* keywords) noexcept {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  try {
    // The bits of `flags` that hold the number of arguments; CPython and nanobind use the highest ones as
    // flags.
    constexpr std::size_t kCount = ~std::size_t{0} >> 8;
    if (is_refusal(value)) {
      const nb::object error = explained(self, args, flags & kCount, keywords);
      PyErr_SetObject(error.type().ptr(), error.ptr());
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(traceback);
      return;
    }
  } catch (...) {
  }
  PyErr_Restore(type, value, traceback);
}

template <std::size_t i>
PyObject* call_and_look(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* keywords) {
  PyObject* result = originals[i](self, args, flags, keywords);
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) explain(self, args, flags, keywords);
  return result;
}

template <std::size_t... i> constexpr std::array<Call, kMost> looking(std::index_sequence<i...>) {
  return {call_and_look<i>...};
}
constexpr std::array<Call, kMost> kLooking = looking(std::make_index_sequence<kMost>());

Call looking_at(Call original) {
  for (std::size_t i = 0; i < kMost; ++i) {
    if (kLooking[i] == original) return original;
    if (!originals[i]) originals[i] = original;
    if (originals[i] == original) return kLooking[i];
  }
  return original;
}

// Where a function object of nanobind has its vectorcall pointer: behind the object's header. Null if the
// object's layout is another one; then the errors of its calls are not improved.
Call* pointer_of(nb::handle object) {
  using Ask = Call (*)(PyObject*);
  static const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "PyVectorcall_Function"));
  const std::string kind = nb::cast<nb::str>(object.type().attr("__name__")).c_str();
  if (!ask || (kind != "nb_func" && kind != "nb_method")) return nullptr;
  auto* pointer = reinterpret_cast<Call*>(reinterpret_cast<std::byte*>(object.ptr()) + sizeof(PyVarObject));
  return *pointer && *pointer == ask(object.ptr()) ? pointer : nullptr;
}

void look_at(nb::handle object) {
  if (Call* pointer = pointer_of(object)) *pointer = looking_at(*pointer);
}

void look_at_all(nb::handle scope) {
  const nb::object values = scope.attr("__dict__").attr("values")();
  for (nb::handle object : nb::list(values)) {
    if (PyType_Check(object.ptr())) {
      look_at_all(object);
    } else if (nb::isinstance(object, nb::handle(reinterpret_cast<PyObject*>(&PyProperty_Type)))) {
      look_at(object.attr("fget"));
      look_at(object.attr("fset"));
    } else {
      look_at(object);
    }
  }
}

}  // namespace

void explain_wrong_calls(nb::module_& m) { look_at_all(m); }

}  // namespace heddle::python
