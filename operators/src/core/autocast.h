// What operators do in an Autocast.
#pragma once

#include <initializer_list>
#include <span>

#include <heddle/autocast.h>
#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// While a PauseAutocast lives, its thread has no Autocast: a backward pass depends on that of the forward pass alone.
class PauseAutocast {
 public:
  PauseAutocast();
  ~PauseAutocast();
  PauseAutocast(const PauseAutocast&) = delete;
  PauseAutocast& operator=(const PauseAutocast&) = delete;

 private:
  AutocastState* outer_;
};

// Whether arrays of several floating dtypes may be multiplied: this thread has an Autocast.
bool mixes_dtypes();

// The dtype in which the product of these arrays is computed: the common dtype, or that of the Autocast if all are f32, f16 or bf16.
// Undefined arrays do not count.
DType product_dtype(std::initializer_list<const NDArray*> arrays);
DType product_dtype(std::span<const NDArray> arrays);

// The array, detached, in a dtype of product_dtype(). A parameter is cast once in an Autocast, until it changes.
NDArray in_product(const NDArray& array, DType dtype);

// Whether the array is a leaf, and no input of a recomputed function, which lives for a call. Defined by the tape.
bool is_lasting_leaf(const NDArray& array);

// Whether kernels of a product of `computed` write gradients of `dtype`: those of halves also write f32.
bool is_written(DType dtype, DType computed);

// The array, or undefined if it is, in a dtype; not recorded on a tape.
NDArray in_dtype(const NDArray& array, DType dtype);

// The array rounded to a dtype of product_dtype(), in its own dtype, or f32 if it is a half; recorded on the tape. It is what
// in_product() stands for in gradients of gradients.
NDArray rounded_to(const NDArray& array, DType dtype);

// What an operator returns that needs f32's range or digits, and has computed y for arrays of `dtype`: y in that dtype; within an
// Autocast y itself.
NDArray narrowed(const NDArray& y, DType dtype);

}  // namespace heddle::operators_detail
