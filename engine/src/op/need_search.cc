#include "op/need_search.h"

#include <atomic>
#include <mutex>

namespace heddle::detail {
namespace {

std::uint64_t sequence_of(OpNode& op) {
  // The sequence of a launch may change, see hand_over() in run.cc.
  return std::atomic_ref(op.sequence).load(std::memory_order_relaxed);
}

}  // namespace

bool NeedSearch::mutates(const OpNode& op) const {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var == &var_) return op.accesses()[i].mutates;
  }
  return false;
}

bool NeedSearch::needs(OpNode& op) {
  return sequence_of(op) < before_ && (mutates(op) || leads_to_wait(op, 0));
}

// The entry of the op with that sequence, or a free one for it.
NeedSearch::Seen& NeedSearch::find(std::uint64_t sequence) {
  std::size_t at = sequence * 0x9E3779B97F4A7C15U >> 57;
  while (seen_[at].key != 0 && seen_[at].key != sequence + 1) at = (at + 1) % kTable;
  return seen_[at];
}

bool NeedSearch::leads_to_wait(OpNode& op, int depth) {
  const std::uint64_t sequence = sequence_of(op);
  if (sequence >= before_) return false;
  Seen& seen = find(sequence);
  if (seen.key != 0) return seen.needed;
  if (depth >= kDeepest || seen_count_ >= kMostSeen) return false;
  ++seen_count_;
  seen.key = sequence + 1;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (any_follower_needed(op.accesses()[i], depth)) return find(sequence).needed = true;
  }
  return false;
}

// Looks at the ops directly behind `access`: all queued reads up to the next mutation if it mutates, and that
// mutation.
bool NeedSearch::any_follower_needed(const AccessNode& access, int depth) {
  VarState& var = *access.var;
  constexpr std::size_t kFirst = 8;
  std::array<OpNode*, kFirst> found;
  std::size_t count = 0;
  {
    std::lock_guard guard(var.lock);
    for (AccessNode* next = access.granted ? var.head : access.next; next && followers_ < kMostFollowers;
         next = next->next) {
      ++followers_;
      if (next->op->kind == OpKind::user && (access.mutates || next->mutates) && count < kFirst)
        found[count++] = next->op;
      if (next->mutates) break;
    }
  }
  // None of these ops can end, since they are queued behind `access`, whose op has not ended.
  for (std::size_t i = 0; i < count; ++i) {
    if (sequence_of(*found[i]) < before_ && (mutates(*found[i]) || leads_to_wait(*found[i], depth + 1)))
      return true;
  }
  return false;
}

}  // namespace heddle::detail
