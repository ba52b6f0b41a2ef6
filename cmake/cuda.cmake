# SPDX-License-Identifier: Apache-2.0
# The CUDA backend: a library of its own beside libsow.so, which loads it when a device is asked for.
# One build serves machines with and without GPUs.
#   SOW_CUDA                    ON, OFF, or AUTO: where nvcc is found
#   CMAKE_CUDA_ARCHITECTURES    which GPUs to build for
set(SOW_HAS_CUDA OFF)
if(NOT SOW_CUDA MATCHES "^(OFF|0|NO|FALSE)$")
  find_program(SOW_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  if(SOW_NVCC)
    set(SOW_HAS_CUDA ON)
  elseif(NOT SOW_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SOW_CUDA=${SOW_CUDA}, but nvcc was not found.")
  else()
    message(STATUS "nvcc was not found: going on without CUDA.")
  endif()
endif()
if(NOT SOW_HAS_CUDA)
  return()
endif()

# One architecture keeps builds short, and its PTX runs on newer GPUs as well; scripts/wheel asks for all.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "90" CACHE STRING "GPUs to build for")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${SOW_NVCC}")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*/*.cu src/cuda/*/*.cc)
add_library(sow_cuda MODULE ${cuda_sources} src/transfer/canonical.cc)
set_target_properties(sow_cuda PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  CUDA_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(sow_cuda PRIVATE include src "${PROJECT_BINARY_DIR}/include")
# Sums are exact only while no multiplication is contracted with an addition.
target_compile_options(sow_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-ffp-contract=off>"
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-Wall$<COMMA>-Wextra$<COMMA>-ffp-contract=off>")
if(SOW_WERROR)
  target_compile_options(sow_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-Werror>" "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
target_link_libraries(sow_cuda PRIVATE CUDA::cudart_static)
target_link_options(sow_cuda PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL
  -Wl,-z,relro,-z,now,-z,noexecstack)
if(SOW_INSTALL)
  install(TARGETS sow_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT sow OPTIONAL)
endif()

# The wheel sow-cuda (packaging/cuda).
install(TARGETS sow_cuda LIBRARY DESTINATION sow_cuda COMPONENT cuda-wheel EXCLUDE_FROM_ALL OPTIONAL)

# `make test-gpu` builds these without the other tests, whose libraries a GPU machine may lack.
if(SOW_BUILD_TESTS OR SOW_BUILD_GPU_TESTS)
  find_package(GTest REQUIRED)
  enable_testing()
  file(GLOB cuda_test_files CONFIGURE_DEPENDS tests/cuda/*.cc tests/cuda/*/*.cc tests/*.cc)
  add_executable(cuda_tests ${cuda_test_files} tests/transfer/random_transfer.cc tests/program/cases.cc)
  set_target_properties(cuda_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(cuda_tests PRIVATE tests)
  target_compile_options(cuda_tests PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-result>")
  target_link_libraries(cuda_tests PRIVATE sow_internal GTest::gtest GTest::gtest_main CUDA::cudart_static)
  add_dependencies(cuda_tests sow_cuda)
  add_test(NAME cuda COMMAND cuda_tests "--gtest_output=xml:${PROJECT_BINARY_DIR}/results/cuda.xml")
  set_tests_properties(cuda PROPERTIES LABELS unit TIMEOUT 3000 RUN_SERIAL ON
    ENVIRONMENT "SOW_CUDA_LIBRARY=$<TARGET_FILE:sow_cuda>")
endif()
if(SOW_BUILD_BENCH OR SOW_BUILD_GPU_TESTS)
  add_executable(gpu_table bench/gpu/table.cu)
  add_executable(gpu_tune bench/gpu/tune.cc)
  foreach(program gpu_table gpu_tune)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench_gpu")
    target_link_libraries(${program} PRIVATE sow_internal CUDA::cudart_static)
    add_dependencies(${program} sow_cuda)
  endforeach()
endif()
