// One function a file of CPU kernels, each adding that file's kernels. Alphabetical, one a line.
#pragma once

#include "kernels/kernel_table.h"

namespace heddle::cpu_kernels {

void register_argreduce(KernelTable& table);
void register_binary(KernelTable& table);
void register_binary_math(KernelTable& table);
void register_compare(KernelTable& table);
void register_conv(KernelTable& table);
void register_distributions(KernelTable& table);
void register_dropout(KernelTable& table);
void register_gather_scatter(KernelTable& table);
void register_indexing(KernelTable& table);
void register_det(KernelTable& table);
void register_expm(KernelTable& table);
void register_linalg_factors(KernelTable& table);
void register_linalg_solve(KernelTable& table);
void register_masked(KernelTable& table);
void register_matmul(KernelTable& table);
void register_optimizer(KernelTable& table);
void register_pooling(KernelTable& table);
void register_reduce(KernelTable& table);
void register_reduce_nonzero(KernelTable& table);
void register_rounding(KernelTable& table);
void register_row_sparse(KernelTable& table);
void register_scan(KernelTable& table);
void register_search(KernelTable& table);
void register_select(KernelTable& table);
void register_softmax(KernelTable& table);
void register_sort(KernelTable& table);
void register_unary(KernelTable& table);
void register_unary_math(KernelTable& table);
void register_unique(KernelTable& table);

}  // namespace heddle::cpu_kernels
