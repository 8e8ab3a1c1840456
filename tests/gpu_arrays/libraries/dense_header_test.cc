// Heddle's own declarations of cuSOLVER and cuBLAS, compared with the libraries' headers, where there are some: the numbers, and the
// arguments of each function. Compiling this file is the test.
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <type_traits>

#include "families/linalg/cuda/dense_functions.h"

namespace ours = heddle::cuda_kernels::dense;

namespace {

// Arguments of both declarations are passed in the same way: pointers, and integers and enumerations of one size.
template <class A, class B> constexpr bool same_argument() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using To = std::remove_cv_t<std::remove_pointer_t<A>>;
    if constexpr (std::is_arithmetic_v<To>)
      return std::is_same_v<To, std::remove_cv_t<std::remove_pointer_t<B>>>;
    else
      return true;
  } else {
    return !std::is_pointer_v<A> && !std::is_pointer_v<B> && sizeof(A) == sizeof(B);
  }
}

template <class Ours, class Theirs> struct Same;
template <class... A, class R, class... B> struct Same<int (*)(A...), R (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B) || sizeof(R) != sizeof(int))
      return false;
    else
      return (same_argument<A, B>() && ...);
  }();
};

template <auto member, class Theirs> constexpr bool same_as(Theirs*) {
  using Member = decltype(member);
  if constexpr (std::is_member_object_pointer_v<Member>) {
    return []<class C, class F>(F C::*) { return Same<F, Theirs*>::value; }(member);
  }
  return false;
}

#define HEDDLE_SAME(member, library, name)                                                                   \
  static_assert(same_as<&ours::Routines<float>::member>(static_cast<decltype(&library##S##name)>(nullptr))); \
  static_assert(same_as<&ours::Routines<double>::member>(static_cast<decltype(&library##D##name)>(nullptr)))

HEDDLE_SAME(potrf_size, cusolverDn, potrf_bufferSize);
HEDDLE_SAME(potrf, cusolverDn, potrf);
HEDDLE_SAME(potrf_batched, cusolverDn, potrfBatched);
HEDDLE_SAME(getrf_size, cusolverDn, getrf_bufferSize);
HEDDLE_SAME(getrf, cusolverDn, getrf);
HEDDLE_SAME(getrs, cusolverDn, getrs);
HEDDLE_SAME(geqrf_size, cusolverDn, geqrf_bufferSize);
HEDDLE_SAME(geqrf, cusolverDn, geqrf);
HEDDLE_SAME(orgqr_size, cusolverDn, orgqr_bufferSize);
HEDDLE_SAME(orgqr, cusolverDn, orgqr);
HEDDLE_SAME(gesvd_size, cusolverDn, gesvd_bufferSize);
HEDDLE_SAME(gesvd, cusolverDn, gesvd);
HEDDLE_SAME(gesvdj_batched_size, cusolverDn, gesvdjBatched_bufferSize);
HEDDLE_SAME(gesvdj_batched, cusolverDn, gesvdjBatched);
HEDDLE_SAME(syevd_size, cusolverDn, syevd_bufferSize);
HEDDLE_SAME(syevd, cusolverDn, syevd);
HEDDLE_SAME(syevj_batched_size, cusolverDn, syevjBatched_bufferSize);
HEDDLE_SAME(syevj_batched, cusolverDn, syevjBatched);
HEDDLE_SAME(getrf_batched, cublas, getrfBatched);
HEDDLE_SAME(getrs_batched, cublas, getrsBatched);
HEDDLE_SAME(trsm, cublas, trsm_v2);
HEDDLE_SAME(trsm_batched, cublas, trsmBatched);

static_assert(ours::kSuccess == CUSOLVER_STATUS_SUCCESS && ours::kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(ours::kLower == CUBLAS_FILL_MODE_LOWER && ours::kUpper == CUBLAS_FILL_MODE_UPPER);
static_assert(ours::kPlain == CUBLAS_OP_N && ours::kTransposed == CUBLAS_OP_T);
static_assert(ours::kRight == CUBLAS_SIDE_RIGHT && ours::kNonUnit == CUBLAS_DIAG_NON_UNIT);
static_assert(ours::kNoVectors == CUSOLVER_EIG_MODE_NOVECTOR && ours::kVectors == CUSOLVER_EIG_MODE_VECTOR);
static_assert(sizeof(gesvdjInfo_t) == sizeof(void*) && sizeof(syevjInfo_t) == sizeof(void*));

}  // namespace
