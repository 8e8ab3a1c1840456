#include "families/indexing/embedding.h"

#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/embedding.h>
#include <heddle/shape_ops.h>

#include "autograd/view_gradient.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/kernels.h"
#include "families/indexing/places.h"
#include "families/row_sparse/row_sparse.h"

namespace heddle {

using namespace operators_detail;

namespace {

Shape embedded_shape(const char* op, const Shape& weight, const Shape& indices) {
  if (weight.size() == 0) throw InvalidArgument(std::string(op) + ": a weight of shape () has no rows");
  if (weight.size() - 1 + indices.size() > kMaxDims) {
    throw InvalidArgument(std::string(op) + ": shapes " + weight.to_string() + " and " + indices.to_string() +
                          " make more than " + std::to_string(kMaxDims) + " dimensions");
  }
  Shape shape = indices;
  for (int d = 1; d < weight.size(); ++d) shape.push_back(weight[d]);
  return shape;
}

// The rows y of a table at `at`, with 0 for those of index `padding`; y itself without such an index.
NDArray without_padding(const NDArray& y, const NDArray& at, std::int64_t padding) {
  if (padding < 0) return y;
  Shape of_rows = at.shape();
  while (of_rows.size() < y.ndim()) of_rows.push_back(1);
  return where(reshape(equal(at, padding), of_rows), 0, y);
}

void record_embedding(NDArray& y, const NDArray& weight, const NDArray& at, bool sparse,
                      std::int64_t padding) {
  if (!recording({&weight})) return;
  if (!sparse) {
    return record_part(
        "embedding", y, weight, {at},
        [=](const NDArray& g, const NDArray& whole) {
          add_taken(without_padding(g, at, padding), at, whole, 0);
        },
        [=](const NDArray& like_weight) { return without_padding(embedding(like_weight, at), at, padding); });
  }
  record_rows("embedding", y, weight, {at}, [=, shape = weight.shape()](const NDArray& g) {
    if (padding < 0) return push_row_sparse("embedding_gradient", "embedding", at, g, shape);
    // Each index is a bag of its own.
    const BagProblem problem{.op = "embedding",
                             .mode = BagMode::sum,
                             .bags = at.size(),
                             .length = 1,
                             .offsets = {},
                             .padding = padding};
    return push_bag_rows("embedding_gradient", problem, g, at, {}, shape);
  });
}

}  // namespace

std::int64_t operators_detail::padding_row(const char* op, std::optional<std::int64_t> given,
                                           std::int64_t rows) {
  if (!given) return -1;
  if (rows == 0)
    throw InvalidArgument(std::string(op) + ": padding_index is " + std::to_string(*given) +
                          " for a weight without rows");
  if (*given < -rows || *given >= rows)
    throw InvalidArgument(std::string(op) + ": padding_index is " + std::to_string(*given) + " for " +
                          std::to_string(rows) + " rows; want " + std::to_string(-rows) + " to " +
                          std::to_string(rows - 1));
  return *given < 0 ? *given + rows : *given;
}

NDArray operators_detail::embedding_of(const char* op, const NDArray& weight, const NDArray& indices,
                                       const EmbeddingOptions& options) {
  check_arrays(op, {&weight, &indices});
  check_indices(op, "indices", indices);
  const Shape shape = embedded_shape(op, weight.shape(), indices.shape());
  const std::int64_t padding = padding_row(op, options.padding_index, weight.shape()[0]);
  auto* kernel = kernel_for<EmbeddingKernel>("embedding", weight);
  const NDArray source = weight.detach().contiguous(), at = indices.detach();
  NDArray y = make_result(weight, shape, weight.dtype());
  record_embedding(y, weight, at, options.sparse_grad, padding);
  array_push(op, {source, at}, {y},
             [=, y = y.detach()](const KernelContext& context) { kernel(context, op, source, at, y); });
  return y;
}

NDArray embedding(const NDArray& weight, const NDArray& indices, EmbeddingOptions options, Where where) {
  const CallSite site(where);
  return embedding_of("embedding", weight, indices, options);
}

HEDDLE_OPERATORS(embedding) {
  table.family("Neural networks");
  table.add("embedding",
            +[](const NDArray& weight, const NDArray& indices, bool sparse_grad,
                std::optional<std::int64_t> padding_index, Where where) {
              return embedding(weight, indices, {.sparse_grad = sparse_grad, .padding_index = padding_index},
                               where);
            },
            {"The rows of weight (n, d...) at indices from 0 to n - 1, of any shape. With `sparse_grad` the "
             "gradient of weight is row-sparse. The row `padding_index` gets no gradient.",
             {"weight", {"indices", DTypes::integers}, {"sparse_grad", false}, {"padding_index", kNone}},
             "that of weight",
             kDifferentiable});
}

}  // namespace heddle
