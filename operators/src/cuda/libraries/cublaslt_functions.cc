#include "cuda/libraries/cublaslt_functions.h"

#include <cuda_runtime_api.h>
#include <memory>

#include <heddle/error.h>
#include <heddle/log.h>

#include "gpu/shared_library.h"

namespace heddle::cuda_kernels::cublaslt {
namespace {

using detail::library_folders_given;
using detail::SharedLibrary;

std::unique_ptr<const Functions> load() {
  // First that of the CUDA that Heddle was built for, which the driver is known to run.
#if CUDART_VERSION >= 13000
  const SharedLibrary library({"libcublasLt.so.13", "libcublasLt.so.12"});
#else
  const SharedLibrary library({"libcublasLt.so.12", "libcublasLt.so.13"});
#endif
  if (!library.is_open()) {
    const std::string what = "cuBLASLt is not found: " + library.missing();
    if (library_folders_given()) throw Error(what);
    write_log(what + ". Matrix products on GPUs are computed by Heddle's own kernel, which is slower.");
    return nullptr;
  }
  auto found = std::make_unique<Functions>();
  library.find("cublasLtCreate", found->create);
  library.find("cublasLtMatmulDescCreate", found->product_create);
  library.find("cublasLtMatmulDescSetAttribute", found->product_set);
  library.find("cublasLtMatmulDescDestroy", found->product_destroy);
  library.find("cublasLtMatrixLayoutCreate", found->matrix_create);
  library.find("cublasLtMatrixLayoutSetAttribute", found->matrix_set);
  library.find("cublasLtMatrixLayoutDestroy", found->matrix_destroy);
  library.find("cublasLtMatmulPreferenceCreate", found->preference_create);
  library.find("cublasLtMatmulPreferenceSetAttribute", found->preference_set);
  library.find("cublasLtMatmulPreferenceDestroy", found->preference_destroy);
  library.find("cublasLtMatmulAlgoGetHeuristic", found->heuristics);
  library.find("cublasLtMatmul", found->product);
  return found;
}

}  // namespace

const Functions* functions() {
  static const Functions* const loaded = load().release();
  return loaded;
}

}  // namespace heddle::cuda_kernels::cublaslt
