# Finds libsndfile: defines the target SndFile::sndfile. Hints: SNDFILE_INCLUDE_DIR and SNDFILE_LIBRARY.
find_path(SNDFILE_INCLUDE_DIR sndfile.h)
find_library(SNDFILE_LIBRARY sndfile)
mark_as_advanced(SNDFILE_INCLUDE_DIR SNDFILE_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SndFile REQUIRED_VARS SNDFILE_LIBRARY SNDFILE_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "It reads sound files: install libsndfile1-dev, or name both.")

if(SndFile_FOUND AND NOT TARGET SndFile::sndfile)
  add_library(SndFile::sndfile UNKNOWN IMPORTED)
  set_target_properties(SndFile::sndfile PROPERTIES IMPORTED_LOCATION "${SNDFILE_LIBRARY}"
                                                    INTERFACE_INCLUDE_DIRECTORIES "${SNDFILE_INCLUDE_DIR}")
endif()
