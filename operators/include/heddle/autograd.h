// Reverse-mode differentiation over a tape. An operator, or a member of NDArray that computes or views, records itself
// when one of its inputs needs a gradient. backward() walks the tape in reverse and pushes the gradient ops, those of
// the last layer first.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle {

// Makes `array` a leaf whose gradient backward() accumulates. Floating dtypes only; throws InvalidArgument.
void set_requires_grad(NDArray& array, bool on = true);
bool requires_grad(const NDArray& array);  // whether the array is a leaf, or was computed from one
bool is_leaf(const NDArray& array);        // whether set_requires_grad() has made the array a leaf

// The accumulated gradient: undefined before the first backward(), and while it is row-sparse. Same shape, dtype and
// device as the array.
NDArray grad(const NDArray& array);
// As grad(), for a leaf that was only used by operators with a row-sparse gradient. Once a dense gradient is
// added, it is undefined and grad() is the sum. So at most one of the two is defined.
RowSparse row_sparse_grad(const NDArray& array);
void clear_grad(const NDArray& array);  // clears grad() and row_sparse_grad()

// Lends memory for the leaf's next gradient, for example memory that other ranks reach: contiguous, with a
// storage of its own, else like the leaf. An operator that uses make_gradient() computes the gradient there,
// overwriting the memory; other operators ignore it. An error on the memory stays until it is cleared or
// overwritten. A loan is for one gradient. Lending an undefined array ends the loan, and so does a backward()
// that reads the memory. Throws InvalidArgument.
void lend_gradient_memory(const NDArray& leaf, const NDArray& memory);

struct BackwardOptions {
  NDArray seed = {};  // d(loss)/d(root), of root's shape; undefined: root has one element, and the seed is 1
  bool keep_tape = false;
  // true: the gradients are on the tape, so that results computed from them have gradients. Implies
  // keep_tape. The gradients refer to the tape, the tape refers to the leaves, and the leaves hold the
  // gradients: clear_grad() breaks the cycle. Not for row-sparse gradients.
  bool create_graph = false;
};

// Adds d(root)/d(leaf) to the gradient of every leaf that root was computed from. Returns when all ops are
// pushed. The pass frees the tape unless `keep_tape`; a second backward over a freed tape throws Error.
// Throws Error if an array saved for the gradient was changed after it was recorded, and with create_graph if
// an operator's gradient has no gradient itself: the error names the operator. These errors leave the leaves
// unchanged. Ops of an operator's gradient name the line of its forward call, ops that add gradients name
// `where`.
void backward(const NDArray& root, const BackwardOptions& options = {}, Where where = Where::current());
void backward(const NDArray& root, const NDArray& seed, bool keep_tape, Where where = Where::current());
// A template, so that an argument in braces selects the overload with options.
template <std::convertible_to<NDArray> Seed>
void backward(const NDArray& root, const Seed& seed, Where where = Where::current()) {
  backward(root, BackwardOptions{.seed = seed}, where);
}

struct GradOptions {
  std::vector<NDArray> seeds = {};  // d(loss)/d(output) for each output; empty: all are 1
  bool keep_tape = false;
  bool create_graph = false;  // as in BackwardOptions
  bool allow_unused = false;
};

// d(outputs)/d(inputs), summed over the outputs: an array for each input, of its shape and dtype, contiguous;
// without create_graph in memory of its own. Inputs are leaves or were computed. The gradients that leaves
// hold, and memory lent to them, are unchanged. Throws InvalidArgument, before anything is computed, for an
// input that no output was computed from; with allow_unused its gradient is undefined.
std::vector<NDArray> grad(const std::vector<NDArray>& outputs, const std::vector<NDArray>& inputs,
                          const GradOptions& options = {}, Where where = Where::current());

// Called with the complete gradient of an array in a backward pass; the array that the hook returns replaces
// the gradient; an undefined one leaves the gradient unchanged. A hook may keep its argument and its result,
// since no pass changes them. It must not change its argument in place, since other gradients may share that
// memory. Runs on the thread that calls backward() or grad(), under NoGrad unless create_graph.
using GradientHook = std::function<NDArray(const NDArray& gradient)>;

// Adds a hook to a leaf, or to an array that was computed from one, for all passes to come; hooks run in the
// order in which they were added. The gradient of a leaf with hooks is added to the leaf's gradient at the
// end of a pass. Not for row-sparse gradients. A hook that keeps its array keeps it for ever.
void on_gradient(const NDArray& array, GradientHook hook);

// While a FindNaN lives, backward() and grad() of its thread wait for each gradient, and throw Error at the
// first one that has NaN: the error names the operator, the input and the line of the forward call. For
// debugging: nothing overlaps.
class FindNaN {
 public:
  FindNaN();
  ~FindNaN();
  FindNaN(const FindNaN&) = delete;
  FindNaN& operator=(const FindNaN&) = delete;

 private:
  bool previous_;
};

// While a NoGrad lives, operators called on its thread record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  static bool active();  // whether operators that this thread calls record nothing

 private:
  bool previous_;
};

// For operators: computes the gradients of the inputs (an undefined array if none is needed) from the
// output's. Runs on the thread that calls backward(), under NoGrad; with create_graph the operators that it
// calls are recorded. It may keep the arrays that it returns. A leaf copies them, unless make_gradient() made
// them.
using Backward = std::function<std::vector<NDArray>(const NDArray& grad_output)>;

// Returns the array that a Backward is to capture, detached: an input, the output, or anything else, which
// counts as constant. While create_graph records the Backward, results computed from it depend on that input
// or output. An operator that saves floating arrays without this function has no second gradient.
NDArray save_for_backward(const NDArray& array);

// For an operator whose Backward runs on this thread: a contiguous array of undetermined values for the
// gradient of input `index`, on the device and engine of `like`. Its memory is the memory lent for that
// gradient, or new.
NDArray make_gradient(std::size_t index, const NDArray& like);

// For operators with one input that use only a part of it: adds that part's gradient into `whole`, the gradient of the
// whole input so far, contiguous and with the input's shape and dtype. All parts of an input share one `whole`.
using AddGradient = std::function<void(const NDArray& grad_output, const NDArray& whole)>;
// Applies the operator itself to an array like its input. It is the gradient of AddGradient, and records
// itself on the tape.
using PartOf = std::function<NDArray(const NDArray& like_input)>;

// For operators whose gradient for their input is row-sparse.
using RowSparseBackward = std::function<RowSparse(const NDArray& grad_output)>;

// Whether an operator with these inputs has to record itself now. An undefined input needs no gradient.
bool recording(std::initializer_list<const NDArray*> inputs);

// Puts an operator on the tape: `output` was computed from `inputs`; `saved` are the arrays that `backward` captured
// (detached), checked for changes before it runs. Errors name the outermost library call, as with array_push.
void record(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
            Backward backward, Where where = Where::current());
void record_part(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 AddGradient add, PartOf part = {}, Where where = Where::current());
// As record(), with a row-sparse gradient. Throws InvalidArgument, naming `name`, if the input is no leaf.
void record_rows(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 RowSparseBackward backward, Where where = Where::current());

}  // namespace heddle
