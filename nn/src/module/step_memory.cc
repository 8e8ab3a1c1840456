#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <heddle/memory_label.h>
#include <heddle/memory_report.h>
#include <heddle/step_memory.h>

#include "module/module_node.h"
#include "module/table.h"

namespace heddle {

using nn_detail::ModuleNode;

namespace {

// The labels of the calls that the thread is in.
struct OpenCalls {
  const std::thread::id thread = std::this_thread::get_id();
  std::vector<std::pair<std::size_t, std::unique_ptr<MemoryLabel>>> open{};

  void begin(std::size_t row, const std::string& label) {
    if (std::this_thread::get_id() != thread) return;
    open.emplace_back(row, std::make_unique<MemoryLabel>(label));
  }
  void end(std::size_t row) {
    if (std::this_thread::get_id() != thread) return;
    while (!open.empty() && open.back().first != row) open.pop_back();  // calls that threw
    if (!open.empty()) open.pop_back();
  }
  void close() {
    while (!open.empty()) open.pop_back();
  }
};

// The rows of a tree of modules. While it lives, arrays that their calls make are counted under labels.
class LabelledModules {
 public:
  explicit LabelledModules(Module& root) { add(root, ""); }
  ~LabelledModules() {
    for (HookHandle& hook : hooks_) hook.remove();
    calls_->close();
  }
  LabelledModules(const LabelledModules&) = delete;
  LabelledModules& operator=(const LabelledModules&) = delete;

  std::vector<ModuleMemory>& rows() { return rows_; }
  // Adds to the row of this label, and to those around it. False: it is no label of these rows.
  bool add_activations(const std::string& label, std::size_t bytes) {
    const auto at = row_of_.find(label);
    if (at == row_of_.end()) return false;
    for (std::size_t row = at->second;; row = parents_[row]) {
      rows_[row].activations += bytes;
      if (row == 0) return true;
    }
  }

 private:
  static std::string label_of(const std::string& path) { return "module " + path; }

  void add(Module& module, const std::string& path, std::size_t parent = 0) {
    if (!seen_.insert(&ModuleNode::of(module)).second) return;
    const std::size_t row = rows_.size();
    const std::string text = module.to_string();
    rows_.push_back(
        {.path = path, .text = module.children().empty() ? text : text.substr(0, text.find('{'))});
    parents_.push_back(parent);
    row_of_.emplace(label_of(path), row);
    hooks_.push_back(module.before_call([calls = calls_, row, label = label_of(path)](
                                            const Module&, auto, auto) { calls->begin(row, label); }));
    hooks_.push_back(
        module.after_call([calls = calls_, row](const Module&, auto, auto) { calls->end(row); }));
    for (const Module::Child& one : module.children())
      add(*one.module, path.empty() ? one.name : path + "." + one.name, row);
  }

  std::vector<ModuleMemory> rows_;
  std::vector<std::size_t> parents_;  // of the rows
  std::unordered_map<std::string, std::size_t> row_of_;
  std::unordered_set<const ModuleNode*> seen_;
  const std::shared_ptr<OpenCalls> calls_ = std::make_shared<OpenCalls>();
  std::vector<HookHandle> hooks_;
};

std::size_t array_bytes(const NDArray& array) { return static_cast<std::size_t>(nn_detail::bytes_of(array)); }

// What the modules hold, and the optimizer for them.
void add_held(Module& root, std::vector<ModuleMemory>& rows, const std::map<std::string, NDArray>& state) {
  const auto add = [&](const std::string& path, auto change) {
    for (ModuleMemory& row : rows)
      if (row.path.empty() || path.starts_with(row.path + ".")) change(row);
  };
  for (const Parameter& one : root.state())
    add(one.name, [&](ModuleMemory& row) { row.parameters += array_bytes(one.value); });
  for (const Parameter& one : root.parameters())
    add(one.name, [&](ModuleMemory& row) { row.gradients += array_bytes(one.value); });
  const std::string prefix = "state.";
  for (const auto& [name, array] : state) {
    if (name.starts_with(prefix))
      add(name.substr(prefix.size()), [&, one = array](ModuleMemory& row) { row.state += array_bytes(one); });
  }
}

// Turns track_memory() on while it lives.
class Tracking {
 public:
  Tracking() : before_(tracks_memory()) { track_memory(true); }
  ~Tracking() { track_memory(before_); }
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;

 private:
  const bool before_;
};

}  // namespace

StepMemory memory_report(Module& module, const std::function<std::map<std::string, NDArray>()>& state,
                         const std::function<void()>& step, Where where) {
  if (!step || !state) {
    const CallSite site(where);
    throw InvalidArgument(std::string("memory_report: ") + (step ? "state" : "step") +
                          " is an empty function");
  }
  step();  // its own calls name their lines
  current_engine().wait_all();
  StepMemory report;
  LabelledModules modules(module);
  const MemoryReport before = heddle::memory_report();
  {
    const Tracking tracking;
    reset_memory_peak();
    step();
    current_engine().wait_all();
  }
  const MemoryReport after = heddle::memory_report();
  report.peak = after.peak - std::min(after.peak, before.bytes);
  std::size_t inside = 0;
  for (const MemorySite& site : after.sites)
    if (modules.add_activations(site.label, site.peak)) inside += site.at_peak;
  report.others = report.peak - std::min(report.peak, inside);
  add_held(module, modules.rows(), state());
  report.rows = std::move(modules.rows());
  return report;
}

std::string StepMemory::to_string() const {
  const auto text_of = [](std::size_t bytes) {
    return nn_detail::bytes_text(static_cast<std::int64_t>(bytes));
  };
  std::vector<std::vector<std::string>> lines{
      {"module", "parameters", "gradients", "optimizer", "activations"}};
  for (const ModuleMemory& row : rows) {
    lines.push_back({nn_detail::name_cell(row.path, row.text), text_of(row.parameters),
                     text_of(row.gradients), text_of(row.state), text_of(row.activations)});
  }
  const std::string text = nn_detail::table_text(lines, 1);
  if (rows.empty()) return text;
  const ModuleMemory& all = rows.front();
  return text + text_of(all.parameters + all.state) + " of parameters and optimizer; at most " +
         text_of(peak) + " more in a step, of which " + text_of(others) +
         " of arrays outside of modules, as gradients\n";
}

std::ostream& operator<<(std::ostream& out, const StepMemory& memory) { return out << memory.to_string(); }

}  // namespace heddle
