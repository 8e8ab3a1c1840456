// The rule "add": a push adds its sum times grad_scale to what is stored.
#pragma once

#include <heddle/kvstore.h>

namespace heddle {

// Throws InvalidArgument for a scale that is not finite, and for any but 1 of what is stored in integers or bools.
void check_add(KVStore::Key key, DType dtype, const UpdateOptions& options);

// value += sum * scale, in place. Halves are computed as f32, and rounded once.
void add_pushed(const NDArray& value, const NDArray& sum, double scale);
// The same for some rows. value: contiguous, and for halves with a scale on a cpu(i); throws InvalidArgument.
void add_pushed(const NDArray& value, const RowSparse& rows, double scale);

}  // namespace heddle
