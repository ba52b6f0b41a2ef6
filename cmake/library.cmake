# SPDX-License-Identifier: Apache-2.0
# The library: every source compiled once, then linked as the shared library that users get and as
# a static one, for users too and, with all internals in reach, for tests and benchmarks.
if(APPLE AND NOT OpenMP_ROOT AND NOT DEFINED ENV{OpenMP_ROOT})  # Homebrew keeps it out of the way
  find_path(homebrew_omp include/omp.h PATHS /opt/homebrew/opt/libomp /usr/local/opt/libomp NO_DEFAULT_PATH)
  if(homebrew_omp)
    set(OpenMP_ROOT "${homebrew_omp}")
  endif()
endif()
find_package(OpenMP COMPONENTS CXX)
find_package(Threads REQUIRED)
set(sow_needs Threads::Threads ${CMAKE_DL_LIBS})
if(OpenMP_CXX_FOUND)
  list(PREPEND sow_needs OpenMP::OpenMP_CXX)
else()
  message(STATUS "OpenMP was not found: going on without its pool, each parallel call starts threads.")
endif()

configure_file(cmake/version.h.in include/sow/version.h @ONLY)

set(folders core transfer ops cpu autograd program distributed)
list(TRANSFORM folders REPLACE "(.+)" "src/\\1/*.cc" OUTPUT_VARIABLE patterns)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
# Files of x86's vector instructions are named after them.
set(processor "${CMAKE_SYSTEM_PROCESSOR}")
if(APPLE AND CMAKE_OSX_ARCHITECTURES)
  set(processor "${CMAKE_OSX_ARCHITECTURES}")
  if(processor MATCHES ";")
    message(FATAL_ERROR "sow is built for one processor at a time, not for '${processor}'.")
  endif()
endif()
if(NOT processor MATCHES "^(x86_64|AMD64)$")
  list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cc$")
endif()
# g++ 12 warns of its own AVX-512 headers, which pass vectors that no lane of is used.
set_source_files_properties(src/cpu/rows/row_tile.cc src/cpu/backward/extreme_grad.cc
  src/cpu/sum/fixed_point_rows_vector.cc src/cpu/sum/fixed_point_rows_avx512.cc
  src/cpu/short_rows/short_apply_avx512.cc PROPERTIES
  COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")

add_library(sow_objects OBJECT ${sources})
set_target_properties(sow_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(sow_objects
  PUBLIC include "${PROJECT_BINARY_DIR}/include"
  PRIVATE src)
target_link_libraries(sow_objects PRIVATE sow_flags ${sow_needs})
if(SOW_PRECOMPILE)  # that each file includes what it needs is seen where one_definition compiles it (checks.cmake)
  target_precompile_headers(sow_objects PRIVATE <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional>
    <memory> <mutex> <optional> <span> <string> <vector> "${PROJECT_SOURCE_DIR}/include/sow/tensor.h")
endif()

function(sow_public_headers target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endfunction()

# BUILD_SHARED_LIBS says which of the two sow::sow is.
add_library(sow_static STATIC $<TARGET_OBJECTS:sow_objects>)
add_library(sow::sow_static ALIAS sow_static)
set_target_properties(sow_static PROPERTIES OUTPUT_NAME sow)
sow_public_headers(sow_static)
target_link_libraries(sow_static PRIVATE ${sow_needs})
if(BUILD_SHARED_LIBS)
  add_library(sow SHARED $<TARGET_OBJECTS:sow_objects>)
  add_library(sow::sow ALIAS sow)
  set_target_properties(sow PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  sow_public_headers(sow)
  target_link_libraries(sow PRIVATE sow_flags ${sow_needs})
  # Its own functions are called directly, not through a table in which others could replace them;
  # macOS does that by itself.
  if(NOT APPLE)
    target_link_options(sow PRIVATE -Wl,-Bsymbolic-functions)
  endif()
  if(NOT SOW_BUILD_STATIC)
    set_target_properties(sow_static PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
else()
  add_library(sow::sow ALIAS sow_static)
endif()

add_library(sow_internal INTERFACE)
target_include_directories(sow_internal INTERFACE src)
target_link_libraries(sow_internal INTERFACE sow_static sow_flags ${sow_needs})
