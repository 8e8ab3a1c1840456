// Autocast: mixed precision. Products are computed in a 16-bit dtype, and parameters stay f32.
#pragma once

#include <memory>
#include <optional>

#include <heddle/call_site.h>
#include <heddle/dtype.h>

namespace heddle {

namespace operators_detail {
struct AutocastState;
}

// While an Autocast lives, matmul, linear, convolutions, einsum, attention and recurrent networks that its thread calls take f32,
// f16 and bf16 arrays as `dtype`, sum in f32 and give results of `dtype`; losses, softmax, sums and norms of halves give f32.
// Gradients have the dtype of the array that they are of: those of f32 parameters are never rounded to 16 bits. Other dtypes
// are as without. Backward passes need no Autocast. The innermost Autocast of a thread counts. See Micikevicius et al.,
// arXiv:1710.03740.
class Autocast {
 public:
  // bf16, f16, or f32: as without an Autocast, but products take arrays of several floating dtypes. Throws InvalidArgument for
  // another dtype.
  explicit Autocast(DType dtype, Where where = Where::current());
  ~Autocast();  // on the thread that made it; in any order
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  static bool active();                   // whether this thread has an Autocast to bf16 or f16
  static DType dtype();                   // of the innermost Autocast of this thread; f32 if there is none
  static std::optional<DType> current();  // as dtype(), but empty if there is none

 private:
  std::unique_ptr<operators_detail::AutocastState> state_;
};

}  // namespace heddle
