// What the core has to know about graphs; defined in graph/, which stands above the core.
#pragma once

#include <exception>

#include "op/failure_ptr.h"
#include "stream/fence.h"

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

// Called on any thread for an op with OpNode::kOfGraph: it was issued, and its work is under way; its work is
// done, which frees op; it ends with `failure` without having been issued, or has to be issued again, since what it
// was deferred for is done, which both free op.
void graph_op_issued(OpNode* op) noexcept;
void graph_work_done(OpNode* op) noexcept;
void graph_op_skipped(OpNode* op, FailurePtr failure) noexcept;
void graph_op_resumes(OpNode* op) noexcept;

// Called for an op that stands for a segment of a graph: something that it reads is known to have failed, so its ops are
// issued one by one, which frees op; its work is done, and its ops leave the returned failures on the vars they mutate.
void graph_op_divides(OpNode* op) noexcept;
VarFailures graph_op_outcome(OpNode& op, std::exception_ptr own, const VarFailures& inherited) noexcept;

// Called when all ops of a launch that issues ops on streams have completed or are issued. Releases the vars of `op`, the
// launch. Work on streams keeps it in flight.
void launch_issued(OpNode* op) noexcept;

}  // namespace heddle::detail
