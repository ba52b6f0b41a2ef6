# SPDX-License-Identifier: Apache-2.0
# The tests, as ctest sees them. Label `unit`: GoogleTest programs. Label `check`: whatever else must
# hold (headers, installation, examples, other CPUs, nvcc). Label `fuzz`: bounded libFuzzer runs.
find_package(GTest REQUIRED)
find_library(SOW_MPFR mpfr REQUIRED)
find_library(SOW_GMP gmp REQUIRED)

set(results "${PROJECT_BINARY_DIR}/results")
set(sanitized OFF)
set(launcher "")
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(sanitized ON)
  # The sanitizers of older clangs lose their shadow memory to kernels that randomise more bits of
  # an address; some containers forbid setarch, and then the programs start as they are.
  set(launcher sh -c "setarch -R true 2>/dev/null && exec setarch -R \"$0\" \"$@\" || exec \"$0\" \"$@\"")
endif()

# A test that expects an error has no use for the result. Linked last, because clang's -Wall turns the
# warning on again.
add_library(sow_test_flags INTERFACE)
target_compile_options(sow_test_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-result>")

# Sources directly in tests/ help every program; they are compiled once, and so are the headers that nearly
# every test includes.
file(GLOB support CONFIGURE_DEPENDS tests/*.cc)
add_library(test_support OBJECT ${support})
target_include_directories(test_support PRIVATE tests)
target_link_libraries(test_support PRIVATE sow_internal GTest::gtest sow_test_flags)
if(SOW_PRECOMPILE)
  target_precompile_headers(test_support PRIVATE <gtest/gtest.h> <algorithm> <functional> <map> <random> <thread>
    "${PROJECT_SOURCE_DIR}/include/sow/sow.h")
endif()

# One program for each folder of tests/ that holds *_test.cc files. Other sources there help it.
file(GLOB test_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/tests" tests/*/*_test.cc)
list(TRANSFORM test_files REPLACE "/.*" "" OUTPUT_VARIABLE test_folders)
list(REMOVE_DUPLICATES test_folders)
list(REMOVE_ITEM test_folders cuda)  # cmake/cuda.cmake

foreach(folder IN LISTS test_folders)
  file(GLOB sources CONFIGURE_DEPENDS tests/${folder}/*.cc)
  add_executable(${folder}_tests ${sources} $<TARGET_OBJECTS:test_support>)
  if(SOW_PRECOMPILE)
    target_precompile_headers(${folder}_tests REUSE_FROM test_support)
  endif()
  set_target_properties(${folder}_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(${folder}_tests PRIVATE tests)
  target_link_libraries(${folder}_tests PRIVATE
    sow_internal GTest::gtest GTest::gtest_main ${SOW_MPFR} ${SOW_GMP} sow_test_flags)
  # The longest runs in halves, side by side.
  set(halves ${folder})
  if(folder STREQUAL cpu)
    set(halves cpu_first cpu_second)
  endif()
  list(LENGTH halves count)
  foreach(half IN LISTS halves)
    list(FIND halves ${half} number)
    add_test(NAME ${half} COMMAND ${launcher} $<TARGET_FILE:${folder}_tests>
      "--gtest_output=xml:${results}/${half}.xml")
    set_tests_properties(${half} PROPERTIES LABELS unit TIMEOUT 3000
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${number}")
  endforeach()
endforeach()

# A CUDA backend that fails in every way it could.
add_library(fake_cuda MODULE tests/core/fake/backend.cc)
target_include_directories(fake_cuda PRIVATE include src "${PROJECT_BINARY_DIR}/include")
target_compile_definitions(core_tests PRIVATE "SOW_FAKE_CUDA=\"$<TARGET_FILE:fake_cuda>\"")
add_dependencies(core_tests fake_cuda)

if(SOW_BUILD_FUZZ)
  include(cmake/fuzz.cmake)
endif()
if(NOT sanitized)
  include(cmake/checks.cmake)
endif()
