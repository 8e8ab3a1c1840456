// Reverse-mode differentiation over a tape. An operator, or a member of NDArray that computes or views, records itself
// when one of its inputs needs a gradient;
// backward() walks the tape in reverse and pushes the gradient ops, the last layer's first.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// Makes `array` a leaf whose gradient backward() accumulates. Floating dtypes only; throws InvalidArgument.
void set_requires_grad(NDArray& array, bool on = true);
bool requires_grad(const NDArray& array);  // a leaf, or computed from one

// The accumulated gradient: undefined before the first backward(). Same shape, dtype and device as the array.
NDArray grad(const NDArray& array);
void clear_grad(const NDArray& array);

// Lends memory for the leaf's next gradient, say where other ranks reach it: like the leaf, contiguous, a storage of its
// own. If the operator that gives it can (make_gradient, below) it is computed there: what lies there is overwritten, and
// an error on it stays until it is cleared or overwritten. One loan, one gradient; an undefined array takes it back, and so
// does a backward() that reads what lies there. Throws InvalidArgument.
void lend_gradient_memory(const NDArray& leaf, const NDArray& memory);

// Adds d(root)/d(leaf) to the gradient of every leaf that root was computed from. `seed` is d(loss)/d(root), of
// root's shape; by default root must have one element and seed is 1. Returns when all ops are pushed. The tape is
// freed on the way unless `keep_tape`; a second backward over a freed tape throws Error. Throws Error if an
// array saved for the gradient was changed after it was recorded. Ops of an operator's gradient name the place of its
// forward call, and those that add gradients `where`.
void backward(const NDArray& root, const NDArray& seed = {}, bool keep_tape = false,
              Where where = Where::current());

// While one lives, operators called on this thread record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

// For operators: gradients of the inputs (an undefined array where none is needed) from that of the output. Runs
// on the thread that calls backward(), under NoGrad.
using Backward = std::function<std::vector<NDArray>(const NDArray& grad_output)>;

// For operators whose Backward is running on this thread: an undetermined contiguous array for the gradient of input
// `index`, on the device and engine of `like`: in memory lent for it that is free, or new.
NDArray make_gradient(std::size_t index, const NDArray& like);

// For operators with one input that each give a gradient to a part of it: adds that part into `whole`, which has the
// input's shape and dtype, is contiguous, and holds the gradients of its other uses. Many parts share one `whole`.
using AddGradient = std::function<void(const NDArray& grad_output, const NDArray& whole)>;

// True if an operator with these inputs has to record itself now; an undefined one needs no gradient.
bool recording(std::initializer_list<const NDArray*> inputs);

// Puts an operator on the tape: `output` was computed from `inputs`; `saved` are the arrays that `backward` captured
// (detached), checked for changes before it runs. The place of the call is known as array_push knows it.
void record(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
            Backward backward, Where where = Where::current());
void record_part(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 AddGradient add, Where where = Where::current());

}  // namespace heddle
