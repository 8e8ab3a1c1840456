#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <unordered_set>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/graph.h>
#include <heddle/layer.h>
#include <heddle/number_text.h>
#include <heddle/ops.h>
#include <heddle/pruning.h>

#include "module/module_node.h"

namespace heddle {

using nn_detail::ModuleNode;

namespace {

[[noreturn]] void fail_pruning(const std::string& problem) { throw InvalidArgument("Pruning: " + problem); }

void check_sparsity(const char* name, double sparsity) {
  if (!(sparsity >= 0 && sparsity <= 1))
    fail_pruning(std::string(name) + " is " + number_text(sparsity) + "; want 0 to 1");
}

void check_pruning(const PruningOptions& options) {
  check_sparsity("sparsity", options.sparsity);
  if (options.of == 0 && options.keep == 0) return;
  if (options.of < 1 || options.keep < 0 || options.keep > options.of)
    fail_pruning("keep is " + std::to_string(options.keep) + " of " + std::to_string(options.of) +
                 "; want 0 to `of`, which is 1 or more");
}

[[noreturn]] void fail_pending(const std::string& path) {
  fail_pruning("'" + path + "' has no shape before the first call of its layer; call the module once");
}

bool is_prunable(const Layer& layer, const ModuleNode::Entry& entry) {
  const std::string& name = layer.info().name;
  return entry.array.ndim() >= 2 && name.find("Embedding") == std::string::npos &&
         name.find("Position") == std::string::npos;
}

// The weights of the library's layers in a module, each once.
class PrunableWeights {
 public:
  void walk(const Module& module, const std::string& path) {
    const ModuleNode& node = ModuleNode::of(module);
    if (!visited_.insert(&node).second) return;
    const Layer* const layer = module.as_layer();
    for (const ModuleNode::Entry& entry : node.entries) {
      const std::string name = path + entry.name;
      if (entry.module) {
        walk(*entry.module, name + ".");
      } else if (layer && entry.kind == ModuleNode::Kind::parameter) {
        if (entry.pending) fail_pending(name);
        if (is_prunable(*layer, entry)) add(name, entry.array);
      }
    }
  }
  std::vector<Parameter> take() { return std::move(found_); }

 private:
  void add(const std::string& path, const NDArray& array) {
    for (const Parameter& one : found_)
      if (nn_detail::is_same(one.value, array)) return;
    found_.push_back({path, array});
  }
  std::unordered_set<const ModuleNode*> visited_;
  std::vector<Parameter> found_;
};

std::vector<Parameter> pruned_parameters(const Module& net, const std::vector<std::string>& only) {
  if (only.empty()) {
    PrunableWeights weights;
    weights.walk(net, "");
    return weights.take();
  }
  std::vector<Parameter> all, wanted;  // undefined: of a layer that was not called
  const auto add = [&](const std::string& path, const ModuleNode::Entry& entry) {
    if (entry.kind == ModuleNode::Kind::parameter)
      all.push_back({path, entry.pending ? NDArray() : entry.array});
  };
  nn_detail::visit_entries(ModuleNode::of(net), add);
  for (const std::string& path : only) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == path; });
    if (found == all.end()) fail_pruning("only: there is no parameter '" + path + "'");
    if (!found->value.defined()) fail_pending(path);
    for (const Parameter& one : wanted)
      if (nn_detail::is_same(one.value, found->value)) fail_pruning("only: '" + path + "' is listed twice");
    wanted.push_back(*found);
  }
  return wanted;
}

// The weights of transposed convolutions in a module, (in, out / groups, kernel...), and their groups.
class TransposedWeights {
 public:
  explicit TransposedWeights(const Module& root) { walk(root); }
  // 0: it is none of them.
  std::int64_t groups_of(const NDArray& array) const {
    for (const auto& [weight, groups] : found_)
      if (nn_detail::is_same(weight, array)) return groups;
    return 0;
  }

 private:
  void walk(const Module& module) {
    const ModuleNode& node = ModuleNode::of(module);
    if (!visited_.insert(&node).second) return;
    const Layer* const layer = module.as_layer();
    const bool transposed = layer && layer->info().name.starts_with("ConvTranspose");
    for (const ModuleNode::Entry& entry : node.entries) {
      if (entry.module) walk(*entry.module);
      if (transposed && entry.name == "weight") found_.emplace_back(entry.array, groups_in(*layer));
    }
  }
  static std::int64_t groups_in(const Layer& layer) {
    const OperatorValues values = layer.arguments();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (layer.info().arguments[i].name == "groups") return std::get<std::int64_t>(values[i]);
    return 1;
  }
  std::unordered_set<const ModuleNode*> visited_;
  std::vector<std::pair<NDArray, std::int64_t>> found_;
};

// False for the first round(sparsity * n) in the order of magnitudes, of equal ones those in front; NaN counts as infinite.
NDArray smallest_are_zero(const NDArray& magnitudes, double sparsity) {
  const std::int64_t size = magnitudes.size();
  const auto zeros_wanted =
      std::min(size, static_cast<std::int64_t>(std::llround(sparsity * static_cast<double>(size))));
  if (zeros_wanted == 0) return ones({size}, DType::boolean, magnitudes.device());
  const NDArray x = where(isnan(magnitudes), std::numeric_limits<double>::infinity(), magnitudes);
  const auto [last, place] = kthvalue(x, zeros_wanted, 0, true);
  const DType index = size <= std::numeric_limits<std::int32_t>::max() ? DType::i32 : DType::i64;
  const NDArray behind = greater(arange(size, index, magnitudes.device()), place.astype(index));
  return logical_or(greater(x, last), logical_and(equal(x, last), behind));
}

NDArray flat_magnitudes(const NDArray& weight) {
  return reshape(abs(weight.detach().astype(DType::f32)), {weight.size()});
}

// A mask with the shape of `weight`: in each group of `of` adjacent elements along `axis` the `keep` elements of largest magnitude
// are ones, the others zeros.
NDArray neighbours_mask(const NDArray& weight, int axis, std::int64_t keep, std::int64_t of) {
  const NDArray last = moveaxis(abs(weight.detach().astype(DType::f32)), axis, weight.ndim() - 1);
  const NDArray groups = reshape(last, {weight.size() / of, of});
  const NDArray ranks = argsort(argsort(groups, 1), 1);  // 0: the smallest
  const NDArray mask = greater_equal(ranks, of - keep).astype(weight.dtype());
  return moveaxis(reshape(mask, last.shape()), weight.ndim() - 1, axis).contiguous();
}

}  // namespace

std::int64_t PruningReport::zeros() const {
  std::int64_t sum = 0;
  for (const Row& row : rows) sum += row.zeros;
  return sum;
}
std::int64_t PruningReport::size() const {
  std::int64_t sum = 0;
  for (const Row& row : rows) sum += row.size;
  return sum;
}
double PruningReport::sparsity() const {
  return size() == 0 ? 0 : static_cast<double>(zeros()) / static_cast<double>(size());
}
std::string PruningReport::to_string() const {
  std::string text;
  const auto line = [&](const std::string& path, std::int64_t zeros, std::int64_t size) {
    char share[16];
    std::snprintf(share, sizeof share, "%5.1f %%",
                  size == 0 ? 0.0 : 100.0 * static_cast<double>(zeros) / static_cast<double>(size));
    text += std::string(share) + " of " + std::to_string(size) + " are 0: " + path + "\n";
  };
  for (const Row& row : rows) line(row.path, row.zeros, row.size);
  line("all", zeros(), size());
  return text;
}

Pruning::Pruning(Module& net, const PruningOptions& options, Where where) : options_(options) {
  const CallSite site(where);
  check_pruning(options);
  const NoGrad no_grad;
  const std::vector<Parameter> all = pruned_parameters(net, options.only);
  if (all.empty()) fail_pruning("there are no weights of the library's layers; name some in `only`");
  const TransposedWeights transposed(net);
  for (const auto& [path, array] : all) {
    const std::int64_t groups = transposed.groups_of(array);
    const int axis = groups > 0 ? 0 : 1;
    if (options.of > 0 &&
        (array.ndim() < 2 || array.shape()[axis] / std::max<std::int64_t>(groups, 1) % options.of != 0))
      fail_pruning("'" + path + "' is " + array.shape().to_string() + "; want a multiple of " +
                   std::to_string(options.of) + " along axis " + std::to_string(axis) +
                   (groups > 1 ? " in each of " + std::to_string(groups) + " groups" : "") +
                   ", or other paths in `only`");
    weights_.push_back(array.detach());
    input_axes_.push_back(axis);
  }
  for (const auto& [path, array] : all) masks_.push_back({path, ones_like(array.detach())});
  prune(options.sparsity);
}

void Pruning::prune(double sparsity, Where where) {
  const CallSite site(where);
  check_sparsity("sparsity", sparsity);
  const NoGrad no_grad;
  std::vector<NDArray> masks;
  if (options_.of > 0) {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      masks.push_back(neighbours_mask(weights_[i], input_axes_[i], options_.keep, options_.of));
  } else if (!options_.global) {
    for (const NDArray& weight : weights_)
      masks.push_back(smallest_are_zero(flat_magnitudes(weight), sparsity));
  } else {
    std::vector<NDArray> all;
    for (const NDArray& weight : weights_) all.push_back(flat_magnitudes(weight));
    const NDArray mask = smallest_are_zero(all.size() == 1 ? all[0] : concat(all, 0), sparsity);
    std::int64_t begin = 0;
    for (const NDArray& weight : weights_) {
      masks.push_back(mask.slice(0, {begin, begin + weight.size()}));
      begin += weight.size();
    }
  }
  set_masks(masks);
  apply();
}

// Moves the masks of weights that Module::to() has moved.
void Pruning::follow() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Device device = weights_[i].device();
    if (masks_[i].value.device() == device) continue;
    if (is_capturing())
      throw Error(with_call_site("Pruning: the first call after the weight '" + masks_[i].name +
                                 "' came to " + device.to_string() +
                                 ", where its mask follows, must come before a capture"));
    nn_detail::move_arrays({masks_[i].value}, device);
  }
}

void Pruning::set_masks(const std::vector<NDArray>& masks) {
  for (std::size_t i = 0; i < masks.size(); ++i)
    masks_[i].value.assign(reshape(masks[i], masks_[i].value.shape()));
}

void Pruning::apply(Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  follow();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    weights_[i].assign(heddle::where(not_equal(masks_[i].value, 0), weights_[i], 0));
}

void Pruning::keep_zeros(Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) masks_[i].value.assign(not_equal(weights_[i], 0));
}

std::map<std::string, NDArray> Pruning::state(Where where) const {
  const CallSite site(where);
  std::map<std::string, NDArray> all;
  for (const auto& [path, mask] : masks_) all[path] = mask.astype(DType::boolean);
  return all;
}

void Pruning::set_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  for (const auto& [path, mask] : masks_) {
    const auto found = state.find(path);
    if (found == state.end()) throw InvalidArgument("Pruning::set_state: the mask '" + path + "' is missing");
    if (!found->second.defined() || found->second.shape() != mask.shape())
      throw InvalidArgument("Pruning::set_state: the mask '" + path + "' is " +
                            (found->second.defined() ? found->second.shape().to_string() : "undefined") +
                            "; want " + mask.shape().to_string());
    if (found->second.dtype() != DType::boolean)
      throw InvalidArgument("Pruning::set_state: the mask '" + path + "' is " +
                            name_of(found->second.dtype()) + "; want bool, as state() has it");
  }
  for (const auto& [path, mask] : state)
    if (std::none_of(masks_.begin(), masks_.end(), [&](const auto& one) { return one.name == path; }))
      throw InvalidArgument("Pruning::set_state: what is '" + path + "'?");
  for (const auto& [path, mask] : masks_) mask.assign(state.at(path).detach().copy_to(mask.device()));
}

std::string Pruning::missing_in(const Module& net) const {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    bool found = false;
    nn_detail::visit_parameters(net, [&](const std::string&, const NDArray& array) {
      found = found || nn_detail::is_same(weights_[i], array.detach());
    });
    if (!found) return masks_[i].name;
  }
  return {};
}

PruningReport Pruning::report(Where where) const {
  const CallSite site(where);
  const NoGrad no_grad;
  std::vector<NDArray> counts;
  for (const NDArray& weight : weights_) counts.push_back(count_nonzero(weight));
  PruningReport report;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    report.rows.push_back(
        {masks_[i].name, weights_[i].size() - counts[i].item<std::int64_t>(), weights_[i].size()});
  return report;
}

PruningReport prune(Module& net, const PruningOptions& options, Where where) {
  const CallSite site(where);
  return Pruning(net, options, where).report(where);
}

double GradualSparsity::at(std::int64_t step) const {
  if (step <= begin) return step < begin ? 0 : initial_sparsity;
  if (step >= end) return final_sparsity;
  const double rest = 1 - static_cast<double>(step - begin) / static_cast<double>(end - begin);
  return final_sparsity + (initial_sparsity - final_sparsity) * rest * rest * rest;
}

}  // namespace heddle
