#include "families/linalg/cuda/dense_functions.h"

#include <memory>

#include <heddle/error.h>
#include <heddle/log.h>

#include "gpu/shared_library.h"

namespace heddle::cuda_kernels::dense {
namespace {

using detail::library_folders_given;
using detail::SharedLibrary;

struct Loaded {
  std::unique_ptr<const Functions> functions;
  std::string missing;
};

// The routines of one dtype, whose names have `letter`: S or D.
template <class T>
void find_routines(const SharedLibrary& solver, const SharedLibrary& blas, const std::string& letter,
                   Routines<T>& to) {
  const auto solves = [&](const char* name, auto& function) {
    solver.find(("cusolverDn" + letter + name).c_str(), function);
  };
  const auto multiplies = [&](const char* name, auto& function) {
    blas.find(("cublas" + letter + name).c_str(), function);
  };
  solves("potrf_bufferSize", to.potrf_size);
  solves("potrf", to.potrf);
  solves("potrfBatched", to.potrf_batched);
  solves("getrf_bufferSize", to.getrf_size);
  solves("getrf", to.getrf);
  solves("getrs", to.getrs);
  solves("geqrf_bufferSize", to.geqrf_size);
  solves("geqrf", to.geqrf);
  solves("orgqr_bufferSize", to.orgqr_size);
  solves("orgqr", to.orgqr);
  solves("gesvd_bufferSize", to.gesvd_size);
  solves("gesvd", to.gesvd);
  solves("gesvdjBatched_bufferSize", to.gesvdj_batched_size);
  solves("gesvdjBatched", to.gesvdj_batched);
  solves("syevd_bufferSize", to.syevd_size);
  solves("syevd", to.syevd);
  solves("syevjBatched_bufferSize", to.syevj_batched_size);
  solves("syevjBatched", to.syevj_batched);
  multiplies("getrfBatched", to.getrf_batched);
  multiplies("getrsBatched", to.getrs_batched);
  multiplies("trsm_v2", to.trsm);
  multiplies("trsmBatched", to.trsm_batched);
}

Loaded load() {
  Loaded loaded;
  const SharedLibrary solver({"libcusolver.so.12", "libcusolver.so.11"});
  // cuSOLVER 12 is that of CUDA 13, cuSOLVER 11 that of CUDA 12.
  const bool newer = solver.path().ends_with(".12");
  const SharedLibrary blas({newer || !solver.is_open() ? "libcublas.so.13" : "libcublas.so.12"});
  if (!solver.is_open()) loaded.missing = "cuSOLVER is not found: " + solver.missing();
  if (solver.is_open() && !blas.is_open()) loaded.missing = "cuBLAS is not found: " + blas.missing();
  if (!loaded.missing.empty()) {
    if (library_folders_given()) throw Error(loaded.missing);
    loaded.missing += ". HEDDLE_CUDA_LIBRARIES names folders that are looked into, separated by ':'";
    write_log(loaded.missing + ". Heddle's own kernels solve equations on GPUs, which is slower.");
    return loaded;
  }
  auto found = std::make_unique<Functions>();
  solver.find("cusolverDnCreate", found->solver_create);
  solver.find("cusolverDnSetStream", found->solver_set_stream);
  solver.find("cusolverDnCreateGesvdjInfo", found->gesvdj_create);
  solver.find("cusolverDnCreateSyevjInfo", found->syevj_create);
  blas.find("cublasCreate_v2", found->blas_create);
  blas.find("cublasSetStream_v2", found->blas_set_stream);
  find_routines(solver, blas, "S", found->f32);
  find_routines(solver, blas, "D", found->f64);
  loaded.functions = std::move(found);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded& all = *new Loaded(load());
  return all;
}

}  // namespace

const Functions* functions() { return loaded().functions.get(); }
const std::string& missing() { return loaded().missing; }

}  // namespace heddle::cuda_kernels::dense
