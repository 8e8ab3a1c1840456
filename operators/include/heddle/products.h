// Products of arrays other than matmul: of vectors, along chosen axes, and sums of products in Einstein's
// notation.
//
// Results have the common dtype of the arguments; f16 and bf16 are computed as f32, products of bools are
// "and", their sums "or". Shapes that do not fit throw InvalidArgument at the call. Floating arguments get
// gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// The sum of a * b along `axis`, which has the same size in a and b; the other axes broadcast.
NDArray vecdot(const NDArray& a, const NDArray& b, int axis = -1, Where at = Where::current());

// NumPy's dot: the sum over the last axis of a and the last but one of b (or the only axis of a b with one
// axis). A scalar argument is multiplied with the other one.
NDArray dot(const NDArray& a, const NDArray& b, Where at = Where::current());

// The sum of products over the last axis of a and the last axis of b. A scalar argument is multiplied with
// the other one.
NDArray inner(const NDArray& a, const NDArray& b, Where at = Where::current());

// Shape (a.size(), b.size()): the products of each element of a with each of b.
NDArray outer(const NDArray& a, const NDArray& b, Where at = Where::current());

// Kronecker's product. The array with fewer axes gets leading axes of size 1; a and b have at most four axes.
NDArray kron(const NDArray& a, const NDArray& b, Where at = Where::current());

// The vector product along `axis`, of size 3 in a and b; the other axes broadcast. No bools.
NDArray cross(const NDArray& a, const NDArray& b, int axis = -1, Where at = Where::current());

// The sum of products over the last `axes` axes of a and the first `axes` axes of b; in the second overload
// over pairs of axes, a_axes[i] of a and b_axes[i] of b. The other axes of a come first in the result, then
// those of b.
NDArray tensordot(const NDArray& a, const NDArray& b, std::int64_t axes = 2, Where at = Where::current());
NDArray tensordot(const NDArray& a, const NDArray& b, Dims a_axes, Dims b_axes, Where at = Where::current());

// The sum of products that `equation` names, such as "ij,jk->ik" or "...ij->...ji": a letter for each axis of
// each operand, "..." for axes that broadcast. A letter that the result lacks is summed; a letter that an
// operand has twice selects its diagonal. Without "->" the result has "..." and then the letters that occur
// once, in alphabetical order. An axis of size 1 broadcasts. Three operands or more are multiplied in pairs,
// each time the pair that leaves the fewest elements. With one operand and no sum the result is a view:
// "ij->ji", "ii->i".
NDArray einsum(const std::string& equation, const std::vector<NDArray>& operands,
               Where at = Where::current());

}  // namespace heddle
