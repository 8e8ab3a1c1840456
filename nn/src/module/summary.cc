#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <thread>
#include <utility>

#include <heddle/multiply_adds.h>
#include <heddle/summary.h>

#include "module/inference_scope.h"
#include "module/table.h"

namespace heddle {

using nn_detail::bytes_of, nn_detail::bytes_text, nn_detail::ModuleNode, nn_detail::name_cell;

namespace {

// What hooks note about one call of a module. Calls of other threads are not noted.
class Observation {
 public:
  void add(const Module& module, const std::string& path) {
    if (!rows_by_node_.emplace(ModuleNode::shared(module), rows_.size()).second) return;
    rows_.emplace_back().path = path;
  }
  // The module's row; null if the module is new since the call began, or stands elsewhere first.
  ModuleRow* row_of(const Module& module, const std::string& path) {
    const auto found = rows_by_node_.find(ModuleNode::shared(module));
    return found == rows_by_node_.end() || rows_[found->second].path != path ? nullptr
                                                                             : &rows_[found->second];
  }
  std::vector<ModuleRow>& rows() { return rows_; }

  void begin(std::size_t row) {
    if (is_this_thread()) open_.push_back({row, std::make_unique<MultiplyAdds>()});
  }
  void end(std::size_t row, const Module& module, std::span<const NDArray> outputs) {
    if (!is_this_thread()) return;
    while (!open_.empty() && open_.back().row != row) open_.pop_back();  // calls that threw
    if (open_.empty()) return;
    rows_[row].multiply_adds += open_.back().multiply_adds->count();
    ++rows_[row].calls;
    rows_[row].outputs.clear();
    std::int64_t bytes = 0;
    for (const NDArray& output : outputs) {
      if (!output.defined()) continue;
      rows_[row].outputs.push_back(output.shape());
      bytes += bytes_of(output);
    }
    if (module.children().empty())
      for (const Call& call : open_) rows_[call.row].output_bytes += bytes;
    open_.pop_back();
  }
  void close() {
    while (!open_.empty()) open_.pop_back();  // counts end in the reverse order
  }

 private:
  struct Call {
    std::size_t row;
    std::unique_ptr<MultiplyAdds> multiply_adds;
  };
  bool is_this_thread() const { return std::this_thread::get_id() == thread_; }

  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<ModuleRow> rows_;
  std::map<std::shared_ptr<ModuleNode>, std::size_t> rows_by_node_;
  std::vector<Call> open_;  // the calls that are running
};

// Hooks of all modules in a tree, which live as long as this object.
class Observer {
 public:
  explicit Observer(Module& root) {
    visit(root, "", [&](Module& module, const std::string& path) {
      const std::size_t before = noted_->rows().size();
      noted_->add(module, path);
      if (noted_->rows().size() == before) return false;
      handles_.push_back(
          module.before_call([noted = noted_, before](const Module&, auto, auto) { noted->begin(before); }));
      handles_.push_back(module.after_call([noted = noted_, before](const Module& of, auto, auto outputs) {
        noted->end(before, of, outputs);
      }));
      return true;
    });
  }
  ~Observer() {
    for (HookHandle& handle : handles_) handle.remove();
    noted_->close();
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // What was observed, and what the modules hold now.
  ModuleSummary summary(Module& root) {
    visit(root, "", [&](Module& module, const std::string& path) {
      ModuleRow* const row = noted_->row_of(module, path);
      if (!row) return false;
      const std::string text = module.to_string();
      row->text = module.children().empty() ? text : text.substr(0, text.find('{'));
      for (const Parameter& one : module.parameters()) row->trained += one.value.size();
      for (const Parameter& one : module.state()) row->state_bytes += bytes_of(one.value);
      count_parameters(module, *row);
      return true;
    });
    std::vector<ModuleRow> rows;
    for (ModuleRow& row : noted_->rows())
      if (!row.text.empty()) rows.push_back(std::move(row));  // without text: forward() has removed it
    return {std::move(rows)};
  }

 private:
  // Calls visit(module, path) for a module and those inside it, but not for those inside one for which it returned false.
  template <class Visit> static void visit(Module& module, const std::string& path, const Visit& visited) {
    if (!visited(module, path)) return;
    for (const Module::Child& one : module.children())
      visit(*one.module, path.empty() ? one.name : path + "." + one.name, visited);
  }

  // An array under two names counts once, as in state().
  static void count_parameters(const Module& module, ModuleRow& row) {
    std::set<std::string> paths;
    nn_detail::visit_parameters(module, [&](const std::string& path, const NDArray&) { paths.insert(path); });
    for (const Parameter& one : module.state())
      if (paths.count(one.name)) row.parameters += one.value.size();
  }

  const std::shared_ptr<Observation> noted_ =
      std::make_shared<Observation>();  // hooks that run may outlive this object
  std::vector<HookHandle> handles_;
};

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string shapes_text(const ModuleRow& row) {
  if (row.calls == 0) return "not called";
  std::string text;
  for (const Shape& shape : row.outputs) text += (text.empty() ? "" : ", ") + shape.to_string();
  return text;
}

}  // namespace

ModuleSummary summarize(Module& module, std::span<const NDArray> inputs, Where where) {
  const CallSite site(where);
  Observer observer(module);
  const nn_detail::InferenceScope scope(module);
  module.run(inputs, where);
  return observer.summary(module);
}

ModuleSummary summarize(Module& module, std::initializer_list<NDArray> inputs, Where where) {
  return summarize(module, std::span(inputs.begin(), inputs.size()), where);
}

std::string ModuleSummary::to_string() const {
  std::vector<std::vector<std::string>> lines{{"module", "output", "parameters", "multiply-adds", "outputs"}};
  for (const ModuleRow& row : rows) {
    lines.push_back({name_cell(row.path, row.text), shapes_text(row), with_commas(row.parameters),
                     with_commas(row.multiply_adds), bytes_text(row.output_bytes)});
  }
  const std::string text = nn_detail::table_text(lines, 2);
  if (rows.empty()) return text;
  const ModuleRow& all = rows.front();
  return text + with_commas(all.parameters) + " parameters, " + with_commas(all.trained) +
         " of them trained; " + bytes_text(all.state_bytes) + " of parameters and buffers, " +
         bytes_text(all.output_bytes) + " of outputs, " + with_commas(all.multiply_adds) +
         " multiply-adds a call\n";
}

std::ostream& operator<<(std::ostream& out, const ModuleSummary& summary) {
  return out << summary.to_string();
}

}  // namespace heddle
