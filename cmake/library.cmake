# The library: every source compiled once, then linked as the shared library that users get and as
# a static one, with all internals in reach, for tests, benchmarks and the Python module.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)

configure_file(cmake/version.h.in include/sow/version.h @ONLY)

set(folders core transfer ops cpu autograd program)
list(TRANSFORM folders REPLACE "(.+)" "src/\\1/*.cc" OUTPUT_VARIABLE patterns)
file(GLOB sources CONFIGURE_DEPENDS ${patterns})
# Files of x86's vector instructions are named after them.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cc$")
endif()
# g++ 12 warns of its own AVX-512 headers, which pass vectors that no lane of is used.
set_source_files_properties(src/cpu/row_tile_avx512.cc src/cpu/row_doubles_avx512.cc
  src/cpu/extreme_grad_avx512.cc
  src/cpu/short_sums_avx512.cc src/cpu/short_apply_avx512.cc PROPERTIES
  COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")

add_library(sow_objects OBJECT ${sources})
set_target_properties(sow_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(sow_objects
  PUBLIC include "${PROJECT_BINARY_DIR}/include"
  PRIVATE src)
# {fmt} without its library: what we install needs nothing but the compiler's own run time.
target_link_libraries(sow_objects PRIVATE sow_flags OpenMP::OpenMP_CXX fmt::fmt-header-only)

add_library(sow SHARED $<TARGET_OBJECTS:sow_objects>)
add_library(sow::sow ALIAS sow)
set_target_properties(sow PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(sow PUBLIC cxx_std_20)
target_include_directories(sow PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(sow PRIVATE OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})
# Its own functions are called directly, not through a table in which others could replace them.
target_link_options(sow PRIVATE -Wl,-Bsymbolic-functions)

add_library(sow_internal STATIC $<TARGET_OBJECTS:sow_objects>)
target_include_directories(sow_internal PUBLIC
  include "${PROJECT_BINARY_DIR}/include" src)
target_link_libraries(sow_internal PUBLIC
  sow_flags OpenMP::OpenMP_CXX fmt::fmt-header-only ${CMAKE_DL_LIBS})
