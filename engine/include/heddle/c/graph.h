// Graphs: ops whose dependencies are found once, and which are launched many times for a fraction of the cost of a push.
#pragma once

#include <heddle/c/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_graph heddle_graph;  // a handle on what a capture has recorded
typedef struct heddle_slot heddle_slot;    // a handle on a value that each launch of a graph is given

// Called once, on the calling thread, before heddle_capture returns. What it pushes on the engine (heddle_push,
// heddle_push_async, heddle_push_prepared, heddle_push_on, heddle_clear_error) is recorded and does not run; waits,
// launches, and pushes on other engines fail meanwhile. If it does not return HEDDLE_OK there is no graph; *error as in
// heddle_op_fn.
typedef heddle_status (*heddle_capture_fn)(void* ctx, heddle_error** error);

// `name` and `site` are as in heddle_op_options and may be null. The functions of the recorded ops are called
// once in each launch, and each destroy(ctx) when the graph is gone. Groups, priorities and bytes of the ops
// do not count.
HEDDLE_API heddle_status heddle_capture(heddle_engine* engine, heddle_capture_fn fn, void* ctx,
                                        const char* name, const heddle_site* site, heddle_graph** graph,
                                        heddle_error** error);

// A slot of the graph that the calling thread captures; fails elsewhere. It must be destroyed after the last op that asks
// for its value.
HEDDLE_API heddle_status heddle_slot_create(heddle_engine* engine, heddle_slot** slot, heddle_error** error);
HEDDLE_API heddle_status heddle_slot_destroy(heddle_slot* slot);
// The slot's value in the launch that runs the calling op. Fails outside an op of the graph.
HEDDLE_API heddle_status heddle_slot_value(const heddle_slot* slot, void** value, heddle_error** error);

// A slot with a value. destroy(value) is called exactly once, on any thread: when no launch needs the value
// any more, or when the call that takes the binding fails. `destroy` may be null.
typedef struct heddle_binding {
  const heddle_slot* slot;
  void* value;
  heddle_destroy_fn destroy;
} heddle_binding;

// Queues the graph's ops as one op, and returns. Each slot has the value bound here, or else the one last set. Several
// threads may launch at once. Fails for a slot without a value, one bound twice or of another graph.
HEDDLE_API heddle_status heddle_graph_launch(const heddle_graph* graph, const heddle_binding* bindings,
                                             size_t count, heddle_error** error);
// The slot's value for all later launches that bind none. Must not be called while another thread launches
// this graph.
HEDDLE_API heddle_status heddle_graph_set(heddle_graph* graph, const heddle_binding* binding,
                                          heddle_error** error);
// The number of ops.
HEDDLE_API heddle_status heddle_graph_size(const heddle_graph* graph, size_t* ops, heddle_error** error);
// Destroys the handle. Launches that were queued still run.
HEDDLE_API heddle_status heddle_graph_destroy(heddle_graph* graph);

#ifdef __cplusplus
}
#endif
