#include <string>

#include <heddle/autograd.h>
#include <heddle/into.h>

#include "autograd/tape.h"
#include "core/operator.h"
#include "families/in_place/in_place.h"

namespace heddle::operators_detail {

bool same_elements(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.dtype() == b.dtype() && same_view(a, b);
}

OutputCall::OutputCall(const char* function, const NDArray& out) : function_(function), out_(out) {
  check_arrays(function, {&out});
  check_target(function, out);
  if (recording({&out})) refuse_recording(function);
}

void OutputCall::reads(const NDArray& input) {
  if (!input.defined()) return;  // the operator throws for an undefined input
  if (recording({&input})) refuse_recording(function_);
  if (input.storage() == out_.storage()) lends_ = false;
}

void OutputCall::lend() {
  if (lends_ && out_.is_contiguous()) loan_.lend(out_);
}

void OutputCall::complete(const NDArray& result) {
  check_arrays(function_, {&out_, &result});
  // A new leaf, such as an initial weight, is accepted as the result: it requires a gradient, but no operator
  // has recorded it.
  const bool is_leaf = requires_grad(result) && meta_of(result)->leaf;
  if (recording({&result}) && !is_leaf) refuse_recording(function_);
  if (result.shape() != out_.shape()) {
    throw InvalidArgument(std::string(function_) + ": out has shape " + out_.shape().to_string() +
                          ", the result " + result.shape().to_string());
  }
  check_result_fits(function_, result.dtype(), out_);
  if (!same_elements(result, out_)) out_.assign(result.detach());
}

}  // namespace heddle::operators_detail
