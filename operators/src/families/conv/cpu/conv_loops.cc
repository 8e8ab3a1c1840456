// Convolution by its definition: a loop for each dimension. The f64 path, and the reference that the f32 path
// is tested against.
#include <algorithm>
#include <cstdint>

#include <heddle/parallel.h>

#include "families/conv/cpu/conv.h"

namespace heddle::cpu_kernels {
namespace {

// For one plane and one tap (kh, kw) of the kernel: calls body(input index, output index, length) for each
// run of output columns whose inputs lie inside the image. Adjacent inputs of a run are stride[1] apart.
template <class F> void for_each_run(const ConvProblem& p, std::int64_t kh, std::int64_t kw, F&& body) {
  const std::int64_t shift = kw * p.dilation[1] - p.padding[1], step = p.stride[1];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
  const std::int64_t past = p.in[1] - shift <= 0 ? 0 : std::min(p.out[1], (p.in[1] - shift - 1) / step + 1);
  if (first >= past) return;
  for (std::int64_t row = 0; row < p.out[0]; ++row) {
    const std::int64_t in_row = row * p.stride[0] + kh * p.dilation[0] - p.padding[0];
    if (in_row < 0 || in_row >= p.in[0]) continue;
    body(in_row * p.in[1] + first * step + shift, row * p.out[1] + first, past - first);
  }
}

// Calls body(input channel, output channel, weight index, kh, kw) for every weight of output channel o.
template <class F> void for_each_weight(const ConvProblem& p, std::int64_t o, F&& body) {
  const std::int64_t per_group = p.channels / p.groups, group = o / (p.outputs / p.groups);
  std::int64_t at = o * per_group * p.kernel[0] * p.kernel[1];
  for (std::int64_t c = 0; c < per_group; ++c) {
    for (std::int64_t kh = 0; kh < p.kernel[0]; ++kh) {
      for (std::int64_t kw = 0; kw < p.kernel[1]; ++kw) body(group * per_group + c, at++, kh, kw);
    }
  }
}

double masked(const double* grad, const double* y, std::int64_t i) { return y && y[i] <= 0 ? 0 : grad[i]; }

}  // namespace

void loop_conv_forward(const ConvProblem& p, const double* x, const double* weight, const double* bias,
                       double* y) {
  const std::int64_t in_plane = p.in[0] * p.in[1], out_plane = p.out[0] * p.out[1];
  parallel_for(p.n * p.outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / p.outputs, o = plane % p.outputs;
      double* out = y + plane * out_plane;
      std::fill_n(out, out_plane, bias ? bias[o] : 0.0);
      for_each_weight(p, o, [&](std::int64_t c, std::int64_t at, std::int64_t kh, std::int64_t kw) {
        const double* in = x + (image * p.channels + c) * in_plane;
        for_each_run(p, kh, kw, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
          for (std::int64_t i = 0; i < length; ++i) out[to + i] += weight[at] * in[from + i * p.stride[1]];
        });
      });
      if (p.relu) std::transform(out, out + out_plane, out, [](double v) { return v < 0 ? 0 : v; });
    }
  });
}

void loop_conv_backward_data(const ConvProblem& p, const double* grad, const double* y, const double* weight,
                             double* x_grad) {
  const std::int64_t in_plane = p.in[0] * p.in[1], out_plane = p.out[0] * p.out[1];
  parallel_for(p.n, 1, [&](std::int64_t begin, std::int64_t end) {
    std::fill(x_grad + begin * p.in_image(), x_grad + end * p.in_image(), 0.0);
    for (std::int64_t plane = begin * p.outputs; plane < end * p.outputs; ++plane) {
      const std::int64_t image = plane / p.outputs, first = plane * out_plane;
      for_each_weight(p, plane % p.outputs,
                      [&](std::int64_t c, std::int64_t at, std::int64_t kh, std::int64_t kw) {
                        double* in = x_grad + (image * p.channels + c) * in_plane;
                        for_each_run(p, kh, kw, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
                          for (std::int64_t i = 0; i < length; ++i) {
                            in[from + i * p.stride[1]] += weight[at] * masked(grad, y, first + to + i);
                          }
                        });
                      });
    }
  });
}

void loop_conv_backward_weights(const ConvProblem& p, const double* grad, const double* y, const double* x,
                                double* weight_grad, double* bias_grad) {
  const std::int64_t in_plane = p.in[0] * p.in[1], out_plane = p.out[0] * p.out[1];
  parallel_for(p.outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for_each_weight(p, o, [&](std::int64_t c, std::int64_t at, std::int64_t kh, std::int64_t kw) {
        double sum = 0;
        for (std::int64_t image = 0; image < p.n; ++image) {
          const double* in = x + (image * p.channels + c) * in_plane;
          const std::int64_t first = (image * p.outputs + o) * out_plane;
          for_each_run(p, kh, kw, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i) {
              sum += in[from + i * p.stride[1]] * masked(grad, y, first + to + i);
            }
          });
        }
        weight_grad[at] = sum;
      });
      if (!bias_grad) continue;
      bias_grad[o] = 0;
      for (std::int64_t image = 0; image < p.n; ++image) {
        const std::int64_t first = (image * p.outputs + o) * out_plane;
        for (std::int64_t i = 0; i < out_plane; ++i) bias_grad[o] += masked(grad, y, first + i);
      }
    }
  });
}

}  // namespace heddle::cpu_kernels
