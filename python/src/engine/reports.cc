// Python functions for the report of memory by call site and for the options for printing arrays.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <heddle/memory_report.h>
#include <heddle/print_options.h>

#include "interpreter.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Options = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, bool>;

Options as_tuple(const PrintOptions& of) {
  return {of.precision, of.threshold, of.edgeitems, of.linewidth, of.suppress};
}

nb::tuple memory() {
  MemoryReport report;
  {
    const ReleaseGil released;
    report = memory_report();
  }
  nb::list sites;
  for (const MemorySite& site : report.sites)
    sites.append(nb::make_tuple(site.where.file_name(), site.where.line(), site.arrays, site.bytes,
                                site.at_peak, site.peak));
  return nb::make_tuple(report.arrays, report.bytes, report.peak, report.allocator.in_use,
                        report.allocator.peak, report.allocator.cached, sites, report.to_string());
}

}  // namespace

void bind_reports(nb::module_& m) {
  m.def("_print_options", [] { return as_tuple(print_options()); });
  m.def(
      "_set_print_options",
      [](int precision, std::int64_t threshold, std::int64_t edgeitems, std::int64_t linewidth,
         bool suppress) {
        return as_tuple(set_print_options({precision, threshold, edgeitems, linewidth, suppress}));
      },
      "precision"_a, "threshold"_a, "edgeitems"_a, "linewidth"_a, "suppress"_a);
  m.def("track_memory", &track_memory, "on"_a = true,
        "Whether new arrays are counted by the line that made them, from now on; see memory_report.");
  m.def("reset_memory_peak", &reset_memory_peak,
        "All peaks of memory_report() are what is held now, by arrays that are counted by line.");
  m.def("_memory_report", &memory, nb::sig("def _memory_report() -> tuple[Any, ...]"));
}

}  // namespace heddle::python
