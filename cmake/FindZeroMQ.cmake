# Finds ZeroMQ, since Debian's has no CMake package: the target ZeroMQ::zmq. Hints: ZEROMQ_INCLUDE_DIR, ZEROMQ_LIBRARY.
find_path(ZEROMQ_INCLUDE_DIR zmq.h)
find_library(ZEROMQ_LIBRARY zmq)
mark_as_advanced(ZEROMQ_INCLUDE_DIR ZEROMQ_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZeroMQ REQUIRED_VARS ZEROMQ_LIBRARY ZEROMQ_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "It is a transport of Heddle's key-value store: install libzmq3-dev, or name both.")

if(ZeroMQ_FOUND AND NOT TARGET ZeroMQ::zmq)
  add_library(ZeroMQ::zmq UNKNOWN IMPORTED)
  set_target_properties(ZeroMQ::zmq PROPERTIES IMPORTED_LOCATION "${ZEROMQ_LIBRARY}"
                                               INTERFACE_INCLUDE_DIRECTORIES "${ZEROMQ_INCLUDE_DIR}")
endif()
