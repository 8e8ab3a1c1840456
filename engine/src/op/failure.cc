#include "op/failure.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "op/failure_ptr.h"
#include "op/op_node.h"

namespace heddle::detail {
namespace {

std::string site(const char* name, const std::source_location& where) {
  if (where.line() == 0) return name;  // the language that pushed the op does not know its lines
  return std::string(name) + " at " + where.file_name() + ":" + std::to_string(where.line());
}

ErrorReport describe_root(const FailureRoot& root) { return {root.exception, root.name, root.where, {}}; }

// Bounds the memory that errors take in a program that never waits for them.
constexpr std::size_t kMostUnseen = 1000;

// When this thread frees a Failure, that stores its cause in *left_over, for a loop to free. Null: the Failure
// frees its cause itself.
constinit thread_local FailurePtr* left_over = nullptr;

}  // namespace

Failure::Failure(std::shared_ptr<FailureRoot> of, FailurePtr because, const OpNode& op)
    : root(std::move(of)), cause(std::move(because)), name(op.name), where(op.where), sequence(op.sequence) {}

// A cause is freed by a loop, not recursively, and leaves its own cause in `left_over`. Nothing is taken out of a
// Failure that another thread may still read: use_count() == 1 would not tell, since it does not wait for the last
// reader.
Failure::~Failure() {
  if (FailurePtr* to = std::exchange(left_over, nullptr)) {
    *to = std::move(cause);
    return;
  }
  for (FailurePtr next = std::move(cause); next;) {
    FailurePtr after;
    left_over = &after;
    next.reset();
    left_over = nullptr;
    next = std::move(after);
  }
}

ErrorReport describe(const Failure& failure) {
  ErrorReport report = describe_root(*failure.root);
  for (const Failure* step = &failure; step->cause; step = step->cause.get()) {
    report.path.push_back(site(step->name, step->where));
  }
  report.path = {report.path.rbegin(), report.path.rend()};
  return report;
}

bool earlier(const Failure& a, const Failure& b) {
  if (a.root->sequence != b.root->sequence) return a.root->sequence < b.root->sequence;
  return a.sequence < b.sequence;
}

FailurePtr poison_of_reads(const OpNode& op) {
  const FailurePtr* first = nullptr;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    if (!access.reads) continue;
    const auto& poison = access.var->poison;
    if (poison && (!first || earlier(*poison, **first))) first = &poison;
  }
  return first ? *first : nullptr;
}

FailurePtr ErrorLog::failed(const OpNode& op, std::exception_ptr exception, bool seen) {
  auto root = std::make_shared<FailureRoot>();
  root->exception = std::move(exception);
  root->name = op.name;
  root->where = op.where;
  root->sequence = op.sequence;
  root->seen.store(seen, std::memory_order_relaxed);
  {
    std::lock_guard guard(mutex_);
    if (roots_.size() >= forget_at_) prune_reported();
    roots_.push_back(root);
  }
  return std::make_shared<Failure>(std::move(root), nullptr, op);
}

FailurePtr ErrorLog::skipped(const OpNode& op, FailurePtr cause) {
  auto root = cause->root;
  return std::make_shared<Failure>(std::move(root), std::move(cause), op);
}

// Errors that still poison a var are kept: wait_all has to report them, and the vars hold them anyway.
void ErrorLog::prune_reported() {
  std::size_t unseen = 0;
  std::erase_if(roots_, [&](const auto& root) {
    if (root.use_count() > 1) return false;
    if (root->seen) return true;
    if (++unseen <= kMostUnseen) return false;
    ++more_;
    return true;
  });
  forget_at_ = 2 * roots_.size() + 64;
}

ErrorLog::Reports ErrorLog::take_reports() {
  std::lock_guard guard(mutex_);
  prune_reported();
  Reports reports{{}, std::exchange(more_, 0)};
  for (const auto& root : roots_) {
    reports.kept.push_back(describe_root(*root));
    root->seen = true;
  }
  prune_reported();
  return reports;
}

void ErrorLog::log_unseen() noexcept {
  std::size_t count = 0;
  std::shared_ptr<const FailureRoot> first;
  {
    std::lock_guard guard(mutex_);
    count = std::exchange(more_, 0);
    for (const auto& root : roots_) {
      if (root->seen.exchange(true)) continue;
      ++count;
      if (!first) first = root;
    }
  }
  if (!first) return;
  std::string text = describe_root(*first).to_string();
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string what = count == 1 ? "an error that nobody waited for: "
                                      : std::to_string(count) + " errors that nobody waited for; the first: ";
  log("heddle: " + what + text);
}

}  // namespace heddle::detail
