// What the core has to know about graphs; defined in graph/, which stands above the core.
#pragma once

#include <exception>

namespace heddle::detail {

struct EngineCore;
struct OpNode;

bool capturing();  // whether the calling thread captures a graph

// While the calling thread captures a graph, refuse_in_capture() throws Error, and so does check_capture() if
// the graph belongs to another engine than `core`. `what`: the refused call, for the message.
void refuse_in_capture(const char* what);
void check_capture(const EngineCore* core);

// The last step of every push, which ends the caller's ownership of op: submits it, or adds it to the graph
// that the calling thread captures.
void submit_or_record(EngineCore* core, OpNode* op);

// Called on any thread when an asynchronous op of a graph has ended: its function has returned and its
// Completion was called.
void graph_op_completed(OpNode* op, std::exception_ptr thrown) noexcept;

}  // namespace heddle::detail
