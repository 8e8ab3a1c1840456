// What the core has to know about graphs; defined in graph/, which stands above the core.
#pragma once

#include <exception>

namespace heddle::detail {

struct EngineCore;
struct OpNode;

bool capturing();  // the calling thread captures a graph

// Throw Error while the calling thread captures a graph: always, or if the graph is one of another engine.
void refuse_in_capture(const char* what);
void check_capture(const EngineCore* core);

// Takes over a filled-in op, for every push: submits it, or adds it to the graph that the calling thread captures.
void submit_or_record(EngineCore* core, OpNode* op);

// Both parts of an asynchronous op of a graph have ended, on any thread.
void graph_op_completed(OpNode* op, std::exception_ptr thrown) noexcept;

}  // namespace heddle::detail
