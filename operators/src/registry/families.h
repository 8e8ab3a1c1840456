// The functions that register operators.
#pragma once

namespace heddle::operators_detail {

class OperatorTable;

// Each registers the operators of one file. operator_table.cc calls them all, so that the linker keeps them in programs that
// use the static library.
void register_conv(OperatorTable& table);
void register_creation(OperatorTable& table);
void register_diagonal(OperatorTable& table);
void register_dropout(OperatorTable& table);
void register_elementwise(OperatorTable& table);
void register_elementwise_math(OperatorTable& table);
void register_embedding(OperatorTable& table);
void register_gather_scatter(OperatorTable& table);
void register_in_place(OperatorTable& table);
void register_indexing(OperatorTable& table);
void register_layer_init(OperatorTable& table);
void register_linear(OperatorTable& table);
void register_masked(OperatorTable& table);
void register_matmul(OperatorTable& table);
void register_more_creation(OperatorTable& table);
void register_pad(OperatorTable& table);
void register_pooling(OperatorTable& table);
void register_random(OperatorTable& table);
void register_rearrange(OperatorTable& table);
void register_reductions(OperatorTable& table);
void register_row_sparse(OperatorTable& table);
void register_scan(OperatorTable& table);
void register_searching(OperatorTable& table);
void register_selection(OperatorTable& table);
void register_shape_ops(OperatorTable& table);
void register_softmax(OperatorTable& table);
void register_sorting(OperatorTable& table);
void register_split(OperatorTable& table);
void register_statistics(OperatorTable& table);

}  // namespace heddle::operators_detail
