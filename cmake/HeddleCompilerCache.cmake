# Compiles through ccache if it is installed, with the project's folder as base directory, so that other clones and
# build folders share its results. HEDDLE_CCACHE=OFF, or another compiler launcher, turns it off.
option(HEDDLE_CCACHE "Compile through ccache, if it is installed" ON)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HEDDLE_CCACHE_PROGRAM ccache)
  mark_as_advanced(HEDDLE_CCACHE_PROGRAM)
endif()
set(heddle_cached OFF)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND HEDDLE_CCACHE_PROGRAM)
  set(heddle_cached ON)
  # Files with precompiled headers are cached only with this sloppiness. CCACHE_NOHASHDIR: results do not depend on the
  # build folder, because paths are relative.
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${HEDDLE_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
