// Heddle's own declarations of NCCL, compared with the library's header, where there is one: the numbers, and the arguments of each
// function. Compiling this file is the test.
#include <cstddef>
#include <nccl.h>
#include <type_traits>

#include "device/nccl_functions.h"

namespace ours = heddle::comm_detail::nccl_library;

namespace {

// Arguments of both declarations are passed in the same way: pointers, and integers and enumerations of one size.
template <class A, class B> constexpr bool same_argument() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>)
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  else
    return sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B>;
}

template <class Ours, class Theirs> struct Same;
template <class P, class... A, class R, class... B> struct Same<P (*)(A...), R (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return same_argument<P, R>() && (same_argument<A, B>() && ...);
  }();
};

#define HEDDLE_SAME(member, function) \
  static_assert(Same<decltype(ours::Functions::member), decltype(&function)>::value)

HEDDLE_SAME(version, ncclGetVersion);
HEDDLE_SAME(new_id, ncclGetUniqueId);
HEDDLE_SAME(error_text, ncclGetErrorString);
HEDDLE_SAME(last_error, ncclGetLastError);
HEDDLE_SAME(init, ncclCommInitRankConfig);
HEDDLE_SAME(finalize, ncclCommFinalize);
HEDDLE_SAME(destroy, ncclCommDestroy);
HEDDLE_SAME(abort, ncclCommAbort);
HEDDLE_SAME(async_error, ncclCommGetAsyncError);
HEDDLE_SAME(group_start, ncclGroupStart);
HEDDLE_SAME(group_end, ncclGroupEnd);
HEDDLE_SAME(all_reduce, ncclAllReduce);
HEDDLE_SAME(reduce, ncclReduce);
HEDDLE_SAME(broadcast, ncclBroadcast);
HEDDLE_SAME(all_gather, ncclAllGather);
HEDDLE_SAME(reduce_scatter, ncclReduceScatter);
HEDDLE_SAME(send, ncclSend);
HEDDLE_SAME(recv, ncclRecv);

static_assert(ours::kSuccess == ncclSuccess && ours::kInProgress == ncclInProgress);
static_assert(ours::kI8 == ncclInt8 && ours::kU8 == ncclUint8 && ours::kI32 == ncclInt32 &&
              ours::kU32 == ncclUint32);
static_assert(ours::kI64 == ncclInt64 && ours::kU64 == ncclUint64 && ours::kF16 == ncclFloat16);
static_assert(ours::kF32 == ncclFloat32 && ours::kF64 == ncclFloat64 && ours::kBf16 == ncclBfloat16);
static_assert(ours::kSum == ncclSum && ours::kProduct == ncclProd && ours::kMax == ncclMax &&
              ours::kMin == ncclMin);
static_assert(ours::kMean == ncclAvg);
static_assert(sizeof(ours::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(ours::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(ours::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(ours::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(ours::Config, blocking) == offsetof(ncclConfig_t, blocking));

}  // namespace
