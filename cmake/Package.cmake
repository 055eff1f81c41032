# `cmake --install` gives headers as they stand in the tree, the static library, the presets, the
# command and a package for find_package(emblema). Tested by test/package.
include(CMakePackageConfigHelpers)
install(TARGETS emblema EXPORT emblema_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY emblema DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT emblema_targets NAMESPACE emblema:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/emblema)
configure_package_config_file(cmake/emblema-config.cmake.in emblema-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/emblema)
write_basic_package_version_file(emblema-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/emblema-config.cmake
  ${PROJECT_BINARY_DIR}/emblema-config-version.cmake cmake/FindPlainLibraries.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/emblema)
