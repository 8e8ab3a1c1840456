// What stands for cuBLASLt on the emulated GPU: it keeps the descriptors, refuses what is wrong or not aligned, and computes by a
// kernel of one thread an element. Products of 64 terms and more use workspace.
#include <cmath>
#include <cstring>

#include "../emulated_gpu.h"
#include "cuda/libraries/cublaslt_functions.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels::cublaslt {
namespace {

constexpr int kInvalid = 7;
constexpr std::size_t kWorkspace = 1000;

struct Product {
  int compute, scale, transpose_a = 0, transpose_b = 0, epilogue = kEpilogueNone;
  const void* bias = nullptr;
};
struct Matrix {
  int type;
  long long rows, columns, stride, batches = 1, offset = 0;
};
struct Preference {
  std::size_t workspace = 0;
  int schemes = 7, alignment = 256;
};

template <class T> bool read(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return false;
  std::memcpy(&to, value, bytes);
  return true;
}

int create(Handle* handle) {
  if (const int status = emulated_gpu::cublaslt_create_status) return status;
  static int one;
  *handle = &one;
  return kSuccess;
}
int product_create(Descriptor* made, int compute, int scale) {
  *made = new Product{.compute = compute, .scale = scale};
  return kSuccess;
}
int product_set(Descriptor of, int attribute, const void* value, std::size_t bytes) {
  auto& product = *static_cast<Product*>(of);
  bool right = false;
  if (attribute == kTransposeA) right = read(product.transpose_a, value, bytes);
  if (attribute == kTransposeB) right = read(product.transpose_b, value, bytes);
  if (attribute == kEpilogue) right = read(product.epilogue, value, bytes);
  if (attribute == kBiasPointer) right = read(product.bias, value, bytes);
  return right ? kSuccess : kInvalid;
}
int product_destroy(Descriptor of) {
  delete static_cast<Product*>(of);
  return kSuccess;
}
int matrix_create(Descriptor* made, int type, std::uint64_t rows, std::uint64_t columns,
                  std::int64_t stride) {
  const auto height = static_cast<long long>(rows), width = static_cast<long long>(columns);
  if (stride < height) return kInvalid;
  *made = new Matrix{.type = type, .rows = height, .columns = width, .stride = stride};
  return kSuccess;
}
int matrix_set(Descriptor of, int attribute, const void* value, std::size_t bytes) {
  auto& matrix = *static_cast<Matrix*>(of);
  std::int32_t batches = 0;
  std::int64_t offset = 0;
  if (attribute == kBatchCount && read(batches, value, bytes)) return matrix.batches = batches, kSuccess;
  if (attribute == kBatchOffset && read(offset, value, bytes)) return matrix.offset = offset, kSuccess;
  return kInvalid;
}
int matrix_destroy(Descriptor of) {
  delete static_cast<Matrix*>(of);
  return kSuccess;
}
int preference_create(Descriptor* made) {
  *made = new Preference;
  return kSuccess;
}
int preference_set(Descriptor of, int attribute, const void* value, std::size_t bytes) {
  auto& preference = *static_cast<Preference*>(of);
  if (attribute == kMostWorkspace) return read(preference.workspace, value, bytes) ? kSuccess : kInvalid;
  if (attribute == kReductionSchemes) return read(preference.schemes, value, bytes) ? kSuccess : kInvalid;
  if (attribute < kAlignmentOfA || attribute > kAlignmentOfA + 3) return kInvalid;
  return read(preference.alignment, value, bytes) ? kSuccess : kInvalid;
}
int preference_destroy(Descriptor of) {
  delete static_cast<Preference*>(of);
  return kSuccess;
}

// Rows, terms and columns of the product; false if the matrices do not fit each other.
struct Sizes {
  long long m, n, k;
};
bool sizes_of(const Product& product, const Matrix& a, const Matrix& b, const Matrix& d, Sizes& sizes) {
  sizes = {d.rows, d.columns, product.transpose_a ? a.rows : a.columns};
  const bool rows_fit = (product.transpose_a ? a.columns : a.rows) == d.rows;
  const bool columns_fit = (product.transpose_b ? b.rows : b.columns) == d.columns;
  const bool terms_fit = (product.transpose_b ? b.columns : b.rows) == sizes.k;
  const bool batches_fit = a.batches == d.batches && b.batches == d.batches;
  return rows_fit && columns_fit && terms_fit && batches_fit && a.type == b.type;
}

int heuristics(Handle, Descriptor product, Descriptor a, Descriptor b, Descriptor, Descriptor d,
               Descriptor preference, int wanted, Heuristic* found, int* count) {
  Sizes sizes{};
  const auto& wish = *static_cast<Preference*>(preference);
  const auto& left = *static_cast<Matrix*>(a);
  *count = 0;
  if (const int status = emulated_gpu::cublaslt_heuristic_status) return status;
  if (wanted < 1 || wish.schemes != kReductionInComputeType) return kInvalid;
  if (!sizes_of(*static_cast<Product*>(product), left, *static_cast<Matrix*>(b), *static_cast<Matrix*>(d),
                sizes))
    return kInvalid;
  if (wish.alignment < 4) return kNotSupported;
  *found = {};
  found->algorithm.data[0] = static_cast<std::uint64_t>(wish.alignment);
  found->workspace = sizes.k >= 64 && wish.workspace >= kWorkspace ? kWorkspace : 0;
  *count = 1;
  return kSuccess;
}

on_gpu::Type type_of(int type) {
  if (type == kF64) return on_gpu::Type::f64;
  if (type == kF16) return on_gpu::Type::f16;
  return type == kBf16 ? on_gpu::Type::bf16 : on_gpu::Type::f32;
}
double number(const void* from, long long at, int type) {
  return type == kF64 ? on_gpu::load<double>(from, at, type_of(type))
                      : static_cast<double>(on_gpu::load<float>(from, at, type_of(type)));
}

struct Call {
  Product product;
  Matrix a, b, d;
  Sizes sizes;
  const void *of_a, *of_b;
  void *to, *workspace;
  double alpha, beta;

  void operator()(on_gpu::Thread& thread) const {
    if (workspace && thread.global_index() == 0) std::memset(workspace, 1, kWorkspace);
    const long long each = sizes.m * sizes.n;
    for (long long i = thread.global_index(); i < each * d.batches; i += thread.global_size()) {
      const long long batch = i / each, row = i % sizes.m, column = i / sizes.m % sizes.n;
      double sum = 0;
      for (long long k = 0; k < sizes.k; ++k) {
        const long long in_a = product.transpose_a ? k + row * a.stride : row + k * a.stride;
        const long long in_b = product.transpose_b ? column + k * b.stride : k + column * b.stride;
        sum += number(of_a, batch * a.offset + in_a, a.type) * number(of_b, batch * b.offset + in_b, b.type);
      }
      const long long at = batch * d.offset + row + column * d.stride;
      sum *= alpha;
      if (beta != 0) sum += beta * number(to, at, d.type);
      if (d.type != kF64) sum = static_cast<float>(sum);
      if (product.epilogue & kEpilogueBias) sum += number(product.bias, row, d.type);
      if (product.epilogue & kEpilogueRelu && sum < 0) sum = 0;
      if (d.type == kF64)
        static_cast<double*>(to)[at] = sum;
      else
        on_gpu::store(to, at, type_of(d.type), static_cast<float>(sum));
    }
  }
};

int product(Handle, Descriptor product, const void* alpha, const void* a, Descriptor of_a, const void* b,
            Descriptor of_b, const void* beta, const void* c, Descriptor, void* d, Descriptor of_d,
            const Algorithm* algorithm, void* workspace, std::size_t workspace_bytes, void* stream) {
  Call call{.product = *static_cast<Product*>(product),
            .a = *static_cast<Matrix*>(of_a),
            .b = *static_cast<Matrix*>(of_b),
            .d = *static_cast<Matrix*>(of_d),
            .sizes = {},
            .of_a = a,
            .of_b = b,
            .to = d,
            .workspace = workspace,
            .alpha = 0,
            .beta = 0};
  if (c != d || !sizes_of(call.product, call.a, call.b, call.d, call.sizes)) return kInvalid;
  if (call.product.epilogue & kEpilogueBias && !call.product.bias) return kInvalid;
  if (call.sizes.k >= 64 && (!workspace || workspace_bytes != kWorkspace)) return kInvalid;
  for (const void* one : {a, b, static_cast<const void*>(d)}) {
    if (reinterpret_cast<std::uintptr_t>(one) % algorithm->data[0] != 0) return kInvalid;
  }
  const bool is_double = call.product.scale == kF64;
  call.alpha =
      is_double ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  call.beta =
      is_double ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  const char* const problem = on_gpu::launch_over(static_cast<cudaStream_t>(stream),
                                                  call.sizes.m * call.sizes.n * call.d.batches, call);
  return problem ? kInvalid : kSuccess;
}

}  // namespace

const Functions* functions() {
  static constexpr Functions all{create,         product_create,     product_set,    product_destroy,
                                 matrix_create,  matrix_set,         matrix_destroy, preference_create,
                                 preference_set, preference_destroy, heuristics,     product};
  return &all;
}

}  // namespace heddle::cuda_kernels::cublaslt
