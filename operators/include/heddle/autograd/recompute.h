// recompute(): trades time for memory. What a part of a network computes is not kept for the backward pass, which
// computes it again instead (Chen et al., arXiv:1604.06174). PyTorch calls it a checkpoint.
//
//   for (Block& block : blocks) x = recompute(block)(x);
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// A function of arrays whose intermediate results are not kept. Made by recompute(). The function runs when it is called
// and, if one of its results has a gradient, again in each backward pass over it: with the same random numbers, so it
// must not depend on anything that changes in between, such as a mode. Running statistics change in the first run only.
// Results and gradients are the same, bit for bit, as without it, if each array is used once by what is outside of it.
class Recomputed {
 public:
  using Arrays = std::vector<NDArray>;
  using Function = std::function<Arrays(const Arrays& inputs)>;
  // Throws InvalidArgument for an empty function.
  explicit Recomputed(Function function, Where where = Where::current());

  // Calls the function. Inputs and the leaves that it uses, such as the parameters of a module, get gradients; a leaf
  // that was changed since is an Error. Throws InvalidArgument if the function uses another array that was computed from
  // one that requires a gradient, or an operator whose gradient is row-sparse. Gradients of these gradients
  // (create_graph) are an Error.
  Arrays run(const Arrays& inputs, Where where = Where::current()) const;
  // As run(), of one array with one result.
  NDArray operator()(const NDArray& input, Where where = Where::current()) const;

 private:
  std::shared_ptr<const Function> function_;
};

// `function` takes a list of arrays and returns one.
inline Recomputed recompute(Recomputed::Function function, Where where = Where::current()) {
  return Recomputed(std::move(function), where);
}
// `function` takes an array and returns one: a module, of which the result has a copy, or any other function.
template <class F>
requires requires(F& function, const NDArray& x) {
  { function(x) } -> std::convertible_to<NDArray>;
}
Recomputed recompute(F function, Where where = Where::current()) {
  return Recomputed(
      [function = std::move(function)](const Recomputed::Arrays& inputs) mutable -> Recomputed::Arrays {
        return {function(inputs.at(0))};
      },
      where);
}

// Whether the calling thread runs a function of recompute() again. A layer that changes an array of its own in each call
// leaves it alone then.
bool is_recomputing() noexcept;

}  // namespace heddle
