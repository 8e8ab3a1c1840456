#include "op/failure.h"

#include <algorithm>
#include <cstdio>

#include "op/op_node.h"

namespace heddle::detail {
namespace {

std::string site(const char* name, const std::source_location& where) {
  return std::string(name) + " at " + where.file_name() + ":" + std::to_string(where.line());
}

ErrorReport describe_root(const FailureRoot& root) { return {root.exception, root.name, root.where, {}}; }

// A program that never waits for its errors must not fill the memory with them.
constexpr std::size_t kMostRoots = 10000;

void log_if_unseen(FailureRoot& root) noexcept {
  if (root.seen.exchange(true)) return;
  std::fprintf(stderr, "heddle: an error that nobody waited for: %s\n",
               describe_root(root).to_string().c_str());
}

}  // namespace

Failure::Failure(std::shared_ptr<FailureRoot> of, std::shared_ptr<const Failure> because, const OpNode& op)
    : root(std::move(of)), cause(std::move(because)), name(op.name), where(op.where), sequence(op.sequence) {}

Failure::~Failure() {
  // Freeing a cause may free its own cause and so on: take the chain apart one by one instead.
  std::shared_ptr<const Failure> next = std::move(cause);
  while (next && next.use_count() == 1) {
    std::shared_ptr<const Failure> after = std::move(const_cast<Failure&>(*next).cause);
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

std::shared_ptr<const Failure> poison_of_reads(const OpNode& op) {
  const std::shared_ptr<const Failure>* first = nullptr;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    if (!access.reads) continue;
    const auto& poison = access.var->poison;
    if (poison && (!first || earlier(*poison, **first))) first = &poison;
  }
  return first ? *first : nullptr;
}

std::shared_ptr<const Failure> ErrorLog::failed(const OpNode& op, std::exception_ptr exception, bool seen) {
  auto root = std::make_shared<FailureRoot>();
  root->exception = std::move(exception);
  root->name = op.name;
  root->where = op.where;
  root->sequence = op.sequence;
  root->seen.store(seen, std::memory_order_relaxed);
  {
    std::lock_guard guard(mutex_);
    if (roots_.size() >= forget_at_) forget_settled();
    roots_.push_back(root);
  }
  return std::make_shared<Failure>(std::move(root), nullptr, op);
}

std::shared_ptr<const Failure> ErrorLog::skipped(const OpNode& op, std::shared_ptr<const Failure> cause) {
  auto root = cause->root;
  return std::make_shared<Failure>(std::move(root), std::move(cause), op);
}

void ErrorLog::forget_settled() {
  std::erase_if(roots_, [](const auto& root) { return root->seen && root.use_count() == 1; });
  if (roots_.size() >= kMostRoots) {
    // Those that still poison a var stay: wait_all has to report them.
    std::erase_if(roots_, [](const auto& root) {
      if (root.use_count() > 1) return false;
      log_if_unseen(*root);
      return true;
    });
  }
  forget_at_ = 2 * roots_.size() + 64;
}

std::vector<ErrorReport> ErrorLog::take_reports() {
  std::lock_guard guard(mutex_);
  std::vector<ErrorReport> reports;
  for (const auto& root : roots_) {
    const bool poisons_a_var = root.use_count() > 1;
    if (poisons_a_var || !root->seen) reports.push_back(describe_root(*root));
    root->seen = true;
  }
  forget_settled();
  return reports;
}

void ErrorLog::log_unseen() noexcept {
  std::lock_guard guard(mutex_);
  for (const auto& root : roots_) log_if_unseen(*root);
}

}  // namespace heddle::detail
