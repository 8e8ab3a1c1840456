// The functions of NCCL that Heddle calls, as the library has them since 2.14. Its header is not needed; where there is one,
// tests/comm/device/cuda/nccl_header_test.cc compares. The library is opened when it is first asked for: programs start without it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace heddle::comm_detail::nccl_library {

using Comm = void*;        // ncclComm_t
using CudaStream = void*;  // cudaStream_t

constexpr int kSuccess = 0, kInProgress = 7;  // ncclResult_t
// ncclDataType_t
constexpr int kI8 = 0, kU8 = 1, kI32 = 2, kU32 = 3, kI64 = 4, kU64 = 5, kF16 = 6, kF32 = 7, kF64 = 8,
              kBf16 = 9;
constexpr int kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kMean = 4;  // ncclRedOp_t

struct UniqueId {
  char internal[128];
};

// ncclConfig_t of NCCL 2.14, which later ones take, too: they see its size and its version.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Functions {
  int (*version)(int*);
  int (*new_id)(UniqueId*);
  const char* (*error_text)(int result);
  const char* (*last_error)(Comm);
  int (*init)(Comm*, int size, UniqueId, int rank, Config*);
  int (*finalize)(Comm);
  int (*destroy)(Comm);
  int (*abort)(Comm);
  int (*async_error)(Comm, int* result);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void*, void*, std::size_t, int type, int op, Comm, CudaStream);
  int (*reduce)(const void*, void*, std::size_t, int type, int op, int root, Comm, CudaStream);
  int (*broadcast)(const void*, void*, std::size_t, int type, int root, Comm, CudaStream);
  int (*all_gather)(const void*, void*, std::size_t, int type, Comm, CudaStream);
  int (*reduce_scatter)(const void*, void*, std::size_t, int type, int op, Comm, CudaStream);
  int (*send)(const void*, std::size_t, int type, int peer, Comm, CudaStream);
  int (*recv)(void*, std::size_t, int type, int peer, Comm, CudaStream);
};

struct Loaded {
  std::unique_ptr<const Functions> functions;  // null if the library is not found, or lacks one
  std::string missing;                         // why
};
const Loaded& loaded();
// Only where loaded() has them.
const Functions& functions();

}  // namespace heddle::comm_detail::nccl_library
