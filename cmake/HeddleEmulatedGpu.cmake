# The emulated GPU (docs/gpu.md): objects that stand in for CUDA's runtime library, with HEDDLE_CUDA=emulated. They need
# CUDA's headers, neither nvcc nor the library. HEDDLE_CUDA_HEADERS says where the headers are.
find_path(HEDDLE_CUDA_HEADERS cuda_runtime_api.h
  HINTS ENV CUDA_PATH ENV CUDA_HOME
  PATHS /usr/local/cuda /opt/cuda /usr/lib/cuda /usr
  PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
if(NOT HEDDLE_CUDA_HEADERS)
  message(FATAL_ERROR "HEDDLE_CUDA=emulated needs CUDA's headers (cuda_runtime_api.h), which were not found: install them "
                      "(Debian: libcudart-dev, PyPI: nvidia-cuda-runtime), and name their folder by -DHEDDLE_CUDA_HEADERS=...")
endif()

set(emulated ${PROJECT_SOURCE_DIR}/tests/emulated_gpu)

# What switches stacks or must order nothing for ThreadSanitizer is not instrumented.
set(uninstrumented
  ${emulated}/executor/executor.cc
  ${emulated}/executor/report.cc
  ${emulated}/executor/stack_switch.cc
  ${emulated}/executor/thread.cc
  ${emulated}/runtime/access.cc
  ${emulated}/runtime/memory.cc)
add_library(heddle_emulated_executor OBJECT ${uninstrumented})
set_source_files_properties(${uninstrumented} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O2")
add_library(heddle_emulated_runtime OBJECT
  ${emulated}/runtime/allocations.cc
  ${emulated}/runtime/call.cc
  ${emulated}/runtime/copies.cc
  ${emulated}/runtime/devices.cc
  ${emulated}/runtime/graphs.cc
  ${emulated}/runtime/operation.cc
  ${emulated}/runtime/streams.cc)
foreach(library heddle_emulated_executor heddle_emulated_runtime)
  target_link_libraries(${library} PRIVATE heddle_flags)
  target_include_directories(${library} PRIVATE ${emulated} ${PROJECT_SOURCE_DIR}/engine/include ${PROJECT_SOURCE_DIR}/engine/src)
  target_include_directories(${library} SYSTEM PRIVATE ${HEDDLE_CUDA_HEADERS})
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
endforeach()

# heddle_kernels(TARGET sources...): adds files with kernels to a target, which the C++ compiler compiles here.
function(heddle_kernels target)
  target_sources(${target} PRIVATE ${ARGN})
  # AddressSanitizer's second stack for locals would be made anew for every CUDA thread.
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  # GPUs refuse addresses that are no multiple of what is loaded. Without the library of a sanitizer such an access is a
  # trap, which the emulated GPU reports.
  set(options -fsanitize=alignment)
  if(NOT HEDDLE_SANITIZE MATCHES undefined)
    list(APPEND options -fsanitize-undefined-trap-on-error)
  endif()
  if(HEDDLE_SANITIZE MATCHES address)
    list(APPEND options -O1 --param=asan-use-after-return=0)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/engine/src)
  target_include_directories(${target} SYSTEM PRIVATE ${HEDDLE_CUDA_HEADERS})
endfunction()
