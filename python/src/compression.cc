// What is done after training: folding of batch norms, pruning, 8-bit products. _compression.py makes the reports.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <heddle/fold_batch_norms.h>
#include <heddle/pruning_callbacks.h>
#include <heddle/quantize.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "holders.h"
#include "module.h"
#include "module_calls.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using PythonPruning = Locked<Pruning>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

nb::list list_of(const Pairs& pairs) {
  nb::list all;
  for (const auto& [first, second] : pairs) all.append(nb::make_tuple(first, second));
  return all;
}

template <class List> Pairs kept_in(const List& kept, std::string List::value_type::*path) {
  Pairs all;
  for (const auto& one : kept) all.emplace_back(one.*path, one.reason);
  return all;
}

nb::tuple fold(nb::handle net) {
  const std::shared_ptr<Module> module = module_in({"fold_batch_norms", "net"}, net);
  const Where where = python_call_site();
  const FoldReport report = [&] {  // waits for nothing
    const ReleaseGil released;
    return fold_batch_norms(*module, where);
  }();
  Pairs folded;
  for (const FoldReport::Folded& one : report.folded) folded.emplace_back(one.norm, one.into);
  return nb::make_tuple(list_of(folded), list_of(kept_in(report.kept, &FoldReport::Kept::norm)),
                        report.to_string());
}

using CalibrationBatches = std::vector<std::vector<NDArray>>;

nb::tuple quantize_net(nb::handle net, const CalibrationBatches& batches, double percentile, double max_error,
                       const std::vector<std::string>& skip) {
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  const auto check = [given_up] {
    if (*given_up) throw Cancelled(Cancelled::Why::cancelled);
  };
  const QuantizeReport report = interruptibly(
      [module = module_in({"quantize", "net"}, net), batches,
       options =
           QuantizeOptions{
               .percentile = percentile, .max_error = max_error, .skip = skip, .check_interrupt = check},
       where = python_call_site()] {
        if (batches.empty()) return quantize(*module, std::vector<NDArray>(), options, where);
        const auto calibrate = [&] {
          std::vector<NDArray> before;  // one batch is computed while the next one is pushed
          for (const std::vector<NDArray>& inputs : batches) {
            options.check_interrupt();
            std::vector<NDArray> outputs = module->run(inputs, where);
            for (const NDArray& one : before) one.wait();
            before = std::move(outputs);
          }
        };
        return quantize(*module, calibrate, options, where);
      },
      given_up);
  nb::list layers;
  for (const QuantizeReport::Row& row : report.layers)
    layers.append(nb::make_tuple(row.path, row.layer, row.scale, row.zero_point, row.error));
  return nb::make_tuple(layers, list_of(kept_in(report.kept, &QuantizeReport::Kept::path)),
                        report.bytes_before, report.bytes_after, report.to_string());
}

nb::tuple report_of(const PruningReport& report) {
  nb::list rows;
  for (const PruningReport::Row& row : report.rows)
    rows.append(nb::make_tuple(row.path, row.zeros, row.size));
  return nb::make_tuple(rows, report.to_string());
}

void make_pruning(PythonPruning* self, nb::handle net, double sparsity, bool whole, std::int64_t keep,
                  std::int64_t of, const std::vector<std::string>& only) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> module = module_in({"Pruning", "net"}, net);
  new (self) PythonPruning(in_call("Pruning", [&] {
    return std::make_shared<Pruning>(
        *module, PruningOptions{.sparsity = sparsity, .global = whole, .keep = keep, .of = of, .only = only},
        where);
  }));
}

void bind_pruning(nb::module_& m) {
  using State = std::map<std::string, NDArray>;
  nb::class_<PythonPruning>(m, "_Pruning", "What heddle.Pruning derives from.")
      .def(
          "__init__", &make_pruning, "net"_a, "sparsity"_a = 0.5, "whole"_a = true, "keep"_a = 0, "of"_a = 0,
          "only"_a = nb::make_tuple(),
          nb::sig(
              "def __init__(self, net: Module, sparsity: float = 0.5, whole: bool = True, keep: int = 0, of: "
              "int = 0, only: Sequence[str] = ()) -> None"))
      .def(
          "prune",
          [](const PythonPruning& self, double sparsity) {
            const Where where = python_call_site();
            self.call([&](Pruning& of) { in_call("prune", [&] { of.prune(sparsity, where); }); });
          },
          "sparsity"_a, "Chooses anew, and applies the masks.")
      .def(
          "apply",
          [](const PythonPruning& self) {
            const Where where = python_call_site();
            self.call([&](Pruning& of) { in_call("apply", [&] { of.apply(where); }); });
          },
          "Makes 0 what the masks have 0 for.")
      .def(
          "keep_zeros",
          [](const PythonPruning& self) {
            const Where where = python_call_site();
            self.call([&](Pruning& of) { in_call("keep_zeros", [&] { of.keep_zeros(where); }); });
          },
          "What is 0 now is to stay 0.")
      .def("masks",
           [](const PythonPruning& self) { return self.call([](Pruning& of) { return of.masks(); }); })
      .def("state",
           [](const PythonPruning& self) {
             const Where where = python_call_site();
             return self.call([&](Pruning& of) { return in_call("state", [&] { return of.state(where); }); });
           })
      .def(
          "set_state",
          [](const PythonPruning& self, const State& state) {
            const Where where = python_call_site();
            self.call([&](Pruning& of) { in_call("set_state", [&] { of.set_state(state, where); }); });
          },
          "state"_a)
      .def(
          "_report",
          [](const PythonPruning& self) {
            const Where where = python_call_site();
            return report_of(
                self.call([&](Pruning& of) { return in_call("report", [&] { return of.report(where); }); }));
          },
          nb::sig("def _report(self) -> tuple[list[tuple[str, int, int]], str]"));
  nb::class_<KeepPruned, Callback>(m, "KeepPruned", nb::is_final(),
                                   "Applies the masks after each step of fit().")
      .def(
          "__init__",
          [](KeepPruned* self, const PythonPruning& pruning) {
            new (self) KeepPruned(pruning.call([](Pruning& of) { return of; }));
          },
          "pruning"_a);
  nb::class_<GradualPruning, Callback>(m, "GradualPruning", nb::is_final(),
                                       "Sparsity grows between two steps of the trainer, fast at first; the "
                                       "masks are applied after each step.")
      .def(
          "__init__",
          [](GradualPruning* self, const PythonPruning& pruning, double final_sparsity,
             double initial_sparsity, std::int64_t begin, std::int64_t end, std::int64_t every) {
            new (self) GradualPruning(pruning.call([](Pruning& of) { return of; }),
                                      {.final_sparsity = final_sparsity,
                                       .initial_sparsity = initial_sparsity,
                                       .begin = begin,
                                       .end = end,
                                       .every = every});
          },
          "pruning"_a, "final_sparsity"_a = 0.8, "initial_sparsity"_a = 0.0, "begin"_a = 0, "end"_a = 1000,
          "every"_a = 100);
}

}  // namespace

void bind_compression(nb::module_& m) {
  m.def(
      "_fold_batch_norms", &fold, "net"_a,
      nb::sig(
          "def _fold_batch_norms(net: Module) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str]"));
  m.def("_quantize", &quantize_net, "net"_a, "batches"_a, "percentile"_a, "max_error"_a, "skip"_a,
        nb::sig(
            "def _quantize(net: Module, batches: Sequence[Sequence[NDArray]], percentile: float, max_error: "
            "float, skip: Sequence[str]) -> tuple[list[tuple[str, str, float, int, float]], list[tuple[str, "
            "str]], int, int, str]"));
  bind_pruning(m);
}

}  // namespace heddle::python
