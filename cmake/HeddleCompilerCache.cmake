# Compiles through ccache where that is installed, with the project's folder as its base: what was compiled in one clone is found
# again in another one, and in another build folder. HEDDLE_CCACHE=OFF, or a launcher of the user's own, turns it off.
option(HEDDLE_CCACHE "Compile through ccache, if it is installed" ON)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HEDDLE_CCACHE_PROGRAM ccache)
  mark_as_advanced(HEDDLE_CCACHE_PROGRAM)
endif()
set(heddle_cached OFF)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND HEDDLE_CCACHE_PROGRAM)
  set(heddle_cached ON)
  # Without this sloppiness what uses a precompiled header is compiled each time anew. The folder of a compilation is in no
  # result: paths are relative to it.
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${HEDDLE_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
