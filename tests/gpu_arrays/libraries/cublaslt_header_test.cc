// Heddle's own declarations of cuBLASLt, compared with the library's header, where there is one: the numbers and the layout of what is
// passed. Compiling this file is the test.
#include <cublasLt.h>

#include "cuda/libraries/cublaslt_functions.h"

namespace ours = heddle::cuda_kernels::cublaslt;

static_assert(ours::kSuccess == CUBLAS_STATUS_SUCCESS && ours::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(ours::kF32 == CUDA_R_32F && ours::kF64 == CUDA_R_64F);
static_assert(ours::kF16 == CUDA_R_16F && ours::kBf16 == CUDA_R_16BF);
static_assert(ours::kComputeF32 == CUBLAS_COMPUTE_32F && ours::kComputeF64 == CUBLAS_COMPUTE_64F);
static_assert(ours::kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && sizeof(cublasOperation_t) == 4);
static_assert(ours::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(ours::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(ours::kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && sizeof(cublasLtEpilogue_t) == 4);
static_assert(ours::kBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(ours::kEpilogueNone == CUBLASLT_EPILOGUE_DEFAULT &&
              ours::kEpilogueRelu == CUBLASLT_EPILOGUE_RELU);
static_assert(ours::kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert((ours::kEpilogueRelu | ours::kEpilogueBias) == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(ours::kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(ours::kBatchOffset == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(ours::kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(ours::kReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(ours::kAlignmentOfA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(ours::kAlignmentOfA + 1 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(ours::kAlignmentOfA + 2 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(ours::kAlignmentOfA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(ours::kReductionInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(sizeof(ours::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(ours::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(ours::Heuristic, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(ours::Heuristic, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));
