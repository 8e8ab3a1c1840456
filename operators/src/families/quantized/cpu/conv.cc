// Convolutions of bytes. A part of the batch at a time is converted to u8 images with the channels last and the padding in them, so that
// padding is the zero point, then convolved by oneDNN, or by loops where that is not exact; the sums become f32 with the channels first.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/library_threads.h"
#include "cpu/onednn.h"
#include "cpu/plan_cache.h"
#include "cpu/scratch.h"
#include "cpu/transpose_square.h"
#include "families/conv/cpu/image_chunks.h"
#include "families/quantized/cpu/bytes.h"

namespace heddle::cpu_kernels {
namespace {

using dnnl::memory;

// The convolution of images that have the padding in them, and nothing behind the last window.
ConvProblem padded_problem(const ConvProblem& p) {
  ConvProblem padded = p;
  for (std::size_t axis = 0; axis < kSpatial; ++axis)
    padded.in[axis] = (p.out[axis] - 1) * p.stride[axis] + (p.kernel[axis] - 1) * p.dilation[axis] + 1;
  padded.padding = {0, 0, 0};
  padded.relu = padded.bias = false;
  return padded;
}

// The sizes of a padded problem in oneDNN's form. Sequences are images of one row.
struct ByteDimensions {
  memory::dims x, weight, y, stride, dilation, padding;

  explicit ByteDimensions(const ConvProblem& p) : x{p.n, p.channels}, y{p.n, p.outputs} {
    weight = p.groups > 1 ? memory::dims{p.groups, p.outputs / p.groups, p.channels / p.groups}
                          : memory::dims{p.outputs, p.channels};
    for (std::size_t axis = p.axes == 3 ? 0 : 1; axis < kSpatial; ++axis) {
      x.push_back(p.in[axis]);
      weight.push_back(p.kernel[axis]);
      y.push_back(p.out[axis]);
      stride.push_back(p.stride[axis]);
      dilation.push_back(p.dilation[axis] - 1);
      padding.push_back(0);
    }
  }
};

dnnl::convolution_forward::primitive_desc describe_bytes(const ConvProblem& p) {
  const ByteDimensions d(p);
  const auto channels_last = p.axes == 3 ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
  const memory::desc x(d.x, memory::data_type::u8, channels_last),
      weight(d.weight, memory::data_type::s8, memory::format_tag::any),
      y(d.y, memory::data_type::s32, channels_last);
  return describe<dnnl::convolution_forward>(caller_scratch(), dnnl::prop_kind::forward_inference,
                                             dnnl::algorithm::convolution_direct, x, weight, y, d.stride,
                                             d.dilation, d.padding, d.padding);
}

struct BytePlan {
  explicit BytePlan(const ConvProblem& p) : BytePlan(p, describe_bytes(p)) {}
  BytePlan(const ConvProblem& p, const dnnl::convolution_forward::primitive_desc& chosen)
      : convolution(dnnl::convolution_forward(chosen),
                    {{DNNL_ARG_SRC, chosen.src_desc()},
                     {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                     {DNNL_ARG_DST, chosen.dst_desc()}},
                    chosen.scratchpad_desc()),
        weight_in(row_major(ByteDimensions(p).weight, memory::data_type::s8), chosen.weights_desc()),
        fast(std::string_view(chosen.impl_info_str()).find("ref") == std::string_view::npos) {}
  Executable convolution;
  Reorder weight_in;
  bool fast;  // false: oneDNN has nothing but its code for all machines
};

std::shared_ptr<const BytePlan> byte_plan(ConvProblem padded, std::int64_t images) {
  static auto& cache = *new PlanCache<ConvProblem, BytePlan>;
  const OneLibraryThread one;
  padded.n = images;
  return cache.get(padded);
}

// oneDNN computes with int in places.
bool onednn_takes_bytes(const ConvProblem& padded, std::int64_t images) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  for (std::size_t axis = 0; axis < kSpatial; ++axis)
    if (std::max({padded.stride[axis], padded.dilation[axis], padded.in[axis]}) > kMost) return false;
  constexpr double kMostElements = 0x1p31;
  const double elements =
      static_cast<double>(images) * static_cast<double>(std::max(padded.in_image(), padded.out_image()));
  return elements < kMostElements && has_exact_byte_products() && byte_plan(padded, images)->fast;
}

constexpr double kSmallestPart = 8e6;  // operations

// Planes of `columns` bytes, one for each channel, `stride` apart -> (columns, channels)
void channels_last(const std::uint8_t* from, std::int64_t stride, std::int64_t channels, std::int64_t columns,
                   std::uint8_t* to) {
  if (channels == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(columns));
    return;
  }
  constexpr std::int64_t kBytes = 8, kColumns = 64;
  const std::int64_t whole = channels / kBytes * kBytes;
  std::uint64_t words[kColumns];  // the bytes of eight channels of a pixel
  for (std::int64_t begin = 0; begin < columns; begin += kColumns) {
    const std::int64_t count = std::min(kColumns, columns - begin);
    for (std::int64_t c = 0; c < whole; c += kBytes) {
      const std::uint8_t* const source = from + c * stride + begin;
      for (std::int64_t w = 0; w < count; ++w) words[w] = source[w];
      for (std::int64_t i = 1; i < kBytes; ++i)
        for (std::int64_t w = 0; w < count; ++w)
          words[w] |= static_cast<std::uint64_t>(source[i * stride + w]) << (8 * i);
      for (std::int64_t w = 0; w < count; ++w)
        std::memcpy(to + (begin + w) * channels + c, &words[w], kBytes);
    }
    for (std::int64_t c = whole; c < channels; ++c)
      for (std::int64_t w = begin; w < begin + count; ++w) to[w * channels + c] = from[c * stride + w];
  }
}

// One axis of the images: elements [first, first + count) of the input are at [to, to + count) of the padded image.
struct Placed {
  std::int64_t to, count;
  Placed(const ConvProblem& p, const ConvProblem& padded, std::size_t axis)
      : to(p.padding[axis]), count(std::clamp<std::int64_t>(padded.in[axis] - to, 0, p.in[axis])) {}
};

// Converts one image (channels, in...) of f32 to a padded one of u8 (in..., channels). `plain`: room for the image in u8.
void pad_image(const ConvProblem& p, const ConvProblem& padded, const InputBytes& bytes, const float* x,
               std::uint8_t* plain, std::uint8_t* to) {
  const std::int64_t channels = p.channels, plane = volume(p.in);
  bytes.convert(x, p.in_image(), plain);
  if (padded.in == p.in && p.padding == Spatial{0, 0, 0})
    return channels_last(plain, plane, channels, plane, to);
  const Placed depth(p, padded, 0), rows(p, padded, 1), columns(p, padded, 2);
  std::memset(to, bytes.zero_point, static_cast<std::size_t>(padded.in_image()));
  for (std::int64_t d = 0; d < depth.count; ++d) {
    for (std::int64_t h = 0; h < rows.count; ++h) {
      const std::int64_t row = ((depth.to + d) * padded.in[1] + rows.to + h) * padded.in[2] + columns.to;
      channels_last(plain + (d * p.in[1] + h) * p.in[2], plane, channels, columns.count, to + row * channels);
    }
  }
}

struct ByteWeights {
  const std::int8_t* plain;  // (outputs, channels / groups, kernel...)
  const float *scale, *bias;
  const std::int32_t* corrections;
};

// The sums (out..., outputs) of one padded image (in..., channels). `taps`: the weights as (outputs, kernel..., channels / groups).
void loop_sums(const ConvProblem& q, const std::uint8_t* x, const std::int8_t* taps, std::int32_t* sums) {
  const std::int64_t own = q.channels / q.groups, of_group = q.outputs / q.groups, size = volume(q.kernel);
  for (std::int64_t place = 0; place < volume(q.out); ++place) {
    const std::int64_t d = place / (q.out[1] * q.out[2]) * q.stride[0],
                       h = place / q.out[2] % q.out[1] * q.stride[1], w = place % q.out[2] * q.stride[2];
    for (std::int64_t o = 0; o < q.outputs; ++o) {
      std::int32_t sum = 0;
      for (std::int64_t tap = 0; tap < size; ++tap) {
        const std::int64_t kd = tap / (q.kernel[1] * q.kernel[2]), kh = tap / q.kernel[2] % q.kernel[1],
                           kw = tap % q.kernel[2];
        const std::int64_t pixel =
            ((d + kd * q.dilation[0]) * q.in[1] + h + kh * q.dilation[1]) * q.in[2] + w + kw * q.dilation[2];
        sum += byte_products(x + pixel * q.channels + o / of_group * own, taps + (o * size + tap) * own, own);
      }
      sums[place * q.outputs + o] = sum;
    }
  }
}

// (outputs, channels / groups, kernel...) -> (outputs, kernel..., channels / groups)
void taps_first(const ConvProblem& q, const std::int8_t* weight, std::int8_t* taps) {
  const std::int64_t own = q.channels / q.groups, size = volume(q.kernel);
  for (std::int64_t o = 0; o < q.outputs; ++o)
    for (std::int64_t c = 0; c < own; ++c)
      for (std::int64_t tap = 0; tap < size; ++tap)
        taps[(o * size + tap) * own + c] = weight[(o * own + c) * size + tap];
}

// Sums (pixels, outputs), `stride` outputs a pixel, to results (outputs, pixels) of up to 16 of both.
void finish_square(const ByteWeights& weights, float scale, bool relu, const std::int32_t* sums,
                   std::int64_t stride, std::int64_t first, std::int64_t outputs, std::int64_t pixels,
                   std::int64_t plane, float* y) {
  float results[kLanes * kLanes];
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t o = 0; o < outputs; ++o)
      results[i * kLanes + o] =
          result_of(corrected(sums[i * stride + o], weights.corrections[first + o]),
                    scale * weights.scale[first + o], weights.bias ? weights.bias[first + o] : 0.0f, relu);
  if (outputs == kLanes && pixels == kLanes)
    return transpose_square(results, kLanes, y, plane, [](Lanes<float> row) { return row; });
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t i = 0; i < pixels; ++i) y[o * plane + i] = results[i * kLanes + o];
}

// Sums (out..., outputs) of one image to results (outputs, out...).
void finish_image(const ConvProblem& p, const ByteWeights& weights, float scale, const std::int32_t* sums,
                  float* y) {
  const std::int64_t pixels = volume(p.out), outputs = p.outputs;
  for (std::int64_t i = 0; i < pixels; i += kLanes)
    for (std::int64_t o = 0; o < outputs; o += kLanes)
      finish_square(weights, scale, p.relu, sums + i * outputs + o, outputs, o,
                    std::min<std::int64_t>(kLanes, outputs - o), std::min<std::int64_t>(kLanes, pixels - i),
                    pixels, y + o * pixels + i);
}

// The weights for parts of `images` images: in oneDNN's layout, or as the loops take them.
struct PartWeights {
  PartWeights(const ConvProblem& padded, std::int64_t images, const std::int8_t* plain)
      : plan(onednn_takes_bytes(padded, images) ? byte_plan(padded, images) : nullptr),
        buffer(plan ? plan->weight_in.to_bytes() : static_cast<std::size_t>(padded.weights())) {
    if (plan) {
      data = plan->weight_in.convert(plain, buffer.as<std::int8_t>());
    } else {
      taps_first(padded, plain, buffer.as<std::int8_t>());
      data = buffer.as<std::int8_t>();
    }
  }
  std::shared_ptr<const BytePlan> plan;
  Scratch buffer;
  const std::int8_t* data;
};

void convolve_part(const ConvProblem& p, const ConvProblem& padded, const InputBytes& bytes,
                   const ByteWeights& weights, const PartWeights& part, std::int64_t images, const float* x,
                   float* y) {
  const OneLibraryThread one;
  const Scratch in_buffer(static_cast<std::size_t>(images * padded.in_image())),
      plain(static_cast<std::size_t>(p.in_image())),
      sum_buffer(sizeof(std::int32_t) * static_cast<std::size_t>(images * p.out_image()));
  auto* const in = in_buffer.as<std::uint8_t>();
  auto* const sums = sum_buffer.as<std::int32_t>();
  for (std::int64_t i = 0; i < images; ++i)
    pad_image(p, padded, bytes, x + i * p.in_image(), plain.as<std::uint8_t>(), in + i * padded.in_image());
  if (part.plan) {
    part.plan->convolution.run({in, part.data, sums});
  } else {
    for (std::int64_t i = 0; i < images; ++i)
      loop_sums(padded, in + i * padded.in_image(), part.data, sums + i * p.out_image());
  }
  for (std::int64_t i = 0; i < images; ++i)
    finish_image(p, weights, bytes.scale, sums + i * p.out_image(), y + i * p.out_image());
}

void quantized_conv_cpu(const KernelContext&, const ConvProblem& p, const NDArray& x,
                        const QuantizedWeights& given, const NDArray& y) {
  if (p.n == 0) return;
  const OneLibraryThread one;
  const InputBytes bytes(given);
  const ConvProblem padded = padded_problem(p);
  const auto* const plain = given.weight.data<const std::int8_t>();
  const Scratch corrections(sizeof(std::int32_t) * static_cast<std::size_t>(p.outputs));
  zero_point_sums(plain, p.outputs, p.weights() / p.outputs, bytes.zero_point,
                  corrections.as<std::int32_t>());
  const ByteWeights weights{plain, given.weight_scale.data<const float>(),
                            given.bias.defined() ? given.bias.data<const float>() : nullptr,
                            corrections.as<std::int32_t>()};
  const ImageChunks<PartWeights> parts(padded, images_per_chunk(p, kSmallestPart), plain);
  const auto* const from = x.data<const float>();
  auto* const to = y.data<float>();
  parallel_for(p.n, parts.images(), [&](std::int64_t begin, std::int64_t end) {
    convolve_part(p, padded, bytes, weights, parts.of(end - begin), end - begin, from + begin * p.in_image(),
                  to + begin * p.out_image());
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(quantized_conv) {
  table.add<QuantizedConvKernel>("quantized_conv", DeviceKind::cpu, quantized_conv_cpu);
}

}  // namespace heddle::cpu_kernels
