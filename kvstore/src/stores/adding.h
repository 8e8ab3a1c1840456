// The rule "add": a push adds its sum times grad_scale to what is stored.
#pragma once

#include <heddle/kvstore.h>

namespace heddle {

// Throws InvalidArgument for a scale that is not finite, and for any but 1 of what is stored in integers or bools.
void check_add(KVStore::Key key, DType dtype, const UpdateOptions& options);

// value += sum * scale, in place. Halves are computed as f32, and rounded once.
void add_pushed(const NDArray& value, const NDArray& sum, double scale);
// Adds rows * scale to those rows of `value`, in place. Throws InvalidArgument unless `value` is contiguous, and for halves
// with a scale other than 1 also on a cpu(i).
void add_pushed(const NDArray& value, const RowSparse& rows, double scale);

}  // namespace heddle
