# Installs the package for find_package(heddle [COMPONENTS engine ndarray ...]). Each module has its own file of
# targets, so that the engine alone can be used without the packages of other modules.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
get_property(modules GLOBAL PROPERTY HEDDLE_MODULES)

set(HEDDLE_MODULE_NEEDS "set(_heddle_modules ${modules})\n")
foreach(module ${modules})
  get_property(used GLOBAL PROPERTY HEDDLE_${module}_MODULES)
  get_property(packages GLOBAL PROPERTY HEDDLE_${module}_PACKAGES)
  list(REMOVE_DUPLICATES packages)
  string(APPEND HEDDLE_MODULE_NEEDS "set(_heddle_${module}_modules ${used})\nset(_heddle_${module}_packages ${packages})\n")
  install(EXPORT heddle_${module} NAMESPACE heddle:: DESTINATION ${package_dir})
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/heddleConfig.cmake.in ${PROJECT_BINARY_DIR}/heddleConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindISAL.cmake ${CMAKE_CURRENT_LIST_DIR}/FindLibZip.cmake ${CMAKE_CURRENT_LIST_DIR}/FindZeroMQ.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindDmlcCore.cmake ${CMAKE_CURRENT_LIST_DIR}/FindSentencePiece.cmake ${CMAKE_CURRENT_LIST_DIR}/FindSndFile.cmake
        DESTINATION ${package_dir})
