// Kernels of ops on all weights at once. Work is divided by sizes alone, so that sums are reproducible.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/number_text.h>
#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

// Elements [begin, end) of an array.
struct Piece {
  std::size_t array;
  std::int64_t begin, end;
};

// The elements of all arrays, in groups of about kUpdateGrain: parts of large arrays, or several small
// arrays.
class PieceGroups {
 public:
  explicit PieceGroups(std::span<const std::int64_t> sizes) {
    std::int64_t room = 0;
    for (std::size_t array = 0; array < sizes.size(); ++array) {
      for (std::int64_t begin = 0; begin < sizes[array];) {
        if (room == 0) {
          starts_.push_back(pieces_.size());
          room = kUpdateGrain;
        }
        const std::int64_t end = std::min(sizes[array], begin + room);
        pieces_.push_back({array, begin, end});
        room -= end - begin;
        begin = end;
      }
    }
    starts_.push_back(pieces_.size());
  }
  std::int64_t size() const { return std::ssize(starts_) - 1; }

  // Calls body(piece) for all pieces; those of a group on one worker, in their order.
  template <class F> void for_each(const F& body) const {
    for_each_group([&](std::size_t, std::span<const Piece> group) {
      for (const Piece& piece : group) body(piece);
    });
  }
  template <class F> void for_each_group(const F& body) const {
    parallel_chunks(size(), 1, [&](std::int64_t first, std::int64_t last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
        body(i, std::span(pieces_).subspan(starts_[i], starts_[i + 1] - starts_[i]));
    });
  }

 private:
  std::vector<Piece> pieces_;
  std::vector<std::size_t> starts_;  // of the groups, and the end
};

const NDArray& values_of(const ClippedGrad& grad) {
  return grad.whole.defined() ? grad.whole : grad.rows.values();
}

std::vector<std::int64_t> sizes_of(const char* op, std::span<const ClippedGrad> grads) {
  std::vector<std::int64_t> sizes;
  for (const ClippedGrad& grad : grads)
    sizes.push_back(grad.whole.defined()
                        ? grad.whole.size()
                        : std::ssize(present_rows(op, grad.rows)) * row_width(grad.rows.shape()));
  return sizes;
}

void clip_norm_kernel(const KernelContext&, std::span<const ClippedGrad> grads, const NDArray& norm,
                      double max_norm, bool refuse_nonfinite) {
  const std::vector<std::int64_t> sizes = sizes_of("clip_grad_norm", grads);
  const PieceGroups groups(sizes);
  std::vector<double> sums(static_cast<std::size_t>(groups.size()));
  groups.for_each_group([&](std::size_t index, std::span<const Piece> group) {
    for (const Piece& piece : group) {
      const NDArray& values = values_of(grads[piece.array]);
      visit_floating(values.dtype(), [&]<class T>() {
        const T* x = values.data<const T>() + piece.begin;
        sums[index] += sum_in_order(piece.end - piece.begin,
                                    [x](std::int64_t i) { return static_cast<double>(x[i]) * x[i]; });
      });
    }
  });
  double sum = 0;
  for (const double one : sums) sum += one;
  const double total = std::sqrt(sum);
  if (!std::isfinite(total) && refuse_nonfinite)
    throw Error("clip_grad_norm: the norm of the gradients is " + number_text(total));
  visit_floating(norm.dtype(), [&]<class T>() { *norm.data<T>() = static_cast<T>(total); });
  const double factor = max_norm / (total + 1e-6);
  if (!std::isfinite(total) || factor >= 1) return;
  groups.for_each([&](const Piece& piece) {
    const NDArray& values = values_of(grads[piece.array]);
    visit_floating(values.dtype(), [&]<class T>() {
      T* x = values.data<T>();
      const T by = static_cast<T>(factor);
      for (std::int64_t i = piece.begin; i < piece.end; ++i) x[i] *= by;
    });
  });
}

void clip_value_kernel(const KernelContext&, std::span<const ClippedGrad> grads, double max_value) {
  const std::vector<std::int64_t> sizes = sizes_of("clip_grad_value", grads);
  PieceGroups(sizes).for_each([&](const Piece& piece) {
    const NDArray& values = values_of(grads[piece.array]);
    visit_floating(values.dtype(), [&]<class T>() {
      T* x = values.data<T>();
      const T most = static_cast<T>(max_value);
      // Comparisons with NaN are false, so that it stays.
      for (std::int64_t i = piece.begin; i < piece.end; ++i)
        x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
    });
  });
}

// Whether all elements are finite: inf and NaN times 0 are NaN, which stays in a sum.
template <class T> bool all_finite(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 64 / sizeof(T);
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * T{0};
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += x[i] * T{0};
  return std::all_of(std::begin(lanes), std::end(lanes), [](T sum) { return sum == T{0}; });
}

void unscale_kernel(const KernelContext&, std::span<const ClippedGrad> grads, const NDArray& scale,
                    const NDArray& nonfinite) {
  const PieceGroups groups(sizes_of("unscale_gradients", grads));
  std::vector<char> bad(static_cast<std::size_t>(groups.size()), 0);
  groups.for_each_group([&](std::size_t index, std::span<const Piece> group) {
    for (const Piece& piece : group) {
      const NDArray& values = values_of(grads[piece.array]);
      visit_floating(values.dtype(), [&]<class T>() {
        if (!all_finite(values.data<const T>() + piece.begin, piece.end - piece.begin)) bad[index] = 1;
      });
    }
  });
  const bool skips = std::any_of(bad.begin(), bad.end(), [](char one) { return one != 0; });
  if (skips) *nonfinite.data<float>() = 1;
  const double factor = 1 / static_cast<double>(*scale.data<const float>());
  groups.for_each([&](const Piece& piece) {
    const NDArray& values = values_of(grads[piece.array]);
    visit_floating(values.dtype(), [&]<class T>() {
      T* x = values.data<T>();
      if (skips) return void(std::fill(x + piece.begin, x + piece.end, T{0}));
      const T by = static_cast<T>(factor);
      for (std::int64_t i = piece.begin; i < piece.end; ++i) x[i] *= by;
    });
  });
}

void loss_scale_kernel(const KernelContext&, const operators_detail::LossScaleState& state, double growth,
                       double backoff, std::int64_t interval) {
  float& scale = *state.scale.data<float>();
  std::int64_t& good = *state.good.data<std::int64_t>();
  const auto multiply = [&scale](double factor) {
    constexpr double kLeast = std::numeric_limits<float>::min(), kMost = 0x1p126;
    scale = static_cast<float>(std::clamp(static_cast<double>(scale) * factor, kLeast, kMost));
  };
  if (std::exchange(*state.nonfinite.data<float>(), 0.0f) != 0) {
    multiply(backoff);
    good = 0;
    ++*state.skipped.data<std::int64_t>();
  } else if (++good >= interval) {
    multiply(growth);
    good = 0;
  }
}

std::vector<std::int64_t> sizes_of(std::span<const NDArray> arrays) {
  std::vector<std::int64_t> sizes;
  for (const NDArray& array : arrays) sizes.push_back(array.size());
  return sizes;
}

void average_kernel(const KernelContext&, std::span<const NDArray> averages, std::span<const NDArray> weights,
                    double decay) {
  PieceGroups(sizes_of(averages)).for_each([&](const Piece& piece) {
    visit_floating(averages[piece.array].dtype(), [&]<class T>() {
      T* average = averages[piece.array].data<T>();
      const T* weight = weights[piece.array].data<const T>();
      const T share = static_cast<T>(1 - decay);
      for (std::int64_t i = piece.begin; i < piece.end; ++i) average[i] += share * (weight[i] - average[i]);
    });
  });
}

void swap_kernel(const KernelContext&, std::span<const NDArray> a, std::span<const NDArray> b) {
  PieceGroups(sizes_of(a)).for_each([&](const Piece& piece) {
    visit_floating(a[piece.array].dtype(), [&]<class T>() {
      T *left = a[piece.array].data<T>(), *right = b[piece.array].data<T>();
      std::swap_ranges(left + piece.begin, left + piece.end, right + piece.begin);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(many_weights) {
  table.add<ClipNormKernel>("clip_grad_norm", DeviceKind::cpu, clip_norm_kernel);
  table.add<ClipValueKernel>("clip_grad_value", DeviceKind::cpu, clip_value_kernel);
  table.add<UnscaleKernel>("unscale_gradients", DeviceKind::cpu, unscale_kernel);
  table.add<LossScaleKernel>("update_loss_scale", DeviceKind::cpu, loss_scale_kernel);
  table.add<AverageKernel>("average_update", DeviceKind::cpu, average_kernel);
  table.add<SwapKernel>("swap_values", DeviceKind::cpu, swap_kernel);
}

}  // namespace heddle::cpu_kernels
