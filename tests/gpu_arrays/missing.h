// Lists for every_operator_test.cc.
#pragma once

#include <set>
#include <string>

// "operator: kernel": kernels that the samples of an operator call and that do not exist for GPUs.
const std::set<std::string>& operators_without_kernels();
// Operators whose results on a GPU differ from the CPU's in their last bits: functions of libm, sums in another order, products and sums
// that the CPU rounds at once.
const std::set<std::string>& operators_with_near_results();
// Operators that draw numbers, and seldom take another one than the CPU, since roundings decide which.
const std::set<std::string>& operators_with_rare_differences();
// Operators that subtract nearly equal numbers: differences count relative to the largest number of a result.
const std::set<std::string>& operators_with_cancellation();
// Operators whose first results on a GPU may have vectors with other signs than the CPU's, and with them gradients: the results of
// their samples are compared without signs.
const std::set<std::string>& operators_with_free_signs();
