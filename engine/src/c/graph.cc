#include <memory>
#include <utility>
#include <vector>

#include <heddle/c/graph.h>

#include "c/boundary.h"

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_capture(heddle_engine* engine, heddle_capture_fn fn, void* ctx, const char* name,
                             const heddle_site* site, heddle_graph** graph, heddle_error** error) {
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_capture";
    const HandleAccess<heddle_engine> of(engine, kCall);
    if (!fn) throw_null(kCall, "fn");
    check_out(graph, kCall, "graph");
    *graph = make_handle<heddle_graph>((*of)->capture(
        [&] {
          heddle_error* failure = nullptr;
          throw_if_failed(fn(ctx, &failure), failure, "the function of a capture");
        },
        name ? name : "graph", location_of(site)));
  });
}

heddle_status heddle_slot_create(heddle_engine* engine, heddle_slot** slot, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> of(engine, "heddle_slot_create");
    check_out(slot, "heddle_slot_create", "slot");
    *slot = make_handle<heddle_slot>((*of)->slot<Owned>().cell());
  });
}

heddle_status heddle_slot_destroy(heddle_slot* slot) {
  return guarded(nullptr, [&] {
    if (slot) take(slot, "heddle_slot_destroy");
  });
}

heddle_status heddle_slot_value(const heddle_slot* slot, void** value, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_slot> of(slot, "heddle_slot_value");
    check_out(value, "heddle_slot_value", "value");
    *value = static_cast<const Owned*>(detail::slot_value(of->get()))->ctx();
  });
}

heddle_status heddle_graph_launch(const heddle_graph* graph, const heddle_binding* bindings, size_t count,
                                  heddle_error** error) {
  std::size_t taken = 0;  // number of bindings whose values have an owner
  const heddle_status status = guarded(error, [&] {
    constexpr const char* kCall = "heddle_graph_launch";
    if (count > 0 && !bindings) throw_null(kCall, "bindings");
    const HandleAccess<heddle_graph> of(graph, kCall);
    std::vector<Binding> bound;
    while (taken < count) {
      const heddle_binding& next = bindings[taken++];
      Owned value(next.value, next.destroy);
      bound.push_back(Slot<Owned>(*HandleAccess<heddle_slot>(next.slot, kCall)).bind(std::move(value)));
    }
    of->launch_with(bound);
  });
  for (; bindings && taken < count; ++taken) Owned(bindings[taken].value, bindings[taken].destroy);
  return status;
}

heddle_status heddle_graph_set(heddle_graph* graph, const heddle_binding* binding, heddle_error** error) {
  Owned value(binding ? binding->value : nullptr, binding ? binding->destroy : nullptr);
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_graph_set";
    if (!binding) throw_null(kCall, "binding");
    const HandleAccess<heddle_graph> of(graph, kCall);
    const Slot<Owned> slot(*HandleAccess<heddle_slot>(binding->slot, kCall));
    Graph(*of).set(slot, std::move(value));
  });
}

heddle_status heddle_graph_size(const heddle_graph* graph, size_t* ops, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_graph> of(graph, "heddle_graph_size");
    check_out(ops, "heddle_graph_size", "ops");
    *ops = of->size();
  });
}

heddle_status heddle_graph_destroy(heddle_graph* graph) {
  return guarded(nullptr, [&] {
    if (graph) take(graph, "heddle_graph_destroy");
  });
}
