#include "cuda/gemm.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include <heddle/dtype.h>
#include <heddle/error.h>

#include "cuda/arrays.h"
#include "cuda/libraries/cublaslt.h"
#include "cuda/scratch.h"
#include "cuda/tiled_gemm.h"

namespace heddle::cuda_kernels {
namespace {

GemmWay way_of_environment() {
  const char* const text = std::getenv("HEDDLE_GPU_PRODUCTS");
  if (!text || !*text) return GemmWay::both;
  if (std::strcmp(text, "own") == 0) return GemmWay::own;
  if (std::strcmp(text, "library") == 0) return GemmWay::library;
  throw InvalidArgument("HEDDLE_GPU_PRODUCTS: got '" + std::string(text) + "', want own or library");
}

std::atomic<GemmWay>& way() {
  static std::atomic<GemmWay> chosen = way_of_environment();
  return chosen;
}

void own(const KernelContext& context, const Gemm& gemm) {
  const Scratch parts(context, "parts of a matrix product", static_cast<std::size_t>(gemm_bytes(gemm)));
  check_launch(context, launch_gemm(context.stream().native(), gemm, parts.data()));
}

// cuBLASLt has no bias of f32 beside halves, and would round before the bias is added: it writes f32.
bool by_wide_library(const KernelContext& context, const Gemm& gemm) {
  const long long elements = gemm.batches.count() * gemm.m * gemm.n;
  const Scratch sums(context, "sums of a matrix product", static_cast<std::size_t>(elements) * sizeof(float));
  Gemm wide = gemm;
  wide.d = sums.data();
  wide.d_stride = gemm.n;
  wide.d_batch = gemm.m * gemm.n;
  wide.d_type = static_cast<unsigned char>(DType::f32);
  wide.alpha = 1;
  wide.beta = 0;
  wide.bias = nullptr;
  wide.relu = false;
  if (!cublaslt_gemm(context, wide)) return false;
  check_launch(context, launch_gemm_end(context.stream().native(), gemm, sums.data()));
  return true;
}

bool by_library(const KernelContext& context, const Gemm& gemm) {
  if (!cublaslt_takes(gemm)) return false;
  if (gemm.bias && gemm.bias_type != gemm.d_type) return by_wide_library(context, gemm);
  return cublaslt_gemm(context, gemm);
}

}  // namespace

void gemm(const KernelContext& context, const Gemm& gemm) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.batches.count() == 0) return;
  if (way() == GemmWay::own || !by_library(context, gemm)) own(context, gemm);
}

void choose_gemm(GemmWay chosen) { way() = chosen; }

}  // namespace heddle::cuda_kernels
