// Entries of products, linear algebra and random distributions: what operator_table.h says of those of the other files.
#pragma once

namespace heddle::operators_detail {

class OperatorTable;

void register_distributions(OperatorTable& table);
void register_einsum(OperatorTable& table);
void register_linalg_factors(OperatorTable& table);
void register_linalg_solve(OperatorTable& table);
void register_matrix_functions(OperatorTable& table);
void register_products(OperatorTable& table);

}  // namespace heddle::operators_detail
