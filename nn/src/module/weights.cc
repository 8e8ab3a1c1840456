#include <algorithm>
#include <set>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/call_site.h>
#include <heddle/name_pattern.h>
#include <heddle/npz.h>
#include <heddle/readable_safetensors.h>
#include <heddle/weights.h>

namespace heddle {

namespace {

void add_line(std::string& text, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += (text.empty() ? "" : "\n") + std::string(title) + ": ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
}

[[noreturn]] void fail(const std::string& problem) { throw InvalidArgument("load_weights: " + problem); }

// The key of `rename` that fits a name: the longest one; null: none.
const std::pair<const std::string, std::string>* rule_of(const std::map<std::string, std::string>& rename,
                                                         const std::string& name) {
  for (std::size_t end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1)) {
    if (const auto found = rename.find(name.substr(0, end)); found != rename.end()) return &*found;
  }
  const auto of_all = rename.find("");
  return of_all == rename.end() ? nullptr : &*of_all;
}

std::string renamed(const std::string& name, const std::pair<const std::string, std::string>& rule) {
  const auto& [from, to] = rule;
  if (from.empty()) return to.empty() ? name : to + "." + name;
  const std::string rest = name.substr(from.size());  // begins with a dot, or is empty
  return to.empty() && !rest.empty() ? rest.substr(1) : to + rest;
}

bool is_ignored(const WeightOptions& options, const std::string& name) {
  return std::any_of(options.ignore.begin(), options.ignore.end(),
                     [&](const std::string& pattern) { return fits_pattern(pattern, name); });
}

// An array, and the name that it is given; or the dtype of one that cannot be read.
struct Given {
  std::string name;
  NDArray array{};
  std::string dtype{};
};

// The arrays by the names that a network has for them.
std::map<std::string, Given> given_by_name(const std::map<std::string, NDArray>& arrays,
                                           const WeightOptions& options) {
  std::map<std::string, Given> all;
  std::set<std::string> used;
  const auto add = [&](const std::string& name, Given one) {
    const auto* const rule = rule_of(options.rename, name);
    if (rule) used.insert(rule->first);
    if (is_ignored(options, name)) return;
    const std::string wanted = rule ? renamed(name, *rule) : name;
    const auto [place, is_new] = all.try_emplace(wanted, std::move(one));
    if (!is_new) fail("'" + place->second.name + "' and '" + name + "' are both renamed to '" + wanted + "'");
  };
  for (const auto& [name, array] : arrays) add(name, {.name = name, .array = array});
  for (const auto& [name, dtype] : options.unreadable) add(name, {.name = name, .dtype = dtype});
  for (const auto& [from, to] : options.rename)
    if (!used.contains(from)) fail("rename has '" + from + "', which no name of an array begins with");
  return all;
}

// Floating point is rounded; integers and bool keep their values.
bool fits(DType given, DType wanted) {
  if (is_floating(given) || is_floating(wanted)) return is_floating(given) == is_floating(wanted);
  return promote(given, wanted) == wanted;
}

}  // namespace

std::string WeightReport::to_string() const {
  if (complete()) return "all weights fit";
  std::string text;
  add_line(text, "missing", missing);
  add_line(text, "unexpected", unexpected);
  add_line(text, "of another shape", other_shape);
  add_line(text, "of another dtype", other_dtype);
  return text;
}

WeightReport load_weights(const std::vector<Parameter>& parameters,
                          const std::map<std::string, NDArray>& arrays, const WeightOptions& options,
                          Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  const std::map<std::string, Given> given = given_by_name(arrays, options);
  WeightReport report;
  std::set<std::string> wanted;
  std::vector<std::pair<NDArray, NDArray>> fitting;
  for (const auto& [name, value] : parameters) {
    wanted.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) {
      report.missing.push_back(name);
      continue;
    }
    const NDArray& array = found->second.array;
    if (value.defined() && !found->second.dtype.empty()) {
      report.other_dtype.push_back(name + ": " + found->second.dtype + ", wanted " + name_of(value.dtype()));
      continue;
    }
    if (!array.defined() || !value.defined())
      ndarray_detail::refuse_undefined(("load_weights: '" + name + "'").c_str());
    if (array.shape() != value.shape()) {
      report.other_shape.push_back(name + ": " + array.shape().to_string() + ", wanted " +
                                   value.shape().to_string());
    } else if (!fits(array.dtype(), value.dtype())) {
      report.other_dtype.push_back(name + ": " + name_of(array.dtype()) + ", wanted " +
                                   name_of(value.dtype()));
    } else {
      fitting.emplace_back(value, array.detach());
    }
  }
  for (const auto& [name, one] : given)
    if (!wanted.contains(name))
      report.unexpected.push_back(one.name == name ? name : one.name + ", as " + name);
  if (options.strict && !report.complete()) fail(report.to_string());
  // Parameters may exchange their values: those that are read here are as they were before.
  std::set<const Storage*> changed;
  for (const auto& [value, array] : fitting) changed.insert(value.storage().get());
  for (auto& [value, array] : fitting)
    if (changed.contains(array.storage().get())) array = array.copy();
  for (auto& [value, array] : fitting) value.assign(array);
  return report;
}

WeightReport load_weights(const Module& net, const std::string& path, const WeightOptions& options,
                          Where where) {
  const CallSite site(where);
  if (path.ends_with(".npz")) return load_weights(net.state(), load_npz(path), options);
  const ndarray_detail::ReadableSafetensors file = ndarray_detail::map_readable_safetensors(path);
  WeightOptions all = options;
  all.unreadable.insert(file.unreadable.begin(), file.unreadable.end());
  return load_weights(net.state(), file.arrays, all);
}

}  // namespace heddle
