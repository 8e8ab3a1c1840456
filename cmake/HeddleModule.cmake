# heddle_flags: the flags of all targets of the project. They are never passed on to users' targets.
add_library(heddle_flags INTERFACE)
target_compile_features(heddle_flags INTERFACE cxx_std_20)
target_compile_options(heddle_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# GCC 12 has false alarms on std::string (bug 105651).
target_compile_options(heddle_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# GCC 12 has further false alarms on strings, only with precompiled headers.
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  target_compile_options(heddle_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds>)
endif()
# std::source_location gets paths relative to the repository, wherever it is built. Two prefixes are removed: that of
# the paths which CMake passes to the compiler, and that which a compiler cache with a base directory makes of them.
file(RELATIVE_PATH heddle_from_build ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
string(REPLACE "//" "/" heddle_from_build "${heddle_from_build}/")  # file() returns "../.." with a slash, "../source" without
foreach(prefix ${PROJECT_SOURCE_DIR}/ ${heddle_from_build})
  target_compile_options(heddle_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${prefix}=>)
endforeach()
if(HEDDLE_SANITIZE)
  # Frame pointers make the reports readable.
  target_compile_options(heddle_flags INTERFACE -fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer)
  # These two checks are off, because they take a quarter of the compile time: AddressSanitizer also stops at null
  # pointers, and GCC's check of alignment misses members of packed types, which Clang finds (docs/reliability.md).
  if(HEDDLE_SANITIZE MATCHES address AND HEDDLE_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(heddle_flags INTERFACE -fno-sanitize=null,alignment)
  endif()
  target_compile_definitions(heddle_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(heddle_flags INTERFACE -fsanitize=${HEDDLE_SANITIZE})
endif()

# heddle_light_flags: heddle_flags for tests and programs that need no speed, with less optimisation, which would take
# half of their compile time. AddressSanitizer's build is not optimised at all.
add_library(heddle_light_flags INTERFACE)
target_link_libraries(heddle_light_flags INTERFACE heddle_flags)
target_compile_options(heddle_light_flags INTERFACE $<$<CONFIG:Release>:-Og>)
# Sanitizers' reports name tests' functions without lines: debug information would take a sixth of the compile time.
if(HEDDLE_SANITIZE)
  target_compile_options(heddle_light_flags INTERFACE -g0)
  if(HEDDLE_SANITIZE MATCHES thread)
    target_compile_options(heddle_light_flags INTERFACE -Og)
  endif()
endif()

# The precompiled headers, which nearly every file includes: parsing them takes half a second a file. Files still
# include what they use: tools/test --nightly builds the preset cuda without precompiled headers
# (CMAKE_DISABLE_PRECOMPILE_HEADERS).
set(HEDDLE_STANDARD_HEADERS
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <exception>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <stdexcept>
  <string> <thread> <unordered_map> <utility> <variant> <vector>)

# heddle_precompiled(NAME FLAGS): adds a target that compiles these headers; other targets reuse them with
# target_precompile_headers(TARGET REUSE_FROM NAME). Both need the same compiler flags, those of the target FLAGS.
function(heddle_precompiled name flags)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/precompiled.cc)
  target_link_libraries(${name} PRIVATE ${flags})
  target_precompile_headers(${name} PRIVATE ${HEDDLE_STANDARD_HEADERS})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
heddle_precompiled(heddle_precompiled_module heddle_flags)
set_target_properties(heddle_precompiled_module PROPERTIES POSITION_INDEPENDENT_CODE ON)
heddle_precompiled(heddle_precompiled_light heddle_light_flags)
heddle_precompiled(heddle_precompiled_program heddle_flags)

# heddle_light(TARGET): compiles the target with heddle_light_flags and the precompiled headers.
function(heddle_light target)
  target_link_libraries(${target} PRIVATE heddle_light_flags)
  target_precompile_headers(${target} REUSE_FROM heddle_precompiled_light)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

# heddle_unity(TARGET): with HEDDLE_UNITY, compiles up to eight files from one folder of src as a unit, in half the time,
# except files with their own options. So names in anonymous namespaces must be unique in a folder and its subfolders.
function(heddle_unity target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(SORT sources)
  set(last "")
  set(count 0)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    string(REGEX REPLACE "^([^/]+/[^/]+)/.*" "\\1" folder "${folder}")
    if(NOT folder STREQUAL last)
      set(count 0)
    endif()
    set(last "${folder}")
    math(EXPR part "${count} / 8")
    math(EXPR count "${count} + 1")
    string(MAKE_C_IDENTIFIER "${folder}_${part}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEDDLE_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# Sets `result` to the CMake package of an imported target: usually the target's namespace.
function(heddle_package_of library result)
  string(REGEX MATCH "^([A-Za-z0-9_]+)::" _ "${library}")
  set(package "${CMAKE_MATCH_1}")
  if(package STREQUAL "DNNL")
    set(package dnnl)
  elseif(package STREQUAL "CUDA")
    set(package CUDAToolkit)
  endif()
  set(${result} "${package}" PARENT_SCOPE)
endfunction()

# Records for heddleConfig.cmake the module `name`, and the modules and packages that it needs.
function(heddle_remember_module name)
  set_property(GLOBAL APPEND PROPERTY HEDDLE_MODULES ${name})
  foreach(library ${ARGN})
    heddle_package_of("${library}" package)
    if(package STREQUAL "heddle")
      string(REPLACE "heddle::" "" used ${library})
      set_property(GLOBAL APPEND PROPERTY HEDDLE_${name}_MODULES ${used})
    elseif(package)
      set_property(GLOBAL APPEND PROPERTY HEDDLE_${name}_PACKAGES ${package})
    endif()
  endforeach()
endfunction()

# heddle_registrations(FILE WORD ... SOURCES ... and the other values of registrations.cmake): FILE, made while building, calls what
# WORD heads in the sources.
function(heddle_registrations output)
  cmake_parse_arguments(LIST "" "WORD;INCLUDE;NAMESPACE;TABLE;PREFIX;SUFFIX;ALL;FAMILIES" "SOURCES" ${ARGN})
  set(script ${PROJECT_SOURCE_DIR}/cmake/registrations.cmake)
  set(values)
  foreach(value WORD INCLUDE NAMESPACE TABLE PREFIX SUFFIX ALL FAMILIES)
    list(APPEND values -D "${value}=${LIST_${value}}")
  endforeach()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D "OUTPUT=${output}" -D "SOURCES=${LIST_SOURCES}" ${values} -P ${script}
    DEPENDS ${LIST_SOURCES} ${script}
    COMMENT "Listing what ${LIST_WORD} heads"
    VERBATIM)
endfunction()

# heddle_module(NAME SOURCES ... HEADERS ... [USES modules and public libraries] [PRIVATE_USES libraries])
# Adds a module's library: the target heddle_NAME, heddle::NAME for users. Libraries must be given as imported targets
# (TBB::tbb), so that heddleConfig.cmake finds their packages.
function(heddle_module name)
  cmake_parse_arguments(MODULE "" "" "SOURCES;HEADERS;USES;PRIVATE_USES" ${ARGN})
  set(target heddle_${name})
  add_library(${target} ${MODULE_SOURCES})
  add_library(heddle::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${MODULE_HEADERS})
  target_include_directories(${target} PRIVATE src)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${MODULE_USES} PRIVATE $<BUILD_INTERFACE:heddle_flags> ${MODULE_PRIVATE_USES})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
                                             VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})
  target_precompile_headers(${target} REUSE_FROM heddle_precompiled_module)
  heddle_unity(${target})
  heddle_remember_module(${name} ${MODULE_USES} ${MODULE_PRIVATE_USES})
  install(TARGETS ${target} EXPORT heddle_${name} FILE_SET HEADERS)
endfunction()

# heddle_program(NAME SOURCES ... USES ...): adds an example or a benchmark.
function(heddle_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE heddle_flags ${PROGRAM_USES})
  target_precompile_headers(${name} REUSE_FROM heddle_precompiled_program)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
