#include "families/recurrent/cuda/problem.h"

#include <algorithm>

#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/gemm.h"

namespace heddle::cuda_kernels {

void* Blocks::take(long long count, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  all_.push_back(std::make_unique<Scratch>(context_, "scratch memory of a recurrent network", bytes));
  return all_.back()->data();
}

Recurrence recurrence_of(const KernelContext& context, const RecurrentProblem& p, const RecurrentArrays& in,
                         Blocks& memory, bool report) {
  const DType dtype = in.x.dtype();
  Recurrence r{};
  r.cell = static_cast<Cell>(p.cell);
  r.f64 = dtype == DType::f64;
  r.projected = p.projected;
  r.reverse = p.reverse;
  r.batch_first = p.batch_first;
  r.operands = static_cast<unsigned char>(!r.f64 && is_half(p.products) ? p.products : dtype);
  r.steps = p.steps;
  r.batch = p.batch;
  r.features = p.features;
  r.hidden = p.hidden;
  r.state = p.state;
  r.gates = p.gates();
  r.width = (p.gates() + (p.cell == RecurrentCell::gru ? 1 : 0)) * p.hidden;
  if (!in.lengths.defined() || p.batch == 0) return r;
  auto* const lengths = static_cast<long long*>(memory.take(p.batch, DType::i64));
  const auto launch = [&](FaultSlot* fault) {
    check_launch(context, launch_lengths(context.stream().native(), read_address(in.lengths),
                                         static_cast<unsigned char>(in.lengths.dtype()), p.batch, p.steps,
                                         lengths, fault));
  };
  r.lengths = lengths;
  if (!report) {
    launch(nullptr);
    return r;
  }
  const DataFault fault(context);
  launch(fault.slot());
  fault.check(context, [op = p.op, steps = p.steps, of = in.lengths.dtype()](const FaultSlot& found) {
    refuse_length(op, found.place, text_of(found.value, of), steps);
  });
  return r;
}

const void* Products::operand(const NDArray& array) const {
  const void* const data = read_address(array);
  if (!data || !rounds()) return data;
  void* const rounded = memory_.take(array.size(), operands());
  check_launch(context_, launch_rounding(context_.stream().native(), r_, data, array.size(), rounded));
  return rounded;
}

void Products::multiply(long long m, long long n, long long k, GemmMatrix a, GemmMatrix b, void* d,
                        long long d_stride, double beta) const {
  Gemm g{};
  g.m = m, g.n = n, g.k = k;
  g.a = a, g.b = b;
  g.a.stride = std::max(a.stride, 1ll);
  g.b.stride = std::max(b.stride, 1ll);
  g.d = d;
  g.d_stride = d_stride;
  g.d_batch = m * d_stride;
  g.type = r_.operands;
  g.d_type = static_cast<unsigned char>(dtype());
  g.alpha = 1;
  g.beta = beta;
  gemm(context_, g);
}

}  // namespace heddle::cuda_kernels
