#include "server/state/state_size.h"

#include <heddle/ops.h>
#include <heddle/optimizer.h>

namespace heddle::kv_detail {

// Finds the size of an optimizer's state by an update of a weight of two elements.
StateSize state_size(const UpdateRule& rule, DType dtype) {
  StateSize size;
  if (rule.kind != UpdateRule::Kind::optimizer) return size;
  constexpr std::int64_t kProbe = 2;
  try {
    const auto optimizer = create_optimizer(rule.name, rule.params);
    optimizer->update(0, zeros({kProbe}, dtype), zeros({kProbe}, dtype), {.lr = 0});
    for (const auto& [name, array] : optimizer->state()) {
      if (array.size() == kProbe) {
        size.of_element += size_of(array.dtype());
      } else {
        size.of_value += static_cast<std::uint64_t>(array.size()) * size_of(array.dtype());
      }
    }
  } catch (const InvalidArgument&) {  // ignored: the first push will throw this error again
    return {};
  }
  return size;
}

}  // namespace heddle::kv_detail
