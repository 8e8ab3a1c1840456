// Sums of products of arrays with labelled axes, for einsum and tensordot.
#pragma once

#include <functional>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Axis i of the array has the label labels[i]; no label occurs twice.
struct Labelled {
  NDArray array;
  std::vector<int> labels;
};

// The product of a and b, summed over all labels but those for which kept() is true. Axes of one label have
// the same size in a and b, or size 1 in one of them, which broadcasts. a and b have one dtype, not f16 or
// bf16; sums of integers may come as i64. The result's axes: those of both, then those of a alone, then those
// of b alone.
Labelled contract(Labelled a, Labelled b, const std::function<bool(int label)>& kept);

// x summed over all labels but those for which kept() is true.
Labelled summed(Labelled x, const std::function<bool(int label)>& kept);

}  // namespace heddle::operators_detail
