#include <set>

#include <heddle/autograd.h>
#include <heddle/call_site.h>
#include <heddle/weights.h>

namespace heddle {

namespace {

void add_line(std::string& text, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += (text.empty() ? "" : "\n") + std::string(title) + ": ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
}

}  // namespace

std::string WeightReport::to_string() const {
  if (complete()) return "all weights fit";
  std::string text;
  add_line(text, "missing", missing);
  add_line(text, "unexpected", unexpected);
  add_line(text, "of another shape", other_shape);
  return text;
}

WeightReport load_weights(const std::vector<Parameter>& parameters,
                          const std::map<std::string, NDArray>& arrays, Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  WeightReport report;
  std::set<std::string> wanted;
  for (const Parameter& parameter : parameters) {
    wanted.insert(parameter.name);
    const auto found = arrays.find(parameter.name);
    if (found == arrays.end()) {
      report.missing.push_back(parameter.name);
      continue;
    }
    if (!found->second.defined() || !parameter.value.defined())
      ndarray_detail::refuse_undefined(("load_weights: '" + parameter.name + "'").c_str());
    if (found->second.shape() != parameter.value.shape()) {
      report.other_shape.push_back(parameter.name + ": " + found->second.shape().to_string() + ", wanted " +
                                   parameter.value.shape().to_string());
    } else {
      NDArray value = parameter.value;
      value.assign(found->second.detach());
    }
  }
  for (const auto& [name, array] : arrays)
    if (!wanted.count(name)) report.unexpected.push_back(name);
  return report;
}

}  // namespace heddle
