#include "module.h"

#include <nanobind/stl/string.h>

#include <heddle/trace.h>

#include "array.h"
#include "calls.h"
#include "engines.h"
#include "errors.h"

namespace heddle::python {

using namespace nb::literals;

void bind_trace(nb::module_& m) {
  m.def(
      "_trace_start", [](const std::string& path) { trace::start(path); }, "path"_a,
      nb::call_guard<ReleaseGil>());
  m.def(
      "_trace_stop",
      [] {
        trace::TraceSummary summary;
        {
          const ReleaseGil released;
          summary = trace::stop();
        }
        return nb::make_tuple(summary.path, summary.records, summary.dropped, summary.bytes, summary.error);
      },
      nb::sig("def _trace_stop() -> tuple[str, int, int, int, str]"));
}

}  // namespace heddle::python

NB_MODULE(_heddle, m) {
  using namespace heddle::python;
  // Ops and their errors take the GIL by calls that know one interpreter only.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    raise(PyExc_ImportError, "heddle works in the main interpreter only, not in subinterpreters");
  }
  nb::set_leak_warnings(false);  // a failed op may keep its exception, and with it what the traceback names
  bind_errors(m);
  bind_types(m);
  bind_groups(m);
  bind_engine(m);
  bind_arrays(m);
  bind_operators(m);
  bind_autograd(m);
  bind_training(m);
  bind_communicators(m);
  bind_stores(m);
  bind_trainers(m);
  bind_files(m);
  bind_trace(m);
  bind_reports(m);
  explain_wrong_calls(m);
}
