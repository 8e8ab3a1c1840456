#include "arrays/numpy.h"

#include <string>

namespace heddle::python {
namespace {

using namespace nb::literals;

// Calls numpy.asarray(given). A ValueError of NumPy, such as that for nested lists of different lengths, is
// replaced by one that names the argument.
nb::object as_numpy(ArgumentOf of, nb::handle given) {
  try {
    return numpy("asarray")(given);
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    const std::string why = nb::str(nb::handle(error.value())).c_str();
    raise(PyExc_ValueError,
          std::string(of.function) + ": " + of.argument + " is a " + kind_of(given) + "; NumPy: " + why);
  }
}

bool has_large(const nb::object& floats) {
  return nb::cast<std::size_t>(floats.attr("size")) > 0 &&
         nb::cast<double>(numpy("abs")(floats).attr("max")()) >= 9223372036854775808.0;
}

// Whether all integers of a NumPy array are in the range of a dtype.
bool fits(const nb::object& integers, DType dtype) {
  if (nb::cast<std::size_t>(integers.attr("size")) == 0) return true;
  const nb::object range = numpy("iinfo")(from_dtype(dtype).attr("numpy_name"));
  const auto at_least = [](const nb::object& a, const nb::object& b) {
    return PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_GE) == 1;
  };
  return at_least(nb::int_(integers.attr("min")()), range.attr("min")) &&
         at_least(range.attr("max"), nb::int_(integers.attr("max")()));
}

}  // namespace

nb::object numpy(const char* name) { return nb::module_::import_("numpy").attr(name); }

nb::object numpy_of(ArgumentOf of, nb::handle given, std::optional<DType> dtype) {
  nb::object usual = as_numpy(of, given);
  const std::string kind = nb::cast<nb::str>(usual.attr("dtype").attr("kind")).c_str();
  const bool wide = dtype == DType::i64 || dtype == DType::u64;
  const bool integers = dtype && !is_floating(*dtype) && *dtype != DType::boolean;
  const bool floating = dtype && is_floating(*dtype);
  const bool whole = kind == "i" || kind == "u";
  const bool rounded = kind == "f" && (wide || (!dtype && has_large(usual)));
  if (kind != "O" && !rounded && !(whole && integers)) return usual;
  const nb::object exact = whole ? usual : numpy("asarray")(given, "dtype"_a = "object");
  if (!whole)
    for (const nb::handle element : exact.attr("flat"))
      if (!PyLong_Check(element.ptr()) && !(floating && PyFloat_Check(element.ptr()))) return usual;
  if (floating) return exact.attr("astype")("float64");
  if (whole && fits(usual, *dtype)) return usual;
  try {
    if (wide && !whole) return exact.attr("astype")(from_dtype(*dtype).attr("numpy_name"));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_OverflowError)) throw;
  }
  refuse_value(of, std::string("a list with an int that does not fit ") + name_of(dtype.value_or(DType::i64)),
               "smaller ones, or a floating dtype");
}

}  // namespace heddle::python
