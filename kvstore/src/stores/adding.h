// The rule "add": a push adds its sum times grad_scale to the stored value.
#pragma once

#include <heddle/kvstore.h>

namespace heddle {

// Throws InvalidArgument for a grad_scale that is not finite, or that is not 1 for integers and bools.
void check_add(KVStore::Key key, DType dtype, const UpdateOptions& options);

// value += sum * scale, in place. A value of f16 or bf16 is computed as f32, and rounded once at the end.
void add_pushed(const NDArray& value, const NDArray& sum, double scale);
// Adds the rows in `rows`, times `scale`, to the rows of `value` with the same numbers, in place. Throws
// InvalidArgument unless `value` is contiguous and, for f16 and bf16 with a scale other than 1, on a cpu(i).
void add_pushed(const NDArray& value, const RowSparse& rows, double scale);

}  // namespace heddle
