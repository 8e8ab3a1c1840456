// Reverse-mode differentiation over a tape. An operator, or a member of NDArray that computes or views, records itself
// when one of its inputs needs a gradient. backward() walks the tape in reverse and pushes the gradient ops, those of
// the last layer first.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle {

// Makes `array` a leaf whose gradient backward() accumulates. Floating dtypes only; throws InvalidArgument.
void set_requires_grad(NDArray& array, bool on = true);
bool requires_grad(const NDArray& array);  // a leaf, or computed from one

// The accumulated gradient: undefined before the first backward(), and while it is row-sparse. Same shape, dtype and
// device as the array.
NDArray grad(const NDArray& array);
// The same of a leaf that was only used by operators with a row-sparse gradient. Once a dense gradient is added to it,
// this one is undefined and grad() is the sum. So at most one of the two is defined.
RowSparse row_sparse_grad(const NDArray& array);
void clear_grad(const NDArray& array);  // both

// Lends memory for the leaf's next gradient, for example memory that other ranks reach: contiguous, with a storage of
// its own, else like the leaf. An operator that uses make_gradient() computes the gradient there and overwrites the
// memory; others ignore it. An error on the memory stays until it is cleared or overwritten. A loan is for one
// gradient. Lending an undefined array ends it, and so does a backward() that reads the memory. Throws InvalidArgument.
void lend_gradient_memory(const NDArray& leaf, const NDArray& memory);

// Adds d(root)/d(leaf) to the gradient of every leaf that root was computed from. `seed` is d(loss)/d(root), of
// root's shape; by default root must have one element and seed is 1. Returns when all ops are pushed. The tape is
// freed on the way unless `keep_tape`; a second backward over a freed tape throws Error. Throws Error if an
// array saved for the gradient was changed after it was recorded. Ops of an operator's gradient name the place of its
// forward call, and those that add gradients `where`.
void backward(const NDArray& root, const NDArray& seed = {}, bool keep_tape = false,
              Where where = Where::current());

// While a NoGrad lives, operators called on its thread record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

// For operators: computes the gradients of the inputs (an undefined array where none is needed) from the output's. Runs
// on the thread that calls backward(), under NoGrad.
using Backward = std::function<std::vector<NDArray>(const NDArray& grad_output)>;

// For an operator whose Backward runs on this thread: a contiguous array of undetermined values for the gradient of
// input `index`, on the device and engine of `like`. Its memory is what was lent for that gradient, or new.
NDArray make_gradient(std::size_t index, const NDArray& like);

// For operators with one input that use only a part of it: adds that part's gradient into `whole`, the gradient of the
// whole input so far, contiguous and with the input's shape and dtype. All parts of an input share one `whole`.
using AddGradient = std::function<void(const NDArray& grad_output, const NDArray& whole)>;

// For operators whose gradient for their input is row-sparse.
using RowSparseBackward = std::function<RowSparse(const NDArray& grad_output)>;

// True if an operator with these inputs has to record itself now. An undefined input needs no gradient.
bool recording(std::initializer_list<const NDArray*> inputs);

// Puts an operator on the tape: `output` was computed from `inputs`; `saved` are the arrays that `backward` captured
// (detached), checked for changes before it runs. Errors name the outermost library call, as with array_push.
void record(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
            Backward backward, Where where = Where::current());
void record_part(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 AddGradient add, Where where = Where::current());
// Throws InvalidArgument, naming `name`, if the input is no leaf.
void record_rows(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 RowSparseBackward backward, Where where = Where::current());

}  // namespace heddle
