// SummaryWriter, and pictures of modules.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/model_picture.h>
#include <heddle/summary_writer.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/interruptibly.h"
#include "holders.h"
#include "module.h"
#include "module_calls.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// Its destructor waits for ops, which may need the GIL.
struct PythonSummaryWriter {
  std::shared_ptr<SummaryWriter> writer;
};

SummaryWriter& writer_in(const char* function, nb::handle self) {
  if (!nb::isinstance<PythonSummaryWriter>(self)) refuse_type({function, "self"}, self, "a SummaryWriter");
  if (!nb::inst_ready(self)) raise(PyExc_TypeError, kind_of(self) + ".__init__ has not been called");
  return *nb::inst_ptr<PythonSummaryWriter>(self)->writer;
}

void make_writer(PythonSummaryWriter* self, nb::handle path, const std::string& suffix) {
  default_engine_is_used();
  const Where where = python_call_site();
  const std::string folder = path_of("SummaryWriter", path);
  std::shared_ptr<SummaryWriter> made;
  {
    const ReleaseGil released;
    made = std::make_shared<SummaryWriter>(folder, SummaryWriterOptions{.suffix = suffix}, where);
  }
  new (self) PythonSummaryWriter{destroyed_without_gil(std::move(made))};
}

// Calls function(writer) without the GIL, which ops that the call may have to wait for need.
template <class Function> void write(const char* name, nb::handle self, Function function) {
  SummaryWriter& writer = writer_in(name, self);
  const ReleaseGil released;
  function(writer);
}

void scalar(nb::handle self, const std::string& tag, nb::handle value, std::int64_t step) {
  const Where where = python_call_site();
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) {
    const double number = real_argument({"scalar", "value"}, value);
    return write("scalar", self, [&](SummaryWriter& to) { to.scalar(tag, number, step, where); });
  }
  const NDArray array = to_array({"scalar", "value"}, value, std::nullopt, where);
  write("scalar", self, [&](SummaryWriter& to) { to.scalar(tag, array, step, where); });
}

void histogram(nb::handle self, const std::string& tag, nb::handle values, std::int64_t step) {
  const Where where = python_call_site();
  const NDArray array = to_array({"histogram", "values"}, values, std::nullopt, where);
  write("histogram", self, [&](SummaryWriter& to) { to.histogram(tag, array, step, where); });
}

void image(nb::handle self, const std::string& tag, nb::handle picture, std::int64_t step,
           bool channels_last) {
  const Where where = python_call_site();
  const NDArray array = to_array({"image", "image"}, picture, std::nullopt, where);
  write("image", self, [&](SummaryWriter& to) { to.image(tag, array, step, channels_last, where); });
}

void text(nb::handle self, const std::string& tag, const std::string& markdown, std::int64_t step) {
  const Where where = python_call_site();
  write("text", self, [&](SummaryWriter& to) { to.text(tag, markdown, step, where); });
}

HyperParameter hyperparameter(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  if (PyUnicode_Check(value.ptr())) return text_in({"hyperparameters", "values"}, value);
  return real_argument({"hyperparameters", "values"}, value);
}

void hyperparameters(nb::handle self, nb::dict values, const std::vector<std::string>& metrics) {
  const Where where = python_call_site();
  std::map<std::string, HyperParameter> all;
  for (auto [name, value] : values) {
    if (!PyUnicode_Check(name.ptr())) refuse_type({"hyperparameters", "values"}, name, "a str as the name");
    all[text_in({"hyperparameters", "values"}, name)] = hyperparameter(value);
  }
  write("hyperparameters", self, [&](SummaryWriter& to) { to.hyperparameters(all, metrics, where); });
}

void graph(nb::handle self, nb::handle module, const nb::args& inputs) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> of = module_in({"graph", "module"}, module);
  const std::vector<NDArray> arrays = example_inputs("graph", *of, inputs, where);
  write("graph", self, [&](SummaryWriter& to) { to.graph(*of, arrays, where); });
}

// Waits, so that Ctrl-C ends the wait.
void flush(nb::handle self) {
  writer_in("flush", self);
  interruptibly([writer = nb::inst_ptr<PythonSummaryWriter>(self)->writer] { writer->flush(); });
}
void close(nb::handle self) {
  writer_in("close", self);
  interruptibly([writer = nb::inst_ptr<PythonSummaryWriter>(self)->writer] { writer->close(); });
}

std::string picture_of(nb::handle self, const nb::args& inputs) {
  const Where where = python_call_site();
  Module& module = self_in("to_svg", self);
  const std::vector<NDArray> arrays = example_inputs("to_svg", module, inputs, where);
  const ReleaseGil released;
  return to_svg(module, arrays, where);
}

void save_picture(nb::handle self, nb::handle path, const nb::args& inputs) {
  const Where where = python_call_site();
  Module& module = self_in("svg", self);
  const std::string file = path_of("svg", path);
  const std::vector<NDArray> arrays = example_inputs("svg", module, inputs, where);
  const ReleaseGil released;
  save_svg(file, module, arrays, where);
}

}  // namespace

void bind_logging(nb::module_& m) {
  nb::class_<PythonSummaryWriter>(
      m, "SummaryWriter",
      "Writes numbers, histograms, pictures, texts and graphs of a run to a new file in a folder, for "
      "TensorBoard. Arrays are read by ops: no call waits for them but flush() and close(). Thread-safe.")
      .def("__init__", &make_writer, "path"_a, "suffix"_a = "",
           nb::sig("def __init__(self, path: str | os.PathLike[str], suffix: str = '') -> None"))
      .def("scalar", &scalar, "tag"_a, "value"_a.none(), "step"_a,
           nb::sig("def scalar(self, tag: str, value: ArrayLike | float, step: int) -> None"),
           "A number, or the element of an array with one.")
      .def("histogram", &histogram, "tag"_a, "values"_a, "step"_a,
           nb::sig("def histogram(self, tag: str, values: ArrayLike, step: int) -> None"),
           "The distribution of an array's elements. NaN and infinities do not count.")
      .def("image", &image, "tag"_a, "image"_a, "step"_a, "channels_last"_a = false,
           nb::sig("def image(self, tag: str, image: ArrayLike, step: int, channels_last: bool = False) -> "
                   "None"),
           "A picture (H, W), (C, H, W) or, with channels_last, (H, W, C), with 1, 3 or 4 channels; several, "
           "with "
           "an axis in front, side by side. u8, or numbers from 0 to 1.")
      .def("text", &text, "tag"_a, "markdown"_a, "step"_a,
           nb::sig("def text(self, tag: str, markdown: str, step: int) -> None"))
      .def("hyperparameters", &hyperparameters, "values"_a, "metrics"_a = std::vector<std::string>{},
           nb::sig(
               "def hyperparameters(self, values: Mapping[str, bool | float | str], metrics: Sequence[str] = "
               "...) -> None"),
           "The arguments of this run, and the tags of scalars by which runs are compared. Once a run.")
      .def("graph", &graph, "module"_a, "inputs"_a,
           nb::sig("def graph(self, module: Module, *inputs: ArrayLike | tuple[int, ...]) -> None"),
           "The layers and operators of a module, which is called once, in inference, if there are inputs.")
      .def("flush", &flush, nb::sig("def flush(self) -> None"),
           "Waits until all records so far are in the file; raises the first error since the last flush().")
      .def("close", &close, nb::sig("def close(self) -> None"), "flush(), then closes the file.")
      .def_prop_ro(
          "path", [](nb::handle self) { return writer_in("path", self).path(); },
          nb::sig("def path(self) -> str"), "Of the file.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Self"))
      .def(
          "__exit__", [](nb::handle self, nb::handle, nb::handle, nb::handle) { close(self); },
          "kind"_a.none(), "error"_a.none(), "traceback"_a.none(),
          nb::sig("def __exit__(self, kind: object | None, error: object | None, traceback: object | None, "
                  "/) -> None"));
  nb::borrow<nb::class_<Module>>(nb::type<Module>())
      .def("to_svg", &picture_of, nb::sig("def to_svg(self, *inputs: ArrayLike | tuple[int, ...]) -> str"),
           "A picture of the layers and operators: a box for each with its output's shape and parameters. "
           "With "
           "inputs the module is called once, in inference, for its shapes.")
      .def("svg", &save_picture, "path"_a, "inputs"_a,
           nb::sig(
               "def svg(self, path: str | os.PathLike[str], *inputs: ArrayLike | tuple[int, ...]) -> None"),
           "Writes to_svg() to a file.");
}

}  // namespace heddle::python
