// The functions of cuBLASLt that Heddle calls, as the library of CUDA 12 and 13 has them. Its headers are not needed; where there are
// some, tests/gpu_arrays/cublaslt_header_test.cc compares.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cuda_kernels::cublaslt {

using Handle = void*;
using Descriptor = void*;  // of a product, a matrix or a preference

constexpr int kSuccess = 0, kOtherArchitecture = 8, kNotSupported = 15;  // cublasStatus_t
constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 14;                  // cudaDataType
constexpr int kComputeF32 = 68, kComputeF64 = 70, kComputeTf32 = 77;     // cublasComputeType_t
// cublasLtMatmulDescAttributes_t
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
// cublasLtEpilogue_t; sums of these
constexpr int kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4;
// cublasLtMatrixLayoutAttribute_t
constexpr int kBatchCount = 5, kBatchOffset = 6;
// cublasLtMatmulPreferenceAttributes_t; the alignment of A is followed by those of B, C and D
constexpr int kMostWorkspace = 1, kReductionSchemes = 3, kAlignmentOfA = 5;
constexpr int kReductionInComputeType = 2;  // cublasLtReductionScheme_t

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

struct Functions {
  int (*create)(Handle*);
  int (*product_create)(Descriptor*, int compute, int scale);
  int (*product_set)(Descriptor, int attribute, const void* value, std::size_t bytes);
  int (*product_destroy)(Descriptor);
  int (*matrix_create)(Descriptor*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t stride);
  int (*matrix_set)(Descriptor, int attribute, const void* value, std::size_t bytes);
  int (*matrix_destroy)(Descriptor);
  int (*preference_create)(Descriptor*);
  int (*preference_set)(Descriptor, int attribute, const void* value, std::size_t bytes);
  int (*preference_destroy)(Descriptor);
  int (*heuristics)(Handle, Descriptor product, Descriptor a, Descriptor b, Descriptor c, Descriptor d,
                    Descriptor preference, int wanted, Heuristic* found, int* count);
  int (*product)(Handle, Descriptor product, const void* alpha, const void* a, Descriptor of_a, const void* b,
                 Descriptor of_b, const void* beta, const void* c, Descriptor of_c, void* d, Descriptor of_d,
                 const Algorithm*, void* workspace, std::size_t workspace_bytes, void* stream);
};

// The library's functions; null if there is no library. Throws Error if one lacks a function, or if HEDDLE_CUDA_LIBRARIES
// names folders and no library is found. Real: cublaslt_functions.cc; emulated: tests/emulated_gpu/libraries/cublaslt.cc.
const Functions* functions();

}  // namespace heddle::cuda_kernels::cublaslt
