// f32 and bf16 convolutions by oneDNN; gradients of weights are f32. The batch is divided into chunks by the problem's shape only; each chunk is
// converted to the layout that oneDNN is fastest with, computed and converted back while it is in cache.
#include <algorithm>
#include <compare>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include <heddle/half.h>
#include <heddle/parallel.h>

#include "cpu/library_threads.h"
#include "cpu/onednn.h"
#include "cpu/plan_cache.h"
#include "cpu/relu.h"
#include "cpu/scratch.h"
#include "families/conv/cpu/channel_blocks.h"
#include "families/conv/cpu/conv.h"
#include "families/conv/cpu/image_chunks.h"

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

template <class T>
constexpr auto kType = std::is_same_v<T, float> ? memory::data_type::f32 : memory::data_type::bf16;

template <class T> memory::desc any_layout(const memory::dims& dims) {
  return {dims, kType<T>, memory::format_tag::any};
}

// A convolution of elements of T.
template <class T> struct Typed {
  ConvProblem p;
  auto operator<=>(const Typed&) const = default;
};

template <class T> dnnl::convolution_forward::primitive_desc describe_forward(const ConvProblem& p) {
  const Dimensions d(p);
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto with = [&](const auto&... bias) {
    return describe<dnnl::convolution_forward>(caller_scratch(), kind, algorithm, any_layout<T>(d.x),
                                               any_layout<T>(d.weight), bias..., any_layout<T>(d.y), d.stride,
                                               d.dilation, d.padding, d.padding_end);
  };
  return p.bias ? with(row_major(d.bias)) : with();
}

template <class T>
dnnl::convolution_backward_data::primitive_desc describe_backward_data(const ConvProblem& p) {
  const Dimensions d(p);
  return describe_gradient<dnnl::convolution_backward_data>(
      describe_forward<T>(p), dnnl::algorithm::convolution_direct, any_layout<T>(d.x),
      any_layout<T>(d.weight), any_layout<T>(d.y), d.stride, d.dilation, d.padding, d.padding_end);
}

template <class T>
dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const ConvProblem& p) {
  const Dimensions d(p);
  const auto with = [&](const auto&... bias) {
    return describe_gradient<dnnl::convolution_backward_weights>(
        describe_forward<T>(p), dnnl::algorithm::convolution_direct, any_layout<T>(d.x),
        any_layout<float>(d.weight), bias..., any_layout<T>(d.y), d.stride, d.dilation, d.padding,
        d.padding_end);
  };
  return p.bias ? with(row_major(d.bias)) : with();
}

// The primitive that `description` describes, for arguments in the order given; a bias only if the problem has one.
template <class Primitive, class Description>
Executable executable(const ConvProblem& p, const Description& description,
                      std::vector<Executable::Argument> arguments, int bias) {
  if (p.bias && bias != 0) arguments.push_back({bias, row_major(Dimensions(p).bias)});
  return Executable(Primitive(description), std::move(arguments), description.scratchpad_desc());
}

// oneDNN's implementation for all machines is slower than the conversion of halves to f32.
template <class Description> bool is_fast(const Description& description) {
  return std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
}

// The layout of images of T that a primitive takes, beside the row-major one.
template <class T> class ImageLayout {
 public:
  ImageLayout(const ConvProblem& p, const memory::desc& layout, bool of_result)
      : channels_(of_result ? p.outputs : p.channels),
        pixels_(volume(of_result ? p.out : p.in)),
        bytes_(layout.get_size()),
        dims_(of_result ? Dimensions(p).y : Dimensions(p).x),
        from_plain_(row_major(dims_, kType<T>), layout),
        to_plain_(layout, row_major(dims_, kType<T>)) {
    const auto blocked = p.axes == 3 ? memory::format_tag::nCdhw16c : memory::format_tag::nChw16c;
    in_blocks_ = channels_ % kChannelBlock == 0 && pixels_ >= kChannelBlock &&
                 layout == memory::desc(dims_, kType<T>, blocked);
  }
  bool is_plain() const { return !from_plain_.needed(); }
  bool in_blocks() const { return in_blocks_; }
  std::size_t bytes() const { return bytes_; }

  // Returns `plain` if that has the layout; else converts it into `buffer` and returns that.
  const T* convert(const T* plain, T* buffer) const {
    if (!in_blocks_) return from_plain_.convert(plain, buffer);
    into_blocks<T>(plain, nullptr, dims_[0], channels_, pixels_, buffer);
    return buffer;
  }
  // Converts the gradient before a relu that gave y.
  void convert_masked(const T* plain, const T* y, T* buffer) const {
    into_blocks<T>(plain, y, dims_[0], channels_, pixels_, buffer);
  }
  // Converts a result into row-major memory, unless it is there; then computes its relu if there is one. oneDNN's own relu is not
  // used, since it turns NaN into 0, which would hide that a net has diverged.
  void finish(const T* made, T* plain, bool relu) const {
    if (in_blocks_) return from_blocks<T>(made, dims_[0], channels_, pixels_, relu, plain);
    if (!is_plain()) to_plain_.run(made, plain);
    if (relu) relu_in_place(plain, dims_[0] * channels_ * pixels_);
  }

 private:
  std::int64_t channels_, pixels_;
  std::size_t bytes_;
  memory::dims dims_;
  Reorder from_plain_, to_plain_;
  bool in_blocks_ = false;
};

template <class T> struct ForwardPlan {
  explicit ForwardPlan(const Typed<T>& typed) : ForwardPlan(typed.p, describe_forward<T>(typed.p)) {}
  ForwardPlan(const ConvProblem& p, const dnnl::convolution_forward::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_forward>(p, chosen,
                                                          {{DNNL_ARG_SRC, chosen.src_desc()},
                                                           {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                                                           {DNNL_ARG_DST, chosen.dst_desc()}},
                                                          DNNL_ARG_BIAS)),
        x(p, chosen.src_desc(), false),
        y(p, chosen.dst_desc(), true),
        weight_in(row_major(Dimensions(p).weight, kType<T>), chosen.weights_desc()),
        fast(is_fast(chosen)) {}
  Executable convolution;
  ImageLayout<T> x, y;
  Reorder weight_in;
  bool fast;
};

template <class T> struct BackwardDataPlan {
  explicit BackwardDataPlan(const Typed<T>& typed)
      : BackwardDataPlan(typed.p, describe_backward_data<T>(typed.p)) {}
  BackwardDataPlan(const ConvProblem& p, const dnnl::convolution_backward_data::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_backward_data>(p, chosen,
                                                                {{DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
                                                                 {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                                                                 {DNNL_ARG_DIFF_SRC, chosen.diff_src_desc()}},
                                                                0)),
        x(p, chosen.diff_src_desc(), false),
        y(p, chosen.diff_dst_desc(), true),
        weight_in(row_major(Dimensions(p).weight, kType<T>), chosen.weights_desc()),
        fast(is_fast(chosen)) {}
  Executable convolution;
  ImageLayout<T> x, y;
  Reorder weight_in;
  bool fast;
};

template <class T> struct BackwardWeightsPlan {
  explicit BackwardWeightsPlan(const Typed<T>& typed)
      : BackwardWeightsPlan(typed.p, describe_backward_weights<T>(typed.p)) {}
  BackwardWeightsPlan(const ConvProblem& p, const dnnl::convolution_backward_weights::primitive_desc& chosen)
      : convolution(executable<dnnl::convolution_backward_weights>(
            p, chosen,
            {{DNNL_ARG_SRC, chosen.src_desc()},
             {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
             {DNNL_ARG_DIFF_WEIGHTS, chosen.diff_weights_desc()}},
            DNNL_ARG_DIFF_BIAS)),
        x(p, chosen.src_desc(), false),
        y(p, chosen.diff_dst_desc(), true),
        weight_bytes(chosen.diff_weights_desc().get_size()),
        weight_out(chosen.diff_weights_desc(), row_major(Dimensions(p).weight)),
        fast(is_fast(chosen)) {}
  Executable convolution;
  ImageLayout<T> x, y;
  std::size_t weight_bytes;
  Reorder weight_out;
  bool fast;
};

template <template <class> class P, class T>
std::shared_ptr<const P<T>> plan_for(ConvProblem problem, std::int64_t images) {
  static auto& cache = *new PlanCache<Typed<T>, P<T>>;
  const OneLibraryThread one;  // a plan runs with as many threads as there were when it was made
  problem.n = images;
  return cache.get({problem});
}

constexpr double kSmallestChunk = 4e6;  // operations

// The plan of a chunk, and the weights in its layout.
template <template <class> class P, class T> struct PlannedChunk {
  PlannedChunk(const ConvProblem& problem, std::int64_t images, const T* plain)
      : plan(plan_for<P, T>(problem, images)),
        buffer(plan->weight_in.to_bytes()),
        weights(plan->weight_in.convert(plain, buffer.template as<T>())) {}
  std::shared_ptr<const P<T>> plan;
  Scratch buffer;
  const T* weights;
};
template <template <class> class P, class T>
ImageChunks<PlannedChunk<P, T>> chunks_of(const ConvProblem& problem, const T* weights) {
  return {problem, images_per_chunk(problem, kSmallestChunk), weights};
}

// One chunk of the gradient of the result, in the plan's layout. With a fused relu (y is not null), the
// gradient before the relu.
template <class T> class ChunkGradient {
 public:
  ChunkGradient(const ConvProblem& p, std::int64_t images, const ImageLayout<T>& layout, const T* grad,
                const T* y)
      : masked_(y && !layout.in_blocks() ? sizeof(T) * static_cast<std::size_t>(images * p.out_image()) : 0),
        blocked_(layout.is_plain() ? 0 : layout.bytes()),
        data_(grad) {
    if (y && layout.in_blocks()) {
      layout.convert_masked(grad, y, blocked_.as<T>());
      data_ = blocked_.as<T>();
      return;
    }
    if (y) {
      relu_gradient(grad, y, images * p.out_image(), masked_.as<T>());
      data_ = masked_.as<T>();
    }
    data_ = layout.convert(data_, blocked_.as<T>());
  }
  const T* data() const { return data_; }

 private:
  Scratch masked_, blocked_;
  const T* data_;
};

template <template <class> class P> bool has_fast_plan(const ConvProblem& p) {
  return p.n > 0 && plan_for<P, BFloat16>(p, images_per_chunk(p, kSmallestChunk))->fast;
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

bool onednn_takes_bf16(const ConvProblem& p, ConvPass pass) {
  if (!onednn_has_bf16() || !onednn_takes(p)) return false;
  switch (pass) {
    case ConvPass::forward:
      return has_fast_plan<ForwardPlan>(p);
    case ConvPass::backward_data:
      return has_fast_plan<BackwardDataPlan>(p);
    case ConvPass::backward_weights:
      return has_fast_plan<BackwardWeightsPlan>(p);
  }
  return false;
}

template <class T>
void onednn_conv_forward(const ConvProblem& p, const T* x, const T* weight, const float* bias, T* y) {
  if (p.n == 0) return;
  OneLibraryThread one;
  const auto chunks = chunks_of<ForwardPlan>(p, weight);
  parallel_for(p.n, chunks.images(), [&](std::int64_t begin, std::int64_t end) {
    OneLibraryThread one_here;
    const auto& size = chunks.of(end - begin);
    const ForwardPlan<T>& plan = *size.plan;
    const Scratch x_buffer(plan.x.is_plain() ? 0 : plan.x.bytes());
    const Scratch y_buffer(plan.y.is_plain() ? 0 : plan.y.bytes());
    T* out = y + begin * p.out_image();
    T* made = plan.y.is_plain() ? out : y_buffer.as<T>();
    const T* in = plan.x.convert(x + begin * p.in_image(), x_buffer.as<T>());
    if (bias) {
      plan.convolution.run({in, size.weights, made, bias});
    } else {
      plan.convolution.run({in, size.weights, made});
    }
    plan.y.finish(made, out, p.relu);
  });
}

template <class T>
void onednn_conv_backward_data(const ConvProblem& p, const T* grad, const T* y, const T* weight, T* x_grad) {
  if (p.n == 0) return;
  OneLibraryThread one;
  const auto chunks = chunks_of<BackwardDataPlan>(p, weight);
  parallel_for(p.n, chunks.images(), [&](std::int64_t begin, std::int64_t end) {
    OneLibraryThread one_here;
    const auto& size = chunks.of(end - begin);
    const BackwardDataPlan<T>& plan = *size.plan;
    const std::int64_t from = begin * p.out_image();
    const ChunkGradient<T> gradient(p, end - begin, plan.y, grad + from, y ? y + from : nullptr);
    const Scratch x_buffer(plan.x.is_plain() ? 0 : plan.x.bytes());
    T* out = x_grad + begin * p.in_image();
    T* made = plan.x.is_plain() ? out : x_buffer.as<T>();
    plan.convolution.run({gradient.data(), size.weights, made});
    plan.x.finish(made, out, false);
  });
}

namespace {

// The gradients that one chunk of images contributes, row-major.
template <class T>
void chunk_weight_gradient(const ConvProblem& p, std::int64_t images, const T* grad, const T* y, const T* x,
                           float* weight_grad, float* bias_grad) {
  OneLibraryThread one;
  const auto plan = plan_for<BackwardWeightsPlan, T>(p, images);
  const ChunkGradient<T> gradient(p, images, plan->y, grad, y);
  const Scratch x_buffer(plan->x.is_plain() ? 0 : plan->x.bytes());
  const Scratch weight_buffer(plan->weight_out.needed() ? plan->weight_bytes : 0);
  float* made = plan->weight_out.needed() ? weight_buffer.as<float>() : weight_grad;
  const T* in = plan->x.convert(x, x_buffer.as<T>());
  if (bias_grad) {
    plan->convolution.run({in, gradient.data(), made, bias_grad});
  } else {
    plan->convolution.run({in, gradient.data(), made});
  }
  if (plan->weight_out.needed()) plan->weight_out.run(made, weight_grad);
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

template <class T>
void onednn_conv_backward_weights(const ConvProblem& p, const T* grad, const T* y, const T* x,
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
  const std::int64_t images = std::max(images_per_chunk(p, kSmallestChunk), (p.n + most - 1) / most);
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

#define HEDDLE_ONEDNN_CONV(T)                                                                          \
  template void onednn_conv_forward(const ConvProblem&, const T*, const T*, const float*, T*);         \
  template void onednn_conv_backward_data(const ConvProblem&, const T*, const T*, const T*, T*);       \
  template void onednn_conv_backward_weights(const ConvProblem&, const T*, const T*, const T*, float*, \
                                             float*);
HEDDLE_ONEDNN_CONV(float)
HEDDLE_ONEDNN_CONV(BFloat16)
#undef HEDDLE_ONEDNN_CONV

}  // namespace heddle::cpu_kernels
