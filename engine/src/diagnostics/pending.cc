#include "diagnostics/pending.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include <heddle/number_text.h>

#include "core/core.h"
#include "stream/fence_set.h"

namespace heddle::detail {
namespace {

// The most ops of each state that a copy has (those pushed first), and the most accesses of each queue. They
// also bound how long a lock is held.
constexpr std::size_t kMostOps = 100;
constexpr std::size_t kMostQueued = 100;
constexpr std::uint32_t kMostReads = 1024;
constexpr std::size_t kMostCauses = 8;  // causes that are described for one op

std::string site_of(const OpNode& op) {
  if (op.where.line() == 0) return "";
  return std::string(op.where.file_name()) + ":" + std::to_string(op.where.line());
}

std::string verb(bool mutates) { return mutates ? "mutates" : "reads"; }

// Whether one of two steps of an asynchronous op is done: its function has returned, or its Completion was
// called. Which one, only Watch knows.
bool half_done(const OpNode& op) {
  return op.table && op.table->async && op.extra->parts.load(std::memory_order_relaxed) == 1;
}

// When a launch of a graph passes its vars on to the next launch, the first launch's op stays the one that
// holds them, and its sequence becomes that of the launch that runs (hand_over() in run.cc). So the sequence
// is read atomically.
std::uint64_t number_of(const OpNode& op) {
  return std::atomic_ref(const_cast<std::uint64_t&>(op.sequence)).load(std::memory_order_relaxed);
}

PendingOp copy_of(const OpNode& op, PendingState state) {
  PendingOp copy;
  copy.state = state;
  copy.kind = op.kind;
  copy.sequence = number_of(op);
  copy.name = op.name;
  copy.where = site_of(op);
  copy.streams = stream_name(op);
  const std::uint32_t count = std::min(op.access_count, kMostReads);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!op.accesses()[i].mutates) copy.reads.push_back(op.accesses()[i].var);
  }
  return copy;
}

// The state of the op that mutates a var. On the CPU it runs when no stream uses its vars any more; on a
// stream it may be about to be issued. Uses only the fences of that one var: while the op ends, its other
// vars may be deleted already.
PendingState state_of_writer(const OpNode& op, const FenceSet* fences) {
  if (half_done(op)) return PendingState::completing;
  const bool on_cpu = !op.extra || !(op.extra->on || op.extra->issues);
  return on_cpu && fences && fences->busy() ? PendingState::deferred : PendingState::granted;
}

std::string ops_text(std::int64_t count) { return std::to_string(count) + (count == 1 ? " op" : " ops"); }

std::string seconds_text(double seconds) { return fixed_text(seconds, 1) + " s"; }

std::string state_text(const PendingOp& op) {
  const std::string lasted = op.seconds ? " for " + seconds_text(*op.seconds) : "";
  switch (op.state) {
    case PendingState::running:
      return "runs" + lasted + (op.worker >= 0 ? " on worker " + std::to_string(op.worker) : "");
    case PendingState::completing:
      return "waits for its Completion; was started" +
             (op.seconds ? " " + seconds_text(*op.seconds) + " ago" : "");
    case PendingState::issued:
      return "was issued on " + op.streams + (op.seconds ? " " + seconds_text(*op.seconds) + " ago" : "") +
             ", which has not done its work";
    case PendingState::deferred:
      return "is kept back" + lasted + " for work on " + (op.streams.empty() ? "streams" : op.streams);
    case PendingState::granted:
      return "runs or is about to";
    case PendingState::ready:
      return "is ready, no worker has taken it yet";
    case PendingState::submitted:
      return "is pushed, not yet in its vars' queues";
    default:
      return "waits";
  }
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

// Holds waits.mutex: meanwhile no wait inside an op is given up, so that an op whose wait is read cannot end.
Pending::Pending(EngineCore& core) : forked_(core.forked()) {
  if (forked_) return;
  core.scheduler().visit_pending(*this);
  if (core.observer()) core.observer()->visit(*this);
  in_flight_ = core.scheduler().in_flight();
  std::lock_guard guard(core.waits.mutex);
  core.vars.for_each([this](VarState& var) { look_at(var); });
  find_deferred();
}

bool Pending::see(const OpNode& op, PendingState state) {
  if (state == PendingState::submitted) {
    submitted_.push_back(copy_of(op, state));
    return submitted_.size() < kMostOps;
  }
  PendingOp copy = copy_of(op, state);
  auto [at, fresh] = ops_.try_emplace(copy.sequence);
  if (fresh) {
    at->second = std::move(copy);
    ++seen_[state];
    bound(state);
  } else if (at->second.state < state) {
    --seen_[std::exchange(at->second.state, state)];
    ++seen_[state];
  }
  return state == PendingState::waiting || seen_[state] < kMostOps;
}

PendingOp* Pending::see_started(const OpNode& op, PendingState state) {
  see(op, state);
  const auto found = ops_.find(number_of(op));
  return found == ops_.end() ? nullptr : &found->second;
}

// If there are too many ops in that state, removes the one that was pushed last.
void Pending::bound(PendingState state) {
  if (seen_[state] <= kMostOps) return;
  const auto last =
      std::find_if(ops_.rbegin(), ops_.rend(), [&](const auto& op) { return op.second.state == state; });
  ops_.erase(std::next(last).base());
  --seen_[state];
}

void Pending::look_at(VarState& var) {
  std::lock_guard guard(var.lock);
  const FenceSet* fences = var.fences.load(std::memory_order_acquire);
  if (fences && fences->writing()) written_by_streams_.insert(&var);
  if (const AccessNode* writer = var.writer) {
    see(*writer->op, state_of_writer(*writer->op, fences));
  }
  if (!var.head) return;
  PendingVar& copy = vars_[&var];
  copy.number = var.number;
  copy.readers = var.readers_running;
  if (var.writer) copy.writer = {number_of(*var.writer->op), true};
  for (const AccessNode* access = var.head; access && copy.queue.size() < kMostQueued;
       access = access->next) {
    const OpNode& op = *access->op;
    see(op, PendingState::waiting);
    copy.queue.push_back({op.sequence, access->mutates});
    const WaitState* wait = op.wait_state();
    if (!wait || !wait->resumes) continue;
    if (const auto found = ops_.find(op.sequence); found != ops_.end())
      found->second.inside = wait->resumes->sequence;
  }
}

// Finds ops on the CPU that hold all their vars but are deferred, because a stream still writes a var that
// they read.
void Pending::find_deferred() {
  for (auto& [sequence, op] : ops_) {
    const bool on_cpu = op.streams.empty();
    if (op.state != PendingState::granted || !on_cpu) continue;
    const auto is_written = [this](const VarState* var) { return written_by_streams_.contains(var); };
    if (std::any_of(op.reads.begin(), op.reads.end(), is_written)) op.state = PendingState::deferred;
  }
}

// The ops that were granted a read of `var`: those that read it and were pushed before the first op in its
// queue.
std::vector<PendingAccess> Pending::readers_of(const VarState* id, const PendingVar& var) const {
  std::vector<PendingAccess> readers;
  for (const auto& [sequence, op] : ops_) {
    if (sequence >= var.queue.front().sequence) break;
    if (std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end())
      readers.push_back({sequence, false});
  }
  if (readers.size() > static_cast<std::size_t>(var.readers))
    readers.resize(static_cast<std::size_t>(var.readers));
  return readers;
}

// A queued read waits for the last mutation before it. A queued mutation waits for all reads since the last
// mutation, or for that mutation if there are none.
void Pending::add_causes(std::map<std::uint64_t, Causes>& causes, const VarState* id,
                         const PendingVar& var) const {
  std::vector<PendingAccess> readers = readers_of(id, var);
  const auto unnamed = var.readers - static_cast<std::int32_t>(readers.size());
  std::optional<PendingAccess> writer = var.writer;
  bool granted = true;  // true: `readers` are granted; false: they are queued
  for (const PendingAccess& access : var.queue) {
    Causes& of = causes[access.sequence];
    if (!access.mutates || (readers.empty() && writer)) {
      if (writer) of.push_back({var.number, access.mutates, writer});
    } else {
      for (const PendingAccess& reader : readers) of.push_back({var.number, access.mutates, reader});
      if (granted && unnamed > 0) of.push_back({var.number, access.mutates, std::nullopt, unnamed});
    }
    if (access.mutates) {
      writer = access;
      readers.clear();
      granted = false;
    } else {
      readers.push_back(access);
    }
  }
}

std::map<std::uint64_t, Pending::Causes> Pending::causes() const {
  std::map<std::uint64_t, Causes> all;
  for (const auto& [id, var] : vars_) add_causes(all, id, var);
  for (auto& [sequence, of] : all) {
    std::sort(of.begin(), of.end(), [](const Cause& a, const Cause& b) { return a.var < b.var; });
  }
  return all;
}

std::string Pending::title(const PendingOp& op) const {
  std::string text = op.state == PendingState::submitted ? "" : "#" + std::to_string(op.sequence) + " ";
  if (op.kind == OpKind::wait) {
    return text + "wait()" + (op.inside ? " inside op #" + std::to_string(*op.inside) : " of a thread");
  }
  return text + "'" + op.name + "'" + (op.where.empty() ? "" : " at " + op.where);
}

std::string Pending::title(std::uint64_t sequence) const {
  const auto found = ops_.find(sequence);
  return found == ops_.end() ? "#" + std::to_string(sequence) + " (not listed)" : title(found->second);
}

void Pending::describe(std::string& out, const PendingOp& op, const Causes& causes) const {
  out += "  " + title(op) + " " + state_text(op) + "\n";
  for (std::size_t i = 0; i < std::min(causes.size(), kMostCauses); ++i) {
    const Cause& cause = causes[i];
    out += std::string("    to ") + (cause.mutates ? "mutate" : "read") + " var " +
           std::to_string(cause.var) + ", which ";
    if (cause.holder) {
      out += title(cause.holder->sequence) + " " + verb(cause.holder->mutates) + "\n";
    } else {
      out += ops_text(cause.unnamed) + " of unknown name read (HEDDLE_WATCHDOG knows them)\n";
    }
  }
  if (causes.size() > kMostCauses) {
    out += "    ... and " + std::to_string(causes.size() - kMostCauses) + " more\n";
  }
}

std::size_t Pending::more() const {
  const auto listed =
      std::count_if(ops_.begin(), ops_.end(), [](const auto& op) { return op.second.kind == OpKind::user; });
  return static_cast<std::size_t>(std::max<std::int64_t>(0, in_flight_ - listed));
}

std::string Pending::text() const {
  if (forked_) return "this engine was made before fork(): nothing is known of it here\n";
  if (empty() && in_flight_ <= 0) return "no op is pending\n";
  const auto all = causes();
  std::string out = ops_text(std::max<std::int64_t>(in_flight_, 0)) + " in flight:\n";
  for (const bool waiting : {false, true}) {
    for (const auto& [sequence, op] : ops_) {
      if ((op.state == PendingState::waiting) != waiting) continue;
      const auto found = all.find(sequence);
      describe(out, op, found == all.end() ? Causes{} : found->second);
    }
  }
  if (more() > 0) out += "  ... and " + std::to_string(more()) + " more\n";
  if (submitted_.empty()) return out;
  const bool all_seen = submitted_.size() < kMostOps;
  out += (all_seen ? "" : "at least ") + ops_text(static_cast<std::int64_t>(submitted_.size())) +
         " not looked at yet:\n";
  for (const PendingOp& op : submitted_) describe(out, op, {});
  return out;
}

void Pending::draw(std::string& out, const PendingOp& op, const Causes& causes) const {
  const std::string node = "  op" + std::to_string(op.sequence);
  const std::string colour = op.state == PendingState::waiting ? "" : ", style=filled, fillcolor=lightgrey";
  out += node + " [label=\"" + escaped(title(op) + "\n" + state_text(op)) + "\"" + colour + "];\n";
  for (const Cause& cause : causes) {
    if (!cause.holder || !ops_.contains(cause.holder->sequence)) continue;
    out += node + " -> op" + std::to_string(cause.holder->sequence) + " [label=\"var " +
           std::to_string(cause.var) + ": " + verb(cause.mutates) + ", after " + verb(cause.holder->mutates) +
           "\"];\n";
  }
  // An op in which a thread waits cannot end before the wait op.
  if (op.inside && ops_.contains(*op.inside)) {
    out += "  op" + std::to_string(*op.inside) + " -> op" + std::to_string(op.sequence) +
           " [label=\"waits inside\"];\n";
  }
}

std::string Pending::dot() const {
  // With curved edges and a thorough placement `dot` takes minutes for a hundred ops that share vars.
  std::string out = "digraph heddle {\n  graph [rankdir=RL, nslimit=1, splines=line];\n  node [shape=box];\n";
  const auto all = causes();
  for (const auto& [sequence, op] : ops_) {
    const auto found = all.find(sequence);
    draw(out, op, found == all.end() ? Causes{} : found->second);
  }
  const std::size_t unlisted = more() + submitted_.size();
  if (unlisted > 0)
    out += "  more [label=\"... and " + std::to_string(unlisted) + " more\", shape=plaintext];\n";
  return out + "}\n";
}

}  // namespace heddle::detail
