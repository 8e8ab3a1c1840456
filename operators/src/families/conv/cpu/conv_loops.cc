// Convolution by its definition: a loop for each dimension. The f64 path, what oneDNN has no f32 path for, and the
// reference that the f32 path is tested against.
#include <algorithm>
#include <cstdint>

#include <heddle/parallel.h>

#include "families/conv/cpu/conv.h"

namespace heddle::cpu_kernels {
namespace {

// For one plane and one tap of the kernel: calls body(input index, output index, length) for each run of outputs along the
// last axis whose inputs lie inside the image. Adjacent inputs of a run are stride[2] apart.
template <class F> void for_each_run(const ConvProblem& p, const Spatial& tap, F&& body) {
  const std::int64_t shift = tap[2] * p.dilation[2] - p.padding[2], step = p.stride[2];
  const std::int64_t first = shift >= 0 ? 0 : (-shift - 1) / step + 1;
  const std::int64_t past = p.in[2] - shift <= 0 ? 0 : std::min(p.out[2], (p.in[2] - shift - 1) / step + 1);
  if (first >= past) return;
  const auto inside = [&](std::size_t axis, std::int64_t at) { return at >= 0 && at < p.in[axis]; };
  for (std::int64_t slice = 0; slice < p.out[0]; ++slice) {
    const std::int64_t in_slice = slice * p.stride[0] + tap[0] * p.dilation[0] - p.padding[0];
    if (!inside(0, in_slice)) continue;
    for (std::int64_t row = 0; row < p.out[1]; ++row) {
      const std::int64_t in_row = row * p.stride[1] + tap[1] * p.dilation[1] - p.padding[1];
      if (!inside(1, in_row)) continue;
      body((in_slice * p.in[1] + in_row) * p.in[2] + first * step + shift,
           (slice * p.out[1] + row) * p.out[2] + first, past - first);
    }
  }
}

// Calls body(offset in the kernel, tap) for every tap of a kernel.
template <class F> void for_each_tap(const ConvProblem& p, F&& body) {
  std::int64_t at = 0;
  for (std::int64_t d = 0; d < p.kernel[0]; ++d)
    for (std::int64_t h = 0; h < p.kernel[1]; ++h)
      for (std::int64_t w = 0; w < p.kernel[2]; ++w) body(at++, Spatial{d, h, w});
}

// Calls body(i * step, i) for each i below length; apart for a step of 1, which vectors compute.
template <class F> void for_each_pair(std::int64_t length, std::int64_t step, F&& body) {
  if (step == 1)
    for (std::int64_t i = 0; i < length; ++i) body(i, i);
  else
    for (std::int64_t i = 0; i < length; ++i) body(i * step, i);
}

template <class T> T masked(const T* grad, const T* y, std::int64_t i) {
  return y && y[i] <= 0 ? T(0) : grad[i];
}

struct ConvGroups {
  explicit ConvGroups(const ConvProblem& p)
      : channels(p.channels / p.groups), outputs(p.outputs / p.groups), taps(volume(p.kernel)) {}
  std::int64_t channels, outputs;  // of each group
  std::int64_t taps;               // elements of a kernel
};

}  // namespace

template <class T>
void loop_conv_forward(const ConvProblem& p, const T* x, const T* weight, const T* bias, T* y) {
  const ConvGroups each(p);
  const std::int64_t in_plane = volume(p.in), out_plane = volume(p.out);
  parallel_for(p.n * p.outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / p.outputs, o = plane % p.outputs;
      T* const out = y + plane * out_plane;
      std::fill_n(out, out_plane, bias ? bias[o] : T(0));
      for (std::int64_t c = 0; c < each.channels; ++c) {
        const T* const in = x + (image * p.channels + o / each.outputs * each.channels + c) * in_plane;
        const T* const kernel = weight + (o * each.channels + c) * each.taps;
        for_each_tap(p, [&](std::int64_t at, const Spatial& tap) {
          for_each_run(p, tap, [&, w = kernel[at]](std::int64_t from, std::int64_t to, std::int64_t length) {
            for_each_pair(length, p.stride[2],
                          [=](std::int64_t i, std::int64_t j) { out[to + j] += w * in[from + i]; });
          });
        });
      }
      if (p.relu) std::transform(out, out + out_plane, out, [](T v) { return v < 0 ? T(0) : v; });
    }
  });
}

template <class T>
void loop_conv_backward_data(const ConvProblem& p, const T* grad, const T* y, const T* weight, T* x_grad) {
  const ConvGroups each(p);
  const std::int64_t in_plane = volume(p.in), out_plane = volume(p.out);
  parallel_for(p.n * p.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / p.channels, group = plane % p.channels / each.channels,
                         c = plane % each.channels;
      T* const in = x_grad + plane * in_plane;
      std::fill_n(in, in_plane, T(0));
      for (std::int64_t o = group * each.outputs; o < (group + 1) * each.outputs; ++o) {
        const std::int64_t first = (image * p.outputs + o) * out_plane;
        const T* const kernel = weight + (o * each.channels + c) * each.taps;
        for_each_tap(p, [&](std::int64_t at, const Spatial& tap) {
          for_each_run(p, tap, [&, w = kernel[at]](std::int64_t from, std::int64_t to, std::int64_t length) {
            for_each_pair(length, p.stride[2], [=](std::int64_t i, std::int64_t j) {
              in[from + i] += w * masked(grad, y, first + to + j);
            });
          });
        });
      }
    }
  });
}

template <class T>
void loop_conv_backward_weights(const ConvProblem& p, const T* grad, const T* y, const T* x, T* weight_grad,
                                T* bias_grad) {
  const ConvGroups each(p);
  const std::int64_t in_plane = volume(p.in), out_plane = volume(p.out);
  parallel_for(p.outputs * each.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t kernel = begin; kernel < end; ++kernel) {
      const std::int64_t o = kernel / each.channels,
                         c = o / each.outputs * each.channels + kernel % each.channels;
      for_each_tap(p, [&](std::int64_t at, const Spatial& tap) {
        double sum = 0;
        for (std::int64_t image = 0; image < p.n; ++image) {
          const T* const in = x + (image * p.channels + c) * in_plane;
          const std::int64_t first = (image * p.outputs + o) * out_plane;
          for_each_run(p, tap, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
            for_each_pair(length, p.stride[2], [&](std::int64_t i, std::int64_t j) {
              sum += static_cast<double>(in[from + i]) * static_cast<double>(masked(grad, y, first + to + j));
            });
          });
        }
        weight_grad[kernel * each.taps + at] = static_cast<T>(sum);
      });
    }
  });
  if (!bias_grad) return;
  parallel_for(p.outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (std::int64_t image = 0; image < p.n; ++image) {
        const std::int64_t first = (image * p.outputs + o) * out_plane;
        for (std::int64_t i = 0; i < out_plane; ++i) sum += static_cast<double>(masked(grad, y, first + i));
      }
      bias_grad[o] = static_cast<T>(sum);
    }
  });
}

template void loop_conv_forward(const ConvProblem&, const float*, const float*, const float*, float*);
template void loop_conv_backward_data(const ConvProblem&, const float*, const float*, const float*, float*);
template void loop_conv_backward_weights(const ConvProblem&, const float*, const float*, const float*, float*,
                                         float*);
template void loop_conv_forward(const ConvProblem&, const double*, const double*, const double*, double*);
template void loop_conv_backward_data(const ConvProblem&, const double*, const double*, const double*,
                                      double*);
template void loop_conv_backward_weights(const ConvProblem&, const double*, const double*, const double*,
                                         double*, double*);

}  // namespace heddle::cpu_kernels
