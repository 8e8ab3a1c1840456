# heddle_kernels(TARGET sources...): adds files with kernels to a target. nvcc compiles them, as C++17 and without the project's own
# flags, which it does not know. HeddleEmulatedGpu.cmake has the function for the emulated GPU.
find_package(CUDAToolkit REQUIRED)
option(HEDDLE_KERNEL_REPORT "nvcc reports what each kernel needs of a GPU: tools/kernel_resources" OFF)
function(heddle_kernels target)
  add_library(${target}_cuda OBJECT ${ARGN})
  target_include_directories(${target}_cuda PRIVATE src include ${PROJECT_SOURCE_DIR}/engine/src
                             ${PROJECT_SOURCE_DIR}/ndarray/include)
  target_link_libraries(${target}_cuda PRIVATE ${HEDDLE_CUDART})
  # -fmad=false: a multiply-add rounds once, the CPU's separate operations twice.
  target_compile_options(${target}_cuda PRIVATE -fmad=false --expt-relaxed-constexpr -Werror=all-warnings -Xcompiler=-Wall,-Wextra)
  if(HEDDLE_KERNEL_REPORT)
    target_compile_options(${target}_cuda PRIVATE -Xptxas=-v)
  endif()
  set_target_properties(${target}_cuda PROPERTIES CUDA_STANDARD 17 CUDA_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_cuda>)
endfunction()
