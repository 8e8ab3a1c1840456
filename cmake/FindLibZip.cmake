# Finds libzip: defines the target LibZip::zip. libzip's own CMake package requires its programs, too. Hints:
# LIBZIP_INCLUDE_DIR and LIBZIP_LIBRARY.
find_path(LIBZIP_INCLUDE_DIR zip.h)
find_library(LIBZIP_LIBRARY zip)
mark_as_advanced(LIBZIP_INCLUDE_DIR LIBZIP_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibZip REQUIRED_VARS LIBZIP_LIBRARY LIBZIP_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "It reads and writes NumPy's .npz files: install libzip-dev, or name both.")

if(LibZip_FOUND AND NOT TARGET LibZip::zip)
  add_library(LibZip::zip UNKNOWN IMPORTED)
  set_target_properties(LibZip::zip PROPERTIES IMPORTED_LOCATION "${LIBZIP_LIBRARY}"
                                               INTERFACE_INCLUDE_DIRECTORIES "${LIBZIP_INCLUDE_DIR}")
endif()
