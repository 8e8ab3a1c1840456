// quantized_linear: tiles of the result by oneDNN's product of u8 and i8, or by loops where that is not exact.
#include <algorithm>
#include <cstdint>
#include <dnnl.h>
#include <string>

#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cpu/library_threads.h"
#include "cpu/loops/chunks.h"
#include "cpu/onednn.h"
#include "cpu/scratch.h"
#include "families/quantized/cpu/bytes.h"

namespace heddle::cpu_kernels {

bool has_exact_byte_products() {
  static const bool has = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_vnni);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

namespace {

constexpr std::int64_t kTileRows = 256, kTileProducts = std::int64_t{1} << 23, kOutputStep = 64;
// oneDNN packs the weights in each call, which takes longer than these few rows do in loops.
constexpr std::int64_t kFewRows = 8;

struct ByteProduct {
  std::int64_t rows, in, out;
  const std::uint8_t* x;
  const std::int8_t* weight;
  const float *weight_scale, *bias;
  float scale;
  std::int32_t zero_point;
  bool relu;
  float* y;
};

// sums (rows, outputs) of x less its zero point times the weights, of a part of the rows and outputs.
void sum_tile(const ByteProduct& p, std::int64_t row, std::int64_t rows, std::int64_t output,
              std::int64_t outputs, std::int32_t* sums) {
  const std::uint8_t* x = p.x + row * p.in;
  const std::int8_t* weight = p.weight + output * p.in;
  if (rows > kFewRows && has_exact_byte_products() && p.in > 0) {
    const OneLibraryThread one;
    const std::int32_t none = 0;
    const dnnl_status_t status = dnnl_gemm_u8s8s32('N', 'T', 'F', rows, outputs, p.in, 1.0f, x, p.in,
                                                   static_cast<std::uint8_t>(p.zero_point), weight, p.in, 0,
                                                   0.0f, sums, outputs, &none);
    if (status != dnnl_success) throw Error("oneDNN failed with status " + std::to_string(status));
    return;
  }
  for (std::int64_t o = 0; o < outputs; ++o) {
    std::int32_t correction;
    zero_point_sums(weight + o * p.in, 1, p.in, p.zero_point, &correction);
    for (std::int64_t i = 0; i < rows; ++i)
      sums[i * outputs + o] = corrected(byte_products(x + i * p.in, weight + o * p.in, p.in), correction);
  }
}

void result_tile(const ByteProduct& p, std::int64_t row, std::int64_t rows, std::int64_t output,
                 std::int64_t outputs) {
  const Scratch buffer(sizeof(std::int32_t) * static_cast<std::size_t>(rows * outputs));
  auto* const sums = buffer.as<std::int32_t>();
  sum_tile(p, row, rows, output, outputs, sums);
  const float* const scales = p.weight_scale + output;
  const float* const bias = p.bias ? p.bias + output : nullptr;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const to = p.y + (row + i) * p.out + output;
    for (std::int64_t o = 0; o < outputs; ++o)
      to[o] = result_of(sums[i * outputs + o], p.scale * scales[o], bias ? bias[o] : 0.0f, p.relu);
  }
}

void quantized_linear_cpu(const KernelContext&, const NDArray& x, const QuantizedWeights& weights, bool relu,
                          const NDArray& y) {
  const std::int64_t rows = x.shape()[0], in = x.shape()[1], out = y.shape()[1];
  if (rows == 0 || out == 0) return;
  const InputBytes bytes(weights);
  const Scratch buffer(static_cast<std::size_t>(std::max<std::int64_t>(rows * in, 1)));
  auto* const converted = buffer.as<std::uint8_t>();
  const auto* const from = x.data<const float>();
  parallel_chunks(rows * in, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    bytes.convert(from + begin, end - begin, converted + begin);
  });
  const ByteProduct p{.rows = rows,
                      .in = in,
                      .out = out,
                      .x = converted,
                      .weight = weights.weight.data<const std::int8_t>(),
                      .weight_scale = weights.weight_scale.data<const float>(),
                      .bias = weights.bias.defined() ? weights.bias.data<const float>() : nullptr,
                      .scale = bytes.scale,
                      .zero_point = bytes.zero_point,
                      .relu = relu,
                      .y = y.data<float>()};
  const std::int64_t height = std::min(rows, kTileRows), row_tiles = (rows + height - 1) / height;
  const std::int64_t wanted = kTileProducts / std::max<std::int64_t>(height * in, 1);
  const std::int64_t width = std::min(out, std::max(kOutputStep, wanted / kOutputStep * kOutputStep));
  const std::int64_t output_tiles = (out + width - 1) / width;
  parallel_chunks(row_tiles * output_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t row = tile / output_tiles * height, output = tile % output_tiles * width;
      result_tile(p, row, std::min(height, rows - row), output, std::min(width, out - output));
    }
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(quantized_linear) {
  table.add<QuantizedLinearKernel>("quantized_linear", DeviceKind::cpu, quantized_linear_cpu);
}

}  // namespace heddle::cpu_kernels
