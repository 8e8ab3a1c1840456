# The extension module for x86-64-v2, v3 and v4: one shared object each, with kernels for that level, in
# glibc-hwcaps folders, from which the dynamic loader (glibc 2.33 and later) takes the best one that the CPU
# supports. Python imports _heddle.abi3.so, which is empty and needs one of them. The levels are whole shared
# objects, since the linker may use an inline function that a file of kernels emits for all other files.
if(NOT HEDDLE_ARCH STREQUAL "x86-64-v2")
  message(FATAL_ERROR "HEDDLE_PYTHON_PORTABLE needs -DHEDDLE_ARCH=x86-64-v2, for what the levels share")
endif()

find_package(BLAS REQUIRED)
find_package(LAPACK REQUIRED)
find_package(dnnl REQUIRED)

get_target_property(heddle_kernels heddle_cpu_kernels SOURCES)
list(TRANSFORM heddle_kernels PREPEND ${PROJECT_SOURCE_DIR}/operators/)
list(APPEND heddle_kernels ${PROJECT_SOURCE_DIR}/ndarray/src/dtype/half.cc ${PROJECT_SOURCE_DIR}/comm/src/core/combine.cc)

# heddle_python_level(TARGET FOLDER): TARGET becomes FOLDER/libheddle_python.so.
function(heddle_python_level target folder)
  set_target_properties(${target} PROPERTIES PREFIX lib OUTPUT_NAME heddle_python SUFFIX .so CXX_EXTENSIONS OFF
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/heddle/${folder})
  target_link_options(${target} PRIVATE -Wl,-soname,libheddle_python.so)
  install(TARGETS ${target} LIBRARY DESTINATION heddle/${folder} COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

heddle_python_level(heddle_python lib)
get_target_property(heddle_python_link_options heddle_python LINK_OPTIONS)
foreach(level v3 v4)
  add_library(heddle_kernels_${level} OBJECT ${heddle_kernels})
  target_include_directories(heddle_kernels_${level} PRIVATE
    ${PROJECT_SOURCE_DIR}/operators/src ${PROJECT_SOURCE_DIR}/ndarray/src ${PROJECT_SOURCE_DIR}/comm/src
    ${PROJECT_SOURCE_DIR}/net/src)
  target_compile_options(heddle_kernels_${level} PRIVATE -march=x86-64-${level} ${HEDDLE_KERNEL_OPTIONS})
  target_link_libraries(heddle_kernels_${level} PRIVATE heddle_flags heddle::comm heddle::operators DNNL::dnnl BLAS::BLAS LAPACK::LAPACK)
  set_target_properties(heddle_kernels_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_precompile_headers(heddle_kernels_${level} PRIVATE ${HEDDLE_STANDARD_HEADERS})
  add_library(heddle_python_${level} MODULE $<TARGET_OBJECTS:heddle_python> $<TARGET_OBJECTS:heddle_kernels_${level}>)
  target_link_libraries(heddle_python_${level} PRIVATE heddle_flags heddle::servers heddle::data)
  target_link_options(heddle_python_${level} PRIVATE ${heddle_python_link_options})
  set_target_properties(heddle_python_${level} PROPERTIES LINKER_LANGUAGE CXX)
  heddle_python_level(heddle_python_${level} lib/glibc-hwcaps/x86-64-${level})
endforeach()

add_library(heddle_python_module MODULE ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
add_dependencies(heddle_python_module heddle_python heddle_python_v3 heddle_python_v4)
target_link_options(heddle_python_module PRIVATE -Wl,--no-as-needed $<TARGET_FILE:heddle_python>)
set_target_properties(heddle_python_module PROPERTIES PREFIX "" OUTPUT_NAME _heddle SUFFIX .abi3.so
                      BUILD_RPATH "$ORIGIN/lib" INSTALL_RPATH "$ORIGIN/lib"
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/heddle)
install(TARGETS heddle_python_module LIBRARY DESTINATION heddle COMPONENT python EXCLUDE_FROM_ALL)
