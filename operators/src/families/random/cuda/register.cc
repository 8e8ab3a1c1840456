// Registers the kernels of the random operators for GPUs.
#include <bit>
#include <vector>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "families/random/cuda/kernels.h"
#include "families/random/dropout_kernels.h"
#include "families/random/kernels.h"

namespace heddle::cuda_kernels {
namespace {

void dropout_kernel(const KernelContext& context, const NDArray& x, const NDArray& mask,
                    const DropoutMap& map, const NDArray& y) {
  if (x.size() == 0) return;
  const DropoutCall call{read<void>(x),          read<void>(mask), written<void>(y), x.size(),
                         x.size() / mask.size(), map.scale,        map.shift,        map.dropped,
                         x.dtype() == DType::f64};
  check_launch(context, launch_dropout(context.stream().native(), call));
}

// Kernels have no closure in the table: one function an entry.
template <int entry> void distribution_kernel(const KernelContext& context, const DistributionCall& call) {
  if (call.y.size() == 0) return;
  const DataFault fault(context);
  DistributionDraw draw{written<void>(call.y),
                        static_cast<unsigned char>(call.y.dtype()),
                        call.y.size(),
                        call.range.seed,
                        call.range.start,
                        static_cast<int>(call.parameters.size()),
                        {},
                        {},
                        {},
                        fault.slot()};
  std::vector<const char*> names;
  for (std::size_t k = 0; k < call.parameters.size(); ++k) {
    const DistributionParameter& parameter = call.parameters[k];
    names.push_back(parameter.name);
    draw.ranges[k] = static_cast<std::uint8_t>(parameter.range);
    if (parameter.value.is_array)
      draw.arrays[k] = read<double>(parameter.value.array);
    else
      draw.numbers[k] = parameter.value.scalar.real();
  }
  check_launch(context, kDistributions[entry].launch(context.stream().native(), draw));
  fault.check(context,
              [op = call.op, names, shape = call.y.shape(), count = call.y.size()](const FaultSlot& found) {
                refuse_parameter(op, names[static_cast<std::size_t>(found.place / count)],
                                 std::bit_cast<double>(found.value), shape, found.place % count);
              });
}

void categorical_kernel(const KernelContext& context, const char* op, RandomBlocks range, const NDArray& x,
                        bool, const NDArray& y) {
  const std::int64_t rows = y.shape()[0], samples = y.shape()[1], n = x.shape()[1];
  if (rows == 0 || samples == 0) return;
  const DataFault fault(context);
  check_launch(context, launch_categorical(context.stream().native(), read<double>(x), rows, n, samples,
                                           range.seed, range.start, written<long long>(y), fault.slot()));
  fault.check(context, [op, n](const FaultSlot& found) {
    refuse_logits(op, found.place / (n + 1), std::bit_cast<double>(found.value), found.kind == 1);
  });
}

void multinomial_kernel(const KernelContext& context, const char* op, RandomBlocks range, const NDArray& x,
                        bool replacement, const NDArray& y) {
  const std::int64_t rows = y.shape()[0], samples = y.shape()[1], n = x.shape()[1];
  if (rows == 0 || samples == 0) return;
  const DataFault fault(context);
  const MultinomialDraw draw{read<double>(x), rows,       n,           samples,
                             replacement,     range.seed, range.start, written<long long>(y),
                             fault.slot()};
  const Scratch space(context, multinomial_space(draw));
  check_launch(context, launch_multinomial(context.stream().native(), draw, space.as()));
  const std::int64_t wanted = replacement ? 1 : samples;
  fault.check(context, [op, n, wanted](const FaultSlot& found) {
    refuse_weights(op, found.place / (n + 2), WeightFault{static_cast<std::uint8_t>(found.kind)},
                   std::bit_cast<double>(found.value), wanted);
  });
}

template <int entry = 0> void add_distributions(KernelTable& table) {
  if constexpr (entry < kDistributionCount) {
    table.add<DistributionKernel>(kDistributions[entry].op, DeviceKind::cuda, distribution_kernel<entry>);
    add_distributions<entry + 1>(table);
  }
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(random) {
  table.add<DropoutKernel>("dropout", DeviceKind::cuda, cuda_kernels::dropout_kernel);
  table.add<IndexDrawKernel>("categorical", DeviceKind::cuda, cuda_kernels::categorical_kernel);
  table.add<IndexDrawKernel>("multinomial", DeviceKind::cuda, cuda_kernels::multinomial_kernel);
  cuda_kernels::add_distributions(table);
}

}  // namespace heddle
