#include <string>

#include <heddle/autograd.h>
#include <heddle/embedding.h>

#include "autograd/view_gradient.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/kernels.h"
#include "families/indexing/places.h"
#include "families/row_sparse/row_sparse.h"

namespace heddle {

using namespace operators_detail;

namespace {

Shape embedded_shape(const Shape& weight, const Shape& indices) {
  if (weight.size() == 0) throw InvalidArgument("embedding: a weight of shape () has no rows");
  if (weight.size() - 1 + indices.size() > kMaxDims) {
    throw InvalidArgument("embedding: shapes " + weight.to_string() + " and " + indices.to_string() +
                          " make more than " + std::to_string(kMaxDims) + " dimensions");
  }
  Shape shape = indices;
  for (int d = 1; d < weight.size(); ++d) shape.push_back(weight[d]);
  return shape;
}

void record_embedding(NDArray& y, const NDArray& weight, const NDArray& at, bool sparse) {
  if (!recording({&weight})) return;
  if (!sparse) {
    return record_part(
        "embedding", y, weight, {at},
        [at](const NDArray& g, const NDArray& whole) { add_taken(g, at, whole, 0); },
        [at](const NDArray& like_weight) { return embedding(like_weight, at); });
  }
  record_rows("embedding", y, weight, {at}, [at, shape = weight.shape()](const NDArray& g) {
    return push_row_sparse("embedding_gradient", "embedding", at, g, shape);
  });
}

}  // namespace

NDArray embedding(const NDArray& weight, const NDArray& indices, EmbeddingOptions options, Where where) {
  const CallSite site(where);
  check_arrays("embedding", {&weight, &indices});
  check_indices("embedding", "indices", indices);
  const Shape shape = embedded_shape(weight.shape(), indices.shape());
  auto* kernel = kernel_for<EmbeddingKernel>("embedding", weight);
  const NDArray source = weight.detach().contiguous(), at = indices.detach();
  NDArray y = make_result(weight, shape, weight.dtype());
  record_embedding(y, weight, at, options.sparse_grad);
  array_push("embedding", {source, at}, {y},
             [=, y = y.detach()](const KernelContext& context) { kernel(context, source, at, y); });
  return y;
}

HEDDLE_OPERATORS(embedding) {
  table.family("Neural networks");
  table.add("embedding",
            +[](const NDArray& weight, const NDArray& indices, bool sparse_grad, Where where) {
              return embedding(weight, indices, {.sparse_grad = sparse_grad}, where);
            },
            {"The rows of weight (n, d...) at indices from 0 to n - 1, of any shape. With `sparse_grad` the "
             "gradient of weight is row-sparse.",
             {"weight", {"indices", DTypes::integers}, {"sparse_grad", false}},
             "that of weight",
             kDifferentiable});
}

}  // namespace heddle
