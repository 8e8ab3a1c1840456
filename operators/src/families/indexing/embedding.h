// Shared by embedding and embedding_bag.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/embedding.h>

#include "families/indexing/bag_kernels.h"

namespace heddle::operators_detail {

// A padding index of a table with `rows` rows, counted from 0; -1 for none. Throws InvalidArgument.
std::int64_t padding_row(const char* op, std::optional<std::int64_t> given, std::int64_t rows);

// The row-sparse gradient of a table of `shape` from that of the bags, for sum and mean. sample_weights may be undefined.
RowSparse push_bag_rows(const char* name, const BagProblem& problem, const NDArray& gradient,
                        const NDArray& indices, const NDArray& sample_weights, const Shape& shape);

// embedding() in the name of `op`, a string literal, for the errors of its op too.
NDArray embedding_of(const char* op, const NDArray& weight, const NDArray& indices,
                     const EmbeddingOptions& options);

}  // namespace heddle::operators_detail
