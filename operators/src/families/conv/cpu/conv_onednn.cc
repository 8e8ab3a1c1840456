// f32 convolutions by oneDNN. The batch is divided into chunks by the problem's shape only; each chunk is
// converted to the layout that oneDNN is fastest with, computed and converted back while it is in cache.
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <optional>
#include <utility>

#include <heddle/parallel.h>

#include "cpu/library_threads.h"
#include "cpu/onednn.h"
#include "cpu/plan_cache.h"
#include "cpu/scratch.h"
#include "families/conv/cpu/conv.h"
#include "families/conv/cpu/masked_blocks.h"

namespace heddle::cpu_kernels {
namespace {

using dnnl::memory;

// oneDNN requires that the strides cover the padded image exactly: leftover rows count as negative padding.
memory::dim end_padding(const ConvProblem& p, std::size_t axis) {
  return (p.out[axis] - 1) * p.stride[axis] + p.dilation[axis] * (p.kernel[axis] - 1) + 1 - p.in[axis] -
         p.padding[axis];
}

// The dimensions of one convolution in oneDNN's form. Sequences are images of one row, which oneDNN has more implementations for.
struct Dimensions {
  memory::dims x, weight, bias, y, stride, dilation, padding, padding_end;

  explicit Dimensions(const ConvProblem& p)
      : x{p.n, p.channels}, weight{p.outputs, p.channels / p.groups}, bias{p.outputs}, y{p.n, p.outputs} {
    if (p.groups > 1) weight = {p.groups, p.outputs / p.groups, p.channels / p.groups};
    for (std::size_t axis = p.axes == 3 ? 0 : 1; axis < kSpatial; ++axis) {
      x.push_back(p.in[axis]);
      weight.push_back(p.kernel[axis]);
      y.push_back(p.out[axis]);
      stride.push_back(p.stride[axis]);
      dilation.push_back(p.dilation[axis] - 1);
      padding.push_back(p.padding[axis]);
      padding_end.push_back(end_padding(p, axis));
    }
  }
};

memory::desc any_layout(const memory::dims& dims) {
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

dnnl::convolution_forward::primitive_desc describe_forward(const ConvProblem& p) {
  const Dimensions d(p);
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using Desc = dnnl::convolution_forward::desc;
  const memory::desc x = any_layout(d.x), weight = any_layout(d.weight), y = any_layout(d.y);
  const Desc desc = p.bias
                        ? Desc(kind, algorithm, x, weight, row_major(d.bias), y, d.stride, d.dilation,
                               d.padding, d.padding_end)
                        : Desc(kind, algorithm, x, weight, y, d.stride, d.dilation, d.padding, d.padding_end);
  return {desc, caller_scratch(), onednn_engine()};
}

dnnl::convolution_backward_data::primitive_desc describe_backward_data(const ConvProblem& p) {
  const Dimensions d(p);
  const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, any_layout(d.x),
                                                   any_layout(d.weight), any_layout(d.y), d.stride,
                                                   d.dilation, d.padding, d.padding_end);
  return {desc, caller_scratch(), onednn_engine(), describe_forward(p)};
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const ConvProblem& p) {
  const Dimensions d(p);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using Desc = dnnl::convolution_backward_weights::desc;
  const memory::desc x = any_layout(d.x), weight = any_layout(d.weight), y = any_layout(d.y);
  const Desc desc = p.bias ? Desc(algorithm, x, weight, row_major(d.bias), y, d.stride, d.dilation, d.padding,
                                  d.padding_end)
                           : Desc(algorithm, x, weight, y, d.stride, d.dilation, d.padding, d.padding_end);
  return {desc, caller_scratch(), onednn_engine(), describe_forward(p)};
}

// Whether `mask_into_blocks` makes images of this layout.
bool is_blocked(const ConvProblem& p, const memory::desc& y) {
  const auto blocked = p.axes == 3 ? memory::format_tag::nCdhw16c : memory::format_tag::nChw16c;
  return p.outputs % kChannelBlock == 0 && volume(p.out) >= kChannelBlock &&
         y == memory::desc(Dimensions(p).y, memory::data_type::f32, blocked);
}

// The primitive that `description` describes, for arguments in the order given; a bias only if the problem has one.
template <class Primitive, class Description>
Executable executable(const ConvProblem& p, const Description& description,
                      std::vector<Executable::Argument> arguments, int bias) {
  if (p.bias && bias != 0) arguments.push_back({bias, row_major(Dimensions(p).bias)});
  return Executable(Primitive(description), std::move(arguments), description.scratchpad_desc());
}

struct ForwardPlan {
  explicit ForwardPlan(const ConvProblem& p) : ForwardPlan(p, describe_forward(p)) {}
  ForwardPlan(const ConvProblem& p, const dnnl::convolution_forward::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_forward>(p, chosen,
                                                          {{DNNL_ARG_SRC, chosen.src_desc()},
                                                           {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                                                           {DNNL_ARG_DST, chosen.dst_desc()}},
                                                          DNNL_ARG_BIAS)),
        x(chosen.src_desc()),
        weight(chosen.weights_desc()),
        y(chosen.dst_desc()),
        x_in(row_major(Dimensions(p).x), x),
        weight_in(row_major(Dimensions(p).weight), weight),
        y_out(y, row_major(Dimensions(p).y)) {}
  Executable convolution;
  memory::desc x, weight, y;
  Reorder x_in, weight_in, y_out;
};

struct BackwardDataPlan {
  explicit BackwardDataPlan(const ConvProblem& p) : BackwardDataPlan(p, describe_backward_data(p)) {}
  BackwardDataPlan(const ConvProblem& p, const dnnl::convolution_backward_data::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_backward_data>(p, chosen,
                                                                {{DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
                                                                 {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                                                                 {DNNL_ARG_DIFF_SRC, chosen.diff_src_desc()}},
                                                                0)),
        x(chosen.diff_src_desc()),
        weight(chosen.weights_desc()),
        y(chosen.diff_dst_desc()),
        y_in(row_major(Dimensions(p).y), y),
        weight_in(row_major(Dimensions(p).weight), weight),
        x_out(x, row_major(Dimensions(p).x)),
        in_blocks(is_blocked(p, y)) {}
  Executable convolution;
  memory::desc x, weight, y;
  Reorder y_in, weight_in, x_out;
  bool in_blocks;  // whether y has the layout that mask_into_blocks makes
};

struct BackwardWeightsPlan {
  explicit BackwardWeightsPlan(const ConvProblem& p) : BackwardWeightsPlan(p, describe_backward_weights(p)) {}
  BackwardWeightsPlan(const ConvProblem& p, const dnnl::convolution_backward_weights::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_backward_weights>(
            p, chosen,
            {{DNNL_ARG_SRC, chosen.src_desc()},
             {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
             {DNNL_ARG_DIFF_WEIGHTS, chosen.diff_weights_desc()}},
            DNNL_ARG_DIFF_BIAS)),
        x(chosen.src_desc()),
        weight(chosen.diff_weights_desc()),
        y(chosen.diff_dst_desc()),
        x_in(row_major(Dimensions(p).x), x),
        y_in(row_major(Dimensions(p).y), y),
        weight_out(weight, row_major(Dimensions(p).weight)),
        in_blocks(is_blocked(p, y)) {}
  Executable convolution;
  memory::desc x, weight, y;
  Reorder x_in, y_in, weight_out;
  bool in_blocks;  // whether y has the layout that mask_into_blocks makes
};

template <class P> std::shared_ptr<const P> plan_for(ConvProblem problem, std::int64_t images) {
  static PlanCache<ConvProblem, P> cache;
  problem.n = images;
  return cache.get(problem);
}

// The number of images in a chunk: there are about 16 chunks, each of 20 microseconds or more. Every chunk reads, or makes, all
// weights, so each has at least kReuse times as many operations as weights.
std::int64_t images_per_chunk(const ConvProblem& p) {
  constexpr double kSmallest = 4e6, kReuse = 128;
  const double flops = p.flops_per_image() * static_cast<double>(p.n);
  const double smallest = std::max(kSmallest, kReuse * static_cast<double>(p.weights()));
  const auto worth = static_cast<std::uint64_t>(std::clamp(flops / smallest, 1.0, 16.0));
  const auto chunks = static_cast<std::int64_t>(std::bit_ceil(worth));
  return (p.n + chunks - 1) / chunks;
}

// The plans of the full chunks and of a shorter last one, and the weights in the layout of each.
template <class P> struct Chunked {
  Chunked(const ConvProblem& problem, const float* weights) : images(images_per_chunk(problem)) {
    add(problem, images, weights);
    if (problem.n % images != 0) add(problem, problem.n % images, weights);
  }
  struct Size {
    std::shared_ptr<const P> plan;
    Scratch buffer;
    const float* weights;
    Size(std::shared_ptr<const P> p, const float* plain)
        : plan(std::move(p)),
          buffer(plan->weight_in.to_bytes()),
          weights(plan->weight_in.convert(plain, buffer.as<float>())) {}
  };
  const Size& of(std::int64_t count) const { return count == images ? *sizes[0] : *sizes[1]; }

  std::int64_t images;
  std::optional<Size> sizes[2];

 private:
  void add(const ConvProblem& problem, std::int64_t count, const float* weights) {
    sizes[count == images ? 0 : 1].emplace(plan_for<P>(problem, count), weights);
  }
};

// One chunk of the gradient of the result, in the plan's layout. With a fused relu (y is not null), the
// gradient before the relu.
class ChunkGradient {
 public:
  ChunkGradient(const ConvProblem& p, std::int64_t images, const Reorder& y_in, bool in_blocks,
                const float* grad, const float* y)
      : masked_(y && !in_blocks ? sizeof(float) * static_cast<std::size_t>(images * p.out_image()) : 0),
        blocked_(y_in.needed() ? y_in.to_bytes() : 0),
        data_(grad) {
    if (y && in_blocks) {
      mask_into_blocks(grad, y, images, p.outputs, volume(p.out), blocked_.as<float>());
      data_ = blocked_.as<float>();
      return;
    }
    if (y) data_ = mask(grad, y, images * p.out_image(), masked_.as<float>());
    data_ = y_in.convert(data_, blocked_.as<float>());
  }
  const float* data() const { return data_; }

 private:
  static const float* mask(const float* __restrict grad, const float* __restrict y, std::int64_t count,
                           float* __restrict to) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = grad[i];  // read in any case, which leaves no branch in the loop
      to[i] = y[i] <= 0 ? 0.0f : value;
    }
    return to;
  }
  Scratch masked_, blocked_;
  const float* data_;
};

// oneDNN's own relu is not used, since it turns NaN into 0, which would hide that a net has diverged.
void relu_in_place(float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = y[i] < 0 ? 0.0f : y[i];
}

}  // namespace

bool onednn_takes(const ConvProblem& p) {
  // oneDNN computes with int in places, and with products of these numbers and of block sizes.
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  for (std::size_t axis = 0; axis < kSpatial; ++axis) {
    const std::int64_t behind = end_padding(p, axis);
    if (behind <= -p.stride[axis] || behind > kMost) return false;
    if (std::max({p.stride[axis], p.dilation[axis], p.padding[axis]}) > kMost) return false;
  }
  return true;
}

void onednn_conv_forward(const ConvProblem& p, const float* x, const float* weight, const float* bias,
                         float* y) {
  if (p.n == 0) return;
  OneLibraryThread one;
  const Chunked<ForwardPlan> chunks(p, weight);
  parallel_for(p.n, chunks.images, [&](std::int64_t begin, std::int64_t end) {
    OneLibraryThread one_here;
    const auto& size = chunks.of(end - begin);
    const ForwardPlan& plan = *size.plan;
    const Scratch x_buffer(plan.x_in.needed() ? plan.x.get_size() : 0);
    const Scratch y_buffer(plan.y_out.needed() ? plan.y.get_size() : 0);
    float* out = y + begin * p.out_image();
    float* blocked = plan.y_out.needed() ? y_buffer.as<float>() : out;
    const float* in = plan.x_in.convert(x + begin * p.in_image(), x_buffer.as<float>());
    if (bias) {
      plan.convolution.run({in, size.weights, blocked, bias});
    } else {
      plan.convolution.run({in, size.weights, blocked});
    }
    if (plan.y_out.needed()) plan.y_out.run(blocked, out);
    if (p.relu) relu_in_place(out, (end - begin) * p.out_image());
  });
}

void onednn_conv_backward_data(const ConvProblem& p, const float* grad, const float* y, const float* weight,
                               float* x_grad) {
  if (p.n == 0) return;
  OneLibraryThread one;
  const Chunked<BackwardDataPlan> chunks(p, weight);
  parallel_for(p.n, chunks.images, [&](std::int64_t begin, std::int64_t end) {
    OneLibraryThread one_here;
    const auto& size = chunks.of(end - begin);
    const BackwardDataPlan& plan = *size.plan;
    const std::int64_t from = begin * p.out_image();
    const ChunkGradient gradient(p, end - begin, plan.y_in, plan.in_blocks, grad + from,
                                 y ? y + from : nullptr);
    const Scratch x_buffer(plan.x_out.needed() ? plan.x.get_size() : 0);
    float* out = x_grad + begin * p.in_image();
    float* blocked = plan.x_out.needed() ? x_buffer.as<float>() : out;
    plan.convolution.run({gradient.data(), size.weights, blocked});
    if (plan.x_out.needed()) plan.x_out.run(blocked, out);
  });
}

namespace {

// The gradients that one chunk of images contributes, row-major.
void chunk_weight_gradient(const ConvProblem& p, std::int64_t images, const float* grad, const float* y,
                           const float* x, float* weight_grad, float* bias_grad) {
  OneLibraryThread one;
  const auto plan = plan_for<BackwardWeightsPlan>(p, images);
  const ChunkGradient gradient(p, images, plan->y_in, plan->in_blocks, grad, y);
  const Scratch x_buffer(plan->x_in.needed() ? plan->x.get_size() : 0);
  const Scratch weight_buffer(plan->weight_out.needed() ? plan->weight.get_size() : 0);
  float* blocked = plan->weight_out.needed() ? weight_buffer.as<float>() : weight_grad;
  const float* in = plan->x_in.convert(x, x_buffer.as<float>());
  if (bias_grad) {
    plan->convolution.run({in, gradient.data(), blocked, bias_grad});
  } else {
    plan->convolution.run({in, gradient.data(), blocked});
  }
  if (plan->weight_out.needed()) plan->weight_out.run(blocked, weight_grad);
}

// sum[i] = rows[0][i] + rows[1][i] + ..., always in this order.
void add_rows(const float* rows, std::int64_t count, std::int64_t width, std::int64_t stride, float* sum) {
  constexpr std::int64_t kGrain = 8192;
  parallel_for(width, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::copy(rows + begin, rows + end, sum + begin);
    for (std::int64_t row = 1; row < count; ++row) {
      const float* from = rows + row * stride;
      for (std::int64_t i = begin; i < end; ++i) sum[i] += from[i];
    }
  });
}

}  // namespace

void onednn_conv_backward_weights(const ConvProblem& p, const float* grad, const float* y, const float* x,
                                  float* weight_grad, float* bias_grad) {
  const std::int64_t weights = p.weights(), row = weights + p.outputs;
  if (p.n == 0) {
    std::fill_n(weight_grad, weights, 0.0f);
    if (bias_grad) std::fill_n(bias_grad, p.outputs, 0.0f);
    return;
  }
  // Most elements of all chunks' partial gradients together. Each chunk has its own copy of the weights'
  // gradient, so large weights allow few chunks only.
  constexpr std::int64_t kMostPartial = std::int64_t{1} << 24;
  const std::int64_t most = std::max<std::int64_t>(1, kMostPartial / row);
  const std::int64_t images = std::max(images_per_chunk(p), (p.n + most - 1) / most);
  const std::int64_t chunks = (p.n + images - 1) / images;
  if (chunks == 1) {
    chunk_weight_gradient(p, p.n, grad, y, x, weight_grad, bias_grad);
    return;
  }
  const Scratch partial(sizeof(float) * static_cast<std::size_t>(chunks * row));
  parallel_for(p.n, images, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t from = begin * p.out_image();
    float* own = partial.as<float>() + begin / images * row;
    chunk_weight_gradient(p, end - begin, grad + from, y ? y + from : nullptr, x + begin * p.in_image(), own,
                          bias_grad ? own + weights : nullptr);
  });
  add_rows(partial.as<float>(), chunks, weights, row, weight_grad);
  if (bias_grad) add_rows(partial.as<float>() + weights, chunks, p.outputs, row, bias_grad);
}

}  // namespace heddle::cpu_kernels
