# `cmake --install` gives headers as they stand in the tree, the static library and a package for
# find_package(emblema); apps/cli adds the command. Tested by test/package.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/emblema)

install(TARGETS emblema EXPORT emblema_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY emblema DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*_test.h" EXCLUDE PATTERN "*_testing.h" EXCLUDE
  PATTERN "*_bench.h" EXCLUDE PATTERN "canary.h" EXCLUDE)
install(EXPORT emblema_targets NAMESPACE emblema:: DESTINATION ${package_folder})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/emblema-config.cmake.in ${PROJECT_BINARY_DIR}/emblema-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/emblema-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/emblema-config.cmake
        ${PROJECT_BINARY_DIR}/emblema-config-version.cmake
        ${PROJECT_SOURCE_DIR}/cmake/FindPlainLibraries.cmake
  DESTINATION ${package_folder})
