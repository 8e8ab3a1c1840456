# find_package(heddle [COMPONENTS engine ndarray ...]): one file of targets a room, so that who asks for the
# engine alone needs nothing but what the engine needs.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
get_property(rooms GLOBAL PROPERTY HEDDLE_ROOMS)

set(HEDDLE_ROOM_NEEDS "set(_heddle_rooms ${rooms})\n")
foreach(room ${rooms})
  get_property(used GLOBAL PROPERTY HEDDLE_${room}_ROOMS)
  get_property(packages GLOBAL PROPERTY HEDDLE_${room}_PACKAGES)
  list(REMOVE_DUPLICATES packages)
  string(APPEND HEDDLE_ROOM_NEEDS "set(_heddle_${room}_rooms ${used})\nset(_heddle_${room}_packages ${packages})\n")
  install(EXPORT heddle_${room} NAMESPACE heddle:: DESTINATION ${package_dir})
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/heddleConfig.cmake.in ${PROJECT_BINARY_DIR}/heddleConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
        DESTINATION ${package_dir})
