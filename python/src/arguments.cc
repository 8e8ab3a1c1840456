#include "arguments.h"

#include <string>

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

// A Python int as error messages show it. A huge int is shown by its number of bits, because CPython refuses
// to format it.
std::string shown(nb::handle integer) {
  const auto bits = nb::cast<std::size_t>(integer.attr("bit_length")());
  if (bits > 1000) return "an int of " + std::to_string(bits) + " bits";
  return nb::str(integer).c_str();
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
      refuse(function, "got an unexpected keyword argument '" + utf8_of(keyword) + "'");
    }
    if (values[at]) refuse(function, std::string("got multiple values for argument '") + names[at] + "'");
    values[at] = args[count + i];
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values[i]) refuse(function, std::string("missing required argument: '") + names[i] + "'");
  }
}

double real_argument(ArgumentOf of, nb::handle object) {
  PyObject* real = PyUnicode_Check(object.ptr()) ? nullptr : PyNumber_Float(object.ptr());
  if (!real) {
    PyErr_Clear();
    if (PyLong_Check(object.ptr())) refuse_value(of, "an int beyond all floats", "a smaller one");
    refuse_type(of, object, "a number");
  }
  const nb::object owned = nb::steal(real);
  return PyFloat_AsDouble(real);
}

std::int64_t int_argument(ArgumentOf of, nb::handle object, std::int64_t least) {
  if (!PyIndex_Check(object.ptr())) refuse_type(of, object, "an int");
  PyObject* index = PyNumber_Index(object.ptr());
  if (!index) {
    PyErr_Clear();
    refuse_type(of, object, "an int");
  }
  const nb::object owned = nb::steal(index);
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
  if (overflow == 0 && value == -1 && PyErr_Occurred()) raise_set();
  if (overflow != 0 || value < least) {
    const bool least_of_all = least == std::numeric_limits<std::int64_t>::min();
    refuse_value(of, shown(index),
                 overflow > 0   ? "less than 2**63"
                 : least_of_all ? "-2**63 or more"
                                : std::to_string(least) + " or more");
  }
  return value;
}

std::string path_of(const char* function, nb::handle path) {
  const nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) PyErr_Clear();
  if (!text.is_valid() || !(PyUnicode_Check(text.ptr()) || PyBytes_Check(text.ptr())))
    refuse_type({function, "path"}, path, "a str or a Path");
  // The path as bytes. Surrogates in a str stand for bytes that are no UTF-8, as in Python's own file
  // functions.
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(text.ptr(), &bytes)) raise_set();
  const nb::object owned = nb::steal(bytes);
  char* begin = nullptr;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(owned.ptr(), &begin, &length) != 0) raise_set();
  return std::string(begin, static_cast<std::size_t>(length));
}

}  // namespace heddle::python
