// The Python classes of groups of ops, of graphs, and of the slots of graphs.
#include <memory>
#include <vector>

#include <nanobind/stl/optional.h>

#include <heddle/group.h>

#include "engine/engines.h"
#include "engine/graphs.h"
#include "engine/python_op.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

Binding bind(const PythonSlot& slot, nb::object value) {
  return slot.slot.bind(std::make_shared<Reference>(std::move(value)));
}

}  // namespace

void bind_groups(nb::module_& m) {
  nb::class_<Group>(m, "Group",
                    "Ops that are cancelled together, by a call or because their deadline has passed.")
      .def(
          "__init__",
          [](Group* self, std::optional<double> timeout) {
            new (self) Group;
            if (timeout) self->set_deadline(after({"Group", "timeout"}, *timeout));
          },
          "timeout"_a = nb::none())
      .def("cancel", &Group::cancel, nb::call_guard<ReleaseGil>(),
           "Ops of the group that have not started fail with Cancelled when their turn comes.")
      .def(
          "set_timeout",
          [](Group& self, std::optional<double> seconds) {
            self.set_deadline(seconds ? after({"set_timeout", "seconds"}, *seconds)
                                      : std::chrono::steady_clock::time_point::max());
          },
          "seconds"_a.none(),
          "The group counts as cancelled so many seconds from now on; None removes the deadline.")
      .def_prop_ro("cancelled", &Group::cancelled, "The group was cancelled, or its deadline has passed.");
  m.def(
      "cancelled",
      [] {
        const RunContext* running = running_context();
        return running && running->cancelled();
      },
      "Inside an op: whether the op's group is cancelled by now, so that it may stop early.");
}

void bind_graphs(nb::module_& m) {
  nb::class_<Binding>(m, "Binding", "A slot with the value that one launch gives it.");
  nb::class_<PythonSlot>(m, "Slot", "A value that the ops of a graph read and that each launch is given.")
      .def_prop_ro(
          "value", [](const PythonSlot& self) { return nb::borrow(self.slot.get()->get()); },
          "The value in this launch; only inside an op of the graph.")
      .def("bind", &bind, "value"_a.none(), "An argument of launch: the value in that launch.");
  nb::class_<PythonGraph>(m, "Graph", "Ops that were captured once and are launched many times.")
      .def(
          "launch",
          [](const PythonGraph& self, nb::args bindings) {
            std::vector<Binding> list;
            for (nb::handle binding : bindings) {
              if (!nb::isinstance<Binding>(binding))
                refuse_type({"launch", "a binding"}, binding, "what Slot.bind has returned");
              list.push_back(*nb::inst_ptr<Binding>(binding));
            }
            const ReleaseGil released;
            self.graph.launch_with(list);
          },
          nb::sig("def launch(self, *bindings: Binding) -> None"), "Queues the graph's ops as one op.")
      .def(
          "set",
          [](PythonGraph& self, const PythonSlot& slot, nb::object value) {
            self.graph.set(slot.slot, std::make_shared<Reference>(std::move(value)));
          },
          "slot"_a, "value"_a.none(), "The slot's value for all later launches that bind none.")
      .def("__len__", [](const PythonGraph& self) { return self.graph.size(); });
}

}  // namespace heddle::python
