// The rule "add": a push adds its sum times grad_scale to the stored value.
#pragma once

#include <heddle/kvstore.h>

namespace heddle {

// Throws InvalidArgument for a grad_scale that is not finite, or that is not 1 for integers and bools.
void check_add(KVStore::Key key, DType dtype, const UpdateOptions& options);

// value += sum * scale, in place. f16 and bf16 are computed as f32, and rounded once.
void add_pushed(const NDArray& value, const NDArray& sum, double scale);
// Adds rows * scale to those rows of `value`, in place. Throws InvalidArgument unless `value` is contiguous
// and, for f16 and bf16 with a scale other than 1, on a cpu(i).
void add_pushed(const NDArray& value, const RowSparse& rows, double scale);

}  // namespace heddle
