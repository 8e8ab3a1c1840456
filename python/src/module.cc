#include "module.h"

#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include <heddle/trace.h>

#include "arrays/array.h"
#include "calls.h"
#include "engine/engines.h"
#include "errors.h"
#include "fit.h"

namespace heddle::python {

using namespace nb::literals;

namespace {

// The `with` block of heddle.trace. Starting and stopping the trace are one C++ call each, so that no signal
// handler runs in the middle. If the block's end is never called, the destructor stops the trace.
class TraceBlock {
 public:
  explicit TraceBlock(std::string path) : path_(std::move(path)) {}
  ~TraceBlock() { stop(); }
  TraceBlock(const TraceBlock&) = delete;
  TraceBlock& operator=(const TraceBlock&) = delete;

  void start() {
    const ReleaseGil released;
    trace::start(path_);
    started_ = true;
  }
  void stop() {
    if (!std::exchange(started_, false)) return;
    const ReleaseGil released;
    summary_ = trace::stop();
  }
  nb::tuple summary() const {
    PyObject* path =
        PyUnicode_DecodeFSDefaultAndSize(summary_.path.data(), static_cast<Py_ssize_t>(summary_.path.size()));
    if (!path) raise_set();
    return nb::make_tuple(nb::steal(path), summary_.records, summary_.dropped, summary_.bytes,
                          summary_.error);
  }

 private:
  std::string path_;
  bool started_ = false;
  trace::TraceSummary summary_;
};

}  // namespace

void bind_trace(nb::module_& m) {
  nb::class_<TraceBlock>(m, "_TraceBlock")
      .def(
          "__init__",
          [](TraceBlock* self, const nb::bytes& path) {
            new (self) TraceBlock(std::string(path.c_str(), path.size()));
          },
          "path"_a)
      .def(
          "__enter__",
          [](nb::object self) {
            nb::inst_ptr<TraceBlock>(self)->start();
            return self;
          },
          nb::sig("def __enter__(self) -> Self"))
      .def(
          "__exit__", [](TraceBlock& self, const nb::args&) { self.stop(); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def("_summary", &TraceBlock::summary, nb::sig("def _summary(self) -> tuple[str, int, int, int, str]"));
}

}  // namespace heddle::python

NB_MODULE(_heddle, m) {
  using namespace heddle::python;
  // Refuses subinterpreters: ops take the GIL by PyGILState functions, which support one interpreter only.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    raise(PyExc_ImportError, "heddle works in the main interpreter only, not in subinterpreters");
  }
  // A failed op keeps its exception, and so all objects of its traceback, at the end of the process.
  nb::set_leak_warnings(false);
  bind_errors(m);
  bind_types(m);
  bind_groups(m);
  bind_engine(m);
  bind_arrays(m);
  bind_operators(m);
  bind_autograd(m);
  bind_metrics(m);
  bind_modules(m);
  bind_logging(m);
  bind_communicators(m);
  bind_stores(m);
  bind_trainers(m);
  bind_training(m);
  bind_fit(m);
  bind_compression(m);
  bind_data(m);
  bind_data_files(m);
  bind_files(m);
  bind_trace(m);
  bind_reports(m);
  explain_wrong_calls(m);
}
