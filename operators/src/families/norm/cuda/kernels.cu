// Launches the kernels of the normalisations. Sums are f64 and joined in a fixed order, which is not the CPU's.
#include "families/norm/cuda/channels.h"
#include "families/norm/cuda/long_rows.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

template <class T>
const char* launch_rows(void* stream, const Norm& p, const NormOutputs& out, ScratchBlocks& scratch) {
  const long long length = p.channels * p.inner;
  if (is_long(p.rows, length)) {
    const Parts parts = parts_of(p.rows, length, kLongTeams);
    double* const values = scratch.take_array<double>(2 * p.rows * parts.count);
    const LongNormRows<T> kernel{parts, {}, {kLongTeams, p, out}, values, values + p.rows * parts.count};
    return launch_stages(stream, p.rows, kernel, p.centered ? Stage::first : Stage::second);
  }
  const Teams teams = teams_for(p.rows, p.channels * p.inner, false);
  return launch_teams(stream, p.rows, 1, teams, NormRows<T>{teams, p, out});
}

// Sums over the channels of a problem, which are stored by `ends`.
template <class T>
const char* launch_sums(void* stream, const Norm& p, ChannelSums<T> kernel, ChannelEnds<T> ends,
                        ScratchBlocks& scratch) {
  const long long weights = p.groups * p.channels, length = p.rows / p.groups * p.inner;
  if (weights == 0) return nullptr;
  kernel.p = p;
  kernel.teams = teams_for(weights, length, p.inner == 1);
  kernel.parts = parts_of(weights, length, kernel.teams);
  kernel.sums = scratch.take_array<TwoSums>(kernel.parts.count * weights);
  if (const char* problem = launch_teams(stream, weights, kernel.parts.count, kernel.teams, kernel))
    return problem;
  ends.p = p;
  ends.terms = kernel.terms;
  ends.teams = teams_for(weights, kernel.parts.count, true);
  ends.sums = kernel.sums;
  ends.parts = kernel.parts.count;
  return launch_teams(stream, weights, 1, ends.teams, ends);
}

template <class T>
const char* launch_channels(void* stream, const Norm& p, const NormOutputs& out, ScratchBlocks& scratch) {
  ChannelSums<T> sums{};
  ChannelEnds<T> ends{};
  sums.mean = ends.mean = out.mean;
  ends.scale = out.scale;
  ends.variance = out.variance;
  constexpr Terms kBoth[] = {Terms::values, Terms::squares};
  for (const Terms terms : kBoth) {
    sums.terms = terms;
    if (const char* problem = launch_sums(stream, p, sums, ends, scratch)) return problem;
  }
  const ChannelMap<T> map{p, nullptr, out.mean, out.scale, nullptr, out.y};
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), p.rows * p.channels * p.inner, map);
}

template <class T>
const char* launch_gradients(void* stream, const Norm& p, const NormGradientArrays& arrays,
                             ScratchBlocks& scratch) {
  T* means = nullptr;
  if (p.of_channels || arrays.weight || arrays.bias) {
    if (p.of_channels && arrays.x) means = scratch.take_array<T>(2 * p.channels);
    ChannelSums<T> sums{};
    sums.terms = Terms::gradients;
    sums.g = arrays.g;
    sums.mean = arrays.mean;
    sums.scale = arrays.scale;
    ChannelEnds<T> ends{};
    ends.weight_grad = arrays.weight;
    ends.bias_grad = arrays.bias;
    ends.means = means;
    if (const char* problem = launch_sums(stream, p, sums, ends, scratch)) return problem;
  }
  if (!arrays.x) return nullptr;
  if (p.of_channels) {
    const ChannelMap<T> map{p, arrays.g, arrays.mean, arrays.scale, means, arrays.x};
    return on_gpu::launch_over(static_cast<cudaStream_t>(stream), p.rows * p.channels * p.inner, map);
  }
  const long long length = p.channels * p.inner;
  if (is_long(p.rows, length)) {
    const Parts parts = parts_of(p.rows, length, kLongTeams);
    double* const sums = scratch.take_array<double>(2 * p.rows * parts.count);
    const LongNormRowGradients<T> kernel{
        parts, {}, {kLongTeams, p, arrays}, sums, sums + p.rows * parts.count};
    return launch_stages(stream, p.rows, kernel, Stage::second);
  }
  const Teams teams = teams_for(p.rows, length, false);
  return launch_teams(stream, p.rows, 1, teams, NormRowGradients<T>{teams, p, arrays});
}

template <class T>
const char* launch(void* stream, const Norm& p, const NormOutputs& out, ScratchBlocks& scratch) {
  return p.of_channels ? launch_channels<T>(stream, p, out, scratch)
                       : launch_rows<T>(stream, p, out, scratch);
}

}  // namespace

const char* launch_norm(void* stream, const Norm& norm, const NormOutputs& out, ScratchBlocks& scratch) {
  return Type{norm.dtype} == Type::f64 ? launch<double>(stream, norm, out, scratch)
                                       : launch<float>(stream, norm, out, scratch);
}

const char* launch_norm_backward(void* stream, const Norm& norm, const NormGradientArrays& arrays,
                                 ScratchBlocks& scratch) {
  return Type{norm.dtype} == Type::f64 ? launch_gradients<double>(stream, norm, arrays, scratch)
                                       : launch_gradients<float>(stream, norm, arrays, scratch);
}

}  // namespace heddle::cuda_kernels
