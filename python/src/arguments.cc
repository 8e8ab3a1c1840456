#include "arguments.h"

#include <string>

#include "errors.h"

namespace heddle::python {
namespace {

[[noreturn]] void refuse(const char* function, const std::string& what) {
  raise(PyExc_TypeError, std::string(function) + "() " + what);
}

std::size_t find(const char* const* names, std::size_t size, PyObject* keyword) {
  for (std::size_t i = 0; i < size; ++i) {
    if (PyUnicode_CompareWithASCIIString(keyword, names[i]) == 0) return i;
  }
  return size;
}

}  // namespace

void take_arguments(const char* function, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                    const char* const* names, std::size_t size, std::size_t positional, std::size_t required,
                    PyObject** values) {
  if (static_cast<std::size_t>(count) > positional) {
    refuse(function, "takes " + std::to_string(positional) + " positional arguments but " +
                         std::to_string(count) + " were given");
  }
  for (Py_ssize_t i = 0; i < count; ++i) values[i] = args[i];
  const Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* keyword = PyTuple_GetItem(keywords, i);
    const std::size_t at = find(names, size, keyword);
    if (at == size) {
      refuse(function, "got an unexpected keyword argument '" +
                           std::string(PyUnicode_AsUTF8AndSize(keyword, nullptr)) + "'");
    }
    if (values[at]) refuse(function, std::string("got multiple values for argument '") + names[at] + "'");
    values[at] = args[count + i];
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values[i]) refuse(function, std::string("missing required argument: '") + names[i] + "'");
  }
}

}  // namespace heddle::python
