// cuBLASLt's matrices have columns that are dense. So it is asked for the transposed product: d^T (n, m) = b^T (n, k) * a^T (k, m),
// in which a row-major matrix is its own transpose, and a bias is one number a row.
#include "cuda/libraries/cublaslt.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <heddle/dtype.h>
#include <heddle/error.h>
#include <heddle/log.h>

#include "cuda/libraries/cublaslt_functions.h"
#include "cuda/scratch.h"

namespace heddle::cuda_kernels {
namespace {

using namespace cublaslt;

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what NVIDIA recommends for its largest GPUs
constexpr std::size_t kMostPlans = 1024;                   // of one GPU; the oldest one goes
constexpr long long kMostCalls = 16;                       // calls of the library for one product

void check(int status, const char* function) {
  if (status != kSuccess)
    throw Error(std::string(function) + " failed with status " + std::to_string(status));
}

// Whether the library has nothing for this form, or for this GPU.
bool refuses(int status) { return status == kNotSupported || status == kOtherArchitecture; }

bool wants_tf32() {
  static const bool wanted = [] {
    const char* const text = std::getenv("HEDDLE_TF32");
    return text && std::strcmp(text, "1") == 0;
  }();
  return wanted;
}

int type_of(unsigned char dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::f64:
      return kF64;
    case DType::f16:
      return kF16;
    case DType::bf16:
      return kBf16;
    default:
      return kF32;
  }
}

// What a plan depends on besides the GPU.
struct Form {
  long long m, n, k, batches, strides[3], batch_strides[3];
  int transposed_a, transposed_b, type, d_type, epilogue, alignment;
  auto operator<=>(const Form&) const = default;
};

// The largest power of two up to 256 that divides the addresses of all matrices.
int alignment_of(const Gemm& g) {
  const std::size_t size = size_of(static_cast<DType>(g.type));
  std::uintptr_t all = 256;
  for (const void* one : {g.a.data, g.b.data, static_cast<const void*>(g.d), g.bias})
    all |= reinterpret_cast<std::uintptr_t>(one);
  for (const GemmAxes* axes : {&g.batches, &g.terms}) {
    for (int d = 0; d < axes->dims; ++d) all |= static_cast<std::uintptr_t>(axes->a[d] | axes->b[d]) * size;
  }
  if (g.batches.dims > 0)
    all |= static_cast<std::uintptr_t>(g.d_batch) * size_of(static_cast<DType>(g.d_type));
  return static_cast<int>(all & -all);
}

Form form_of(const Gemm& g, int alignment) {
  const bool several = g.batches.dims > 0;
  return {g.m,
          g.n,
          g.k,
          several ? g.batches.sizes[0] : 1,
          {g.a.stride, g.b.stride, g.d_stride},
          {several ? g.batches.a[0] : 0, several ? g.batches.b[0] : 0, several ? g.d_batch : 0},
          g.a.transposed,
          g.b.transposed,
          type_of(g.type),
          type_of(g.d_type),
          kEpilogueNone * (!g.bias && !g.relu) + kEpilogueRelu * g.relu + kEpilogueBias * (g.bias != nullptr),
          alignment};
}

// A descriptor of the library, and the function that ends it.
class Owned {
 public:
  Owned() = default;
  Owned(Descriptor made, int (*destroy)(Descriptor)) : made_(made, destroy) {}
  Descriptor get() const { return made_.get(); }

 private:
  std::shared_ptr<void> made_;
};

struct Plan {
  Form form{};
  Owned product, a, b, d;
  Heuristic algorithm{};
  bool found = false;  // whether the library has an algorithm
};

Owned matrix(const Functions& call, int type, long long rows, long long columns, long long stride,
             long long batches, long long batch_stride) {
  Descriptor made = nullptr;
  check(call.matrix_create(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                           stride),
        "cublasLtMatrixLayoutCreate");
  const Owned owned(made, call.matrix_destroy);
  const auto count = static_cast<std::int32_t>(batches);
  const std::int64_t offset = batch_stride;
  check(call.matrix_set(made, kBatchCount, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
  check(call.matrix_set(made, kBatchOffset, &offset, sizeof offset), "cublasLtMatrixLayoutSetAttribute");
  return owned;
}

Owned product(const Functions& call, const Form& form, const void* bias) {
  Descriptor made = nullptr;
  const bool is_double = form.type == kF64;
  const bool short_floats = form.type == kF32 && wants_tf32();
  const int compute = is_double ? kComputeF64 : short_floats ? kComputeTf32 : kComputeF32;
  check(call.product_create(&made, compute, is_double ? kF64 : kF32), "cublasLtMatmulDescCreate");
  const Owned owned(made, call.product_destroy);
  const auto set = [&](int attribute, std::int32_t value) {
    check(call.product_set(made, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(kTransposeA, form.transposed_b);
  set(kTransposeB, form.transposed_a);
  set(kEpilogue, form.epilogue);
  if (bias) check(call.product_set(made, kBiasPointer, &bias, sizeof bias), "cublasLtMatmulDescSetAttribute");
  return owned;
}

Owned preference(const Functions& call, int alignment) {
  Descriptor made = nullptr;
  check(call.preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const Owned owned(made, call.preference_destroy);
  const std::size_t workspace = kWorkspace;
  check(call.preference_set(made, kMostWorkspace, &workspace, sizeof workspace),
        "cublasLtMatmulPreferenceSetAttribute");
  // Sums of halves are rounded once, and no sum depends on which block ends first.
  const auto set = [&](int attribute, std::uint32_t value) {
    check(call.preference_set(made, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  set(kReductionSchemes, kReductionInComputeType);
  for (int i = 0; i < 4; ++i) set(kAlignmentOfA + i, static_cast<std::uint32_t>(alignment));
  return owned;
}

// The library's matrix of (rows, columns), whose memory holds the transpose of what is multiplied.
Owned operand(const Functions& call, const Form& form, int which) {
  const bool is_a = which == 0;
  const long long rows = is_a ? form.m : form.k, columns = is_a ? form.k : form.n;
  const bool transposed = is_a ? form.transposed_a : form.transposed_b;
  return matrix(call, form.type, transposed ? rows : columns, transposed ? columns : rows,
                form.strides[which], form.batches, form.batch_strides[which]);
}

Plan make_plan(const Functions& call, Handle handle, const Form& form, const void* bias) {
  Plan plan;
  plan.form = form;
  plan.product = product(call, form, bias);
  plan.a = operand(call, form, 0);
  plan.b = operand(call, form, 1);
  plan.d = matrix(call, form.d_type, form.n, form.m, form.strides[2], form.batches, form.batch_strides[2]);
  const Owned wanted = preference(call, form.alignment);
  int count = 0;
  const int status = call.heuristics(handle, plan.product.get(), plan.b.get(), plan.a.get(), plan.d.get(),
                                     plan.d.get(), wanted.get(), 1, &plan.algorithm, &count);
  if (!refuses(status)) check(status, "cublasLtMatmulAlgoGetHeuristic");
  plan.found = status == kSuccess && count > 0 && plan.algorithm.status == kSuccess;
  return plan;
}

// The library and the plans of one GPU. The mutex is held while a product is enqueued, since the bias is a part of a plan.
struct Gpu {
  std::mutex mutex;
  Handle handle = nullptr;
  std::list<Plan> plans;  // the last one used first
  std::map<Form, std::list<Plan>::iterator> by_form;
  std::size_t made = 0, called = 0;
  bool refused = false;  // the library cannot be used on this GPU

  // Makes the handle at the first call. False if the library cannot.
  bool can_call(const Functions& call, Device device) {
    if (handle || refused) return !refused;
    const int status = call.create(&handle);
    if (status == kSuccess) return true;
    handle = nullptr;
    refused = true;
    write_log("cuBLASLt cannot be used on " + device.to_string() + ": cublasLtCreate failed with status " +
              std::to_string(status) +
              ". Matrix products there are computed by Heddle's own kernel, which is slower.");
    return false;
  }

  Plan& plan_of(const Functions& call, const Form& form, const void* bias) {
    if (const auto found = by_form.find(form); found != by_form.end()) {
      plans.splice(plans.begin(), plans, found->second);
      return plans.front();
    }
    plans.push_front(make_plan(call, handle, form, bias));
    by_form[form] = plans.begin();
    ++made;
    if (plans.size() > kMostPlans) {
      by_form.erase(plans.back().form);
      plans.pop_back();
    }
    return plans.front();
  }
};

constexpr std::size_t kGpus = 64;

// Never destroyed: CUDA may end first.
Gpu& gpu_of(int index) {
  static auto* const all = new std::vector<Gpu>(kGpus);
  return all->at(static_cast<std::size_t>(index));
}

bool call_plan(const KernelContext& context, const Functions& call, const Gemm& g, int alignment) {
  const Device device = context.stream().device();
  Gpu& gpu = gpu_of(device.index);
  const std::lock_guard guard(gpu.mutex);
  if (!gpu.can_call(call, device)) return false;
  Plan& plan = gpu.plan_of(call, form_of(g, alignment), g.bias);
  if (!plan.found) return false;
  if (g.bias)
    check(call.product_set(plan.product.get(), kBiasPointer, &g.bias, sizeof g.bias),
          "cublasLtMatmulDescSetAttribute");
  const Scratch workspace(context, "the workspace of a matrix product", plan.algorithm.workspace);
  const float alpha = static_cast<float>(g.alpha), beta = static_cast<float>(g.beta);
  const bool is_double = plan.form.type == kF64;
  const int status = call.product(
      gpu.handle, plan.product.get(), is_double ? static_cast<const void*>(&g.alpha) : &alpha, g.b.data,
      plan.b.get(), g.a.data, plan.a.get(), is_double ? static_cast<const void*>(&g.beta) : &beta, g.d,
      plan.d.get(), g.d, plan.d.get(), &plan.algorithm.algorithm, workspace.data(), plan.algorithm.workspace,
      context.stream().native());
  if (refuses(status)) return plan.found = false;
  check(status, "cublasLtMatmul");
  ++gpu.called;
  return true;
}

const void* moved(const void* data, long long elements, unsigned char dtype) {
  return static_cast<const std::byte*>(data) +
         elements * static_cast<long long>(size_of(static_cast<DType>(dtype)));
}

// The product with its outer batches, all but the last axis, at `index`, and its term.
Gemm part(const Gemm& g, long long index, long long term) {
  Gemm one = g;
  long long a = 0, b = 0, rest = index;
  const int last = g.batches.dims - 1;
  for (int d = last - 1; d >= 0; --d) {
    const long long at = rest % g.batches.sizes[d];
    rest /= g.batches.sizes[d];
    a += at * g.batches.a[d];
    b += at * g.batches.b[d];
  }
  for (int d = g.terms.dims - 1; d >= 0; --d) {
    const long long at = term % g.terms.sizes[d];
    term /= g.terms.sizes[d];
    a += at * g.terms.a[d];
    b += at * g.terms.b[d];
  }
  one.a.data = moved(g.a.data, a, g.type);
  one.b.data = moved(g.b.data, b, g.type);
  one.batches.dims = g.batches.dims > 0 ? 1 : 0;
  one.terms.dims = 0;
  if (last < 0) return one;
  one.batches.sizes[0] = g.batches.sizes[last];
  one.batches.a[0] = g.batches.a[last];
  one.batches.b[0] = g.batches.b[last];
  one.d = const_cast<void*>(moved(g.d, index * g.batches.sizes[last] * g.d_batch, g.d_type));
  return one;
}

// Rows that overlap in memory are refused.
bool rows_follow(long long stride, long long rows, long long columns) {
  return rows <= 1 || stride >= columns;
}

bool rows_follow(const Gemm& g) {
  return (g.a.transposed ? rows_follow(g.a.stride, g.k, g.m) : rows_follow(g.a.stride, g.m, g.k)) &&
         (g.b.transposed ? rows_follow(g.b.stride, g.n, g.k) : rows_follow(g.b.stride, g.k, g.n)) &&
         rows_follow(g.d_stride, g.m, g.n);
}

}  // namespace

bool cublaslt_takes(const Gemm& g) {
  if (!is_floating(static_cast<DType>(g.type)) || g.k == 0 || !rows_follow(g)) return false;
  constexpr long long kMost = 0x7fffffff;
  if (g.m > kMost || g.n > kMost || g.k > kMost) return false;
  const long long terms = g.terms.count();
  if (terms > 1 && (g.bias || g.relu || g.d_type != g.type || is_half(static_cast<DType>(g.type))))
    return false;
  const long long inner = g.batches.dims > 0 ? g.batches.sizes[g.batches.dims - 1] : 1;
  if (inner > 0xffff || terms == 0 || terms * (g.batches.count() / std::max(inner, 1ll)) > kMostCalls)
    return false;
  return functions() != nullptr;
}

bool cublaslt_gemm(const KernelContext& context, const Gemm& g) {
  const Functions& call = *functions();
  const long long inner = g.batches.dims > 0 ? g.batches.sizes[g.batches.dims - 1] : 1;
  const long long outer = g.batches.count() / inner, terms = g.terms.count();
  const int alignment = alignment_of(g);
  for (long long index = 0; index < outer; ++index) {
    for (long long term = 0; term < terms; ++term) {
      Gemm one = part(g, index, term);
      if (term > 0) one.beta = 1;
      if (!call_plan(context, call, one, alignment)) {
        if (index == 0 && term == 0) return false;
        throw Error("cuBLASLt takes a part of a matrix product and refuses another of the same form");
      }
    }
  }
  return true;
}

CublasltStats cublaslt_stats() {
  CublasltStats all{};
  for (std::size_t i = 0; i < kGpus; ++i) {
    Gpu& gpu = gpu_of(static_cast<int>(i));
    const std::lock_guard guard(gpu.mutex);
    all.plans += gpu.plans.size();
    all.made += gpu.made;
    all.called += gpu.called;
  }
  return all;
}

}  // namespace heddle::cuda_kernels
