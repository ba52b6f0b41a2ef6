# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` leaves: headers, the libraries, find_package(sow) and pkg-config. The component
# `sow` is all of it but the static library, which is `static` where there is a shared one too.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sow")

if(BUILD_SHARED_LIBS)
  install(TARGETS sow EXPORT sowTargets COMPONENT sow
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT sow NAMELINK_COMPONENT sow)
  install(EXPORT sowTargets NAMESPACE sow:: DESTINATION "${package_dir}" COMPONENT sow)
endif()
if(SOW_BUILD_STATIC OR NOT BUILD_SHARED_LIBS)
  set(static_component sow)
  if(BUILD_SHARED_LIBS)
    set(static_component static)
  endif()
  install(TARGETS sow_static EXPORT sowStaticTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${static_component})
  install(EXPORT sowStaticTargets NAMESPACE sow:: DESTINATION "${package_dir}" COMPONENT ${static_component})
endif()
install(DIRECTORY include/sow "${PROJECT_BINARY_DIR}/include/sow"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT sow FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/sowConfig.cmake.in sowConfig.cmake
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(sowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/sowConfig.cmake" "${PROJECT_BINARY_DIR}/sowConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT sow)

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /prefix)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
# What a program needs that links the static library: pkg-config --static.
set(pc_private "-pthread -ldl")
if(OpenMP_CXX_FOUND)
  string(PREPEND pc_private "${OpenMP_CXX_FLAGS} ")
endif()
configure_file(cmake/sow.pc.in sow.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sow.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT sow)
