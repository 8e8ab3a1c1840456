// Elementwise kernels on f16 and bf16: blocks are converted to f32 on the stack, the loop for f32 runs, and each result
// is rounded once. So no loop is built for the half types, and an operator rounds once, whatever it computes.
#pragma once

#include "cpu/loops/map_loop.h"

namespace heddle::cpu_kernels {

// `run` is a run for f32 that writes f32, or bool if y is bool. The operands have one half dtype, and so has
// y unless it is bool. Scalars are rounded to that dtype first.
void map_half(const NDArray& x, const NDArray& y, UnaryRun run);
void map_half(const Operand& a, const Operand& b, const NDArray& y, BinaryRun run);

}  // namespace heddle::cpu_kernels
