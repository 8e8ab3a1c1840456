#include "cpu/gemm_half.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "cpu/library_threads.h"
#include "cpu/loops/chunks.h"
#include "cpu/onednn.h"
#include "cpu/plan_cache.h"
#include "cpu/scratch.h"

namespace heddle::cpu_kernels {
namespace {

using dnnl::memory;

// A product of bf16 as oneDNN describes it.
struct Product {
  std::int64_t m, n, k, a_stride, b_stride, c_stride;
  bool a_transposed, b_transposed;
  bool wide;        // whether the result is f32, not bf16
  bool accumulate;  // whether it is added to what is there
  auto operator<=>(const Product&) const = default;
};

struct ProductPlan {
  explicit ProductPlan(const Product& p) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed,
                           memory::data_type type) {
      return memory::desc({rows, columns}, type,
                          transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
    };
    const auto half = memory::data_type::bf16;
    const memory::desc a = matrix(p.m, p.k, p.a_stride, p.a_transposed, half),
                       b = matrix(p.k, p.n, p.b_stride, p.b_transposed, half),
                       c = matrix(p.m, p.n, p.c_stride, false, p.wide ? memory::data_type::f32 : half);
    dnnl::primitive_attr attributes = caller_scratch();
    if (p.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1);
      attributes.set_post_ops(sum);
    }
    const auto description = describe<dnnl::matmul>(attributes, a, b, c);
    product =
        Executable(dnnl::matmul(description), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}},
                   description.scratchpad_desc());
  }
  Executable product;
};

// A plan takes longer to make than small products take, and these come in many shapes.
constexpr std::int64_t kLeast = 32 * 32 * 32;

bool is_native(std::int64_t m, std::int64_t n, std::int64_t k) {
  return onednn_has_bf16() && m > 0 && n > 0 && m * n * k >= kLeast;
}

void run_native(const Product& product, const BFloat16* a, const BFloat16* b, void* c) {
  static auto& plans = *new PlanCache<Product, ProductPlan>;
  const OneLibraryThread one;
  plans.get(product)->product.run({a, b, c});
}

// The elements of an operand as f32, with adjacent rows.
template <class H> class WideOperand {
 public:
  WideOperand(std::int64_t rows, std::int64_t columns, const GemmOperand<H>& from)
      : width_(from.transposed ? rows : columns),
        transposed_(from.transposed),
        memory_(static_cast<std::size_t>(rows * columns) * sizeof(float)) {
    const std::int64_t lines = from.transposed ? columns : rows;
    for (std::int64_t i = 0; i < lines; ++i)
      widen(from.data + i * from.stride, memory_.as<float>() + i * width_, static_cast<std::size_t>(width_));
  }
  GemmOperand<float> operand() const {
    return {memory_.as<const float>(), std::max<std::int64_t>(1, width_), transposed_};
  }

 private:
  std::int64_t width_;
  bool transposed_;
  Scratch memory_;
};

}  // namespace

template <class H>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<H> a, GemmOperand<H> b, float* c,
          std::int64_t ldc, bool accumulate) requires is_half_type<H> {
  if constexpr (std::is_same_v<H, BFloat16>) {
    if (is_native(m, n, k)) {
      return run_native({m, n, k, a.stride, b.stride, ldc, a.transposed, b.transposed, true, accumulate},
                        a.data, b.data, c);
    }
  }
  const WideOperand<H> left(m, k, a), right(k, n, b);
  gemm(m, n, k, left.operand(), right.operand(), c, ldc, accumulate);
}

template <class H>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<H> a, GemmOperand<H> b, H* c,
          std::int64_t ldc) requires is_half_type<H> {
  if constexpr (std::is_same_v<H, BFloat16>) {
    if (is_native(m, n, k)) {
      return run_native({m, n, k, a.stride, b.stride, ldc, a.transposed, b.transposed, false, false}, a.data,
                        b.data, c);
    }
  }
  const Scratch wide(static_cast<std::size_t>(m * n) * sizeof(float));
  gemm(m, n, k, a, b, wide.as<float>(), std::max<std::int64_t>(1, n), false);
  for (std::int64_t i = 0; i < m; ++i)
    narrow(wide.as<const float>() + i * n, c + i * ldc, static_cast<std::size_t>(n));
}

template <class H> void widen_all(const H* from, float* to, std::int64_t count) {
  parallel_chunks(count, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    widen(from + begin, to + begin, static_cast<std::size_t>(end - begin));
  });
}

template <class H> void narrow_all(const float* from, H* to, std::int64_t count) {
  parallel_chunks(count, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    narrow(from + begin, to + begin, static_cast<std::size_t>(end - begin));
  });
}

#define HEDDLE_HALF_GEMM(H)                                                                            \
  template void gemm(std::int64_t, std::int64_t, std::int64_t, GemmOperand<H>, GemmOperand<H>, float*, \
                     std::int64_t, bool);                                                              \
  template void gemm(std::int64_t, std::int64_t, std::int64_t, GemmOperand<H>, GemmOperand<H>, H*,     \
                     std::int64_t);                                                                    \
  template void widen_all(const H*, float*, std::int64_t);                                             \
  template void narrow_all(const float*, H*, std::int64_t);
HEDDLE_HALF_GEMM(BFloat16)
HEDDLE_HALF_GEMM(Float16)
#undef HEDDLE_HALF_GEMM

}  // namespace heddle::cpu_kernels
