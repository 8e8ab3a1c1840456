# Finds dmlc-core: defines the target DmlcCore::dmlc. Its own CMake package would pass OpenMP and macros of the C library on to all that is
# compiled with it. Hints: DMLC_INCLUDE_DIR and DMLC_LIBRARY.
find_path(DMLC_INCLUDE_DIR dmlc/recordio.h)
find_library(DMLC_LIBRARY dmlc)
mark_as_advanced(DMLC_INCLUDE_DIR DMLC_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DmlcCore REQUIRED_VARS DMLC_LIBRARY DMLC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "It reads RecordIO files: install libdmlc-dev, or name both.")

if(DmlcCore_FOUND AND NOT TARGET DmlcCore::dmlc)
  add_library(DmlcCore::dmlc UNKNOWN IMPORTED)
  set_target_properties(DmlcCore::dmlc PROPERTIES IMPORTED_LOCATION "${DMLC_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${DMLC_INCLUDE_DIR}")
endif()
