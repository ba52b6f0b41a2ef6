# What `cmake --install` leaves: headers, the shared library, find_package(sow) and pkg-config.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sow")

install(TARGETS sow EXPORT sowTargets COMPONENT sow
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT sow NAMELINK_COMPONENT sow)
install(DIRECTORY include/sow "${PROJECT_BINARY_DIR}/include/sow"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT sow FILES_MATCHING PATTERN "*.h")
install(EXPORT sowTargets NAMESPACE sow:: DESTINATION "${package_dir}" COMPONENT sow)

configure_package_config_file(cmake/sowConfig.cmake.in sowConfig.cmake
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(sowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/sowConfig.cmake" "${PROJECT_BINARY_DIR}/sowConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT sow)

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /prefix)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(cmake/sow.pc.in sow.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sow.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT sow)
