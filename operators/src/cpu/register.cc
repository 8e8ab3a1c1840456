#include "cpu/register.h"

namespace heddle {

void register_cpu_kernels(KernelTable& table) {
  using namespace cpu_kernels;
  register_argreduce(table);
  register_binary(table);
  register_binary_math(table);
  register_compare(table);
  register_conv(table);
  register_distributions(table);
  register_dropout(table);
  register_gather_scatter(table);
  register_indexing(table);
  register_det(table);
  register_expm(table);
  register_linalg_factors(table);
  register_linalg_solve(table);
  register_masked(table);
  register_matmul(table);
  register_optimizer(table);
  register_pooling(table);
  register_reduce(table);
  register_reduce_nonzero(table);
  register_rounding(table);
  register_row_sparse(table);
  register_scan(table);
  register_search(table);
  register_select(table);
  register_softmax(table);
  register_sort(table);
  register_unary(table);
  register_unary_math(table);
  register_unique(table);
}

}  // namespace heddle
