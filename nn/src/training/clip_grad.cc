#include <heddle/clip_grad.h>

namespace heddle {
namespace {

std::vector<NDArray> leaves_of(const char* call, const std::vector<Parameter>& parameters) {
  std::vector<NDArray> leaves;
  for (const Parameter& parameter : parameters) {
    if (!parameter.value.defined())
      throw InvalidArgument(std::string(call) + ": parameter '" + parameter.name + "' is an undefined array");
    leaves.push_back(parameter.value);
  }
  return leaves;
}

}  // namespace

NDArray clip_grad_norm(const std::vector<Parameter>& parameters, double max_norm, const ClipOptions& options,
                       Where where) {
  const CallSite site(where);
  return clip_grad_norm(leaves_of("clip_grad_norm", parameters), max_norm, options, where);
}

void clip_grad_value(const std::vector<Parameter>& parameters, double max_value, Where where) {
  const CallSite site(where);
  clip_grad_value(leaves_of("clip_grad_value", parameters), max_value, where);
}

}  // namespace heddle
