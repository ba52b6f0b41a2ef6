# SPDX-License-Identifier: Apache-2.0
# Checks that are no GoogleTest: headers, flags, installation, examples, other CPUs, device code.

# Every public header compiles alone, and none of them brings OpenMP to its users.
file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" include/sow/*.h
  include/sow/detail/*.h)
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  list(REMOVE_ITEM headers sow/mpi.h)
endif()
set(alone "")
foreach(header IN LISTS headers ITEMS sow/version.h)
  string(MAKE_C_IDENTIFIER "${header}" name)
  set(file "${PROJECT_BINARY_DIR}/headers/${name}.cc")
  file(CONFIGURE OUTPUT "${file}" CONTENT [[
#include "@header@"
#include "@header@"
#if defined(_OMP_H) || defined(__OMP_H)
#error "@header@ brings OpenMP to its users"
#endif
]] @ONLY)
  list(APPEND alone "${file}")
endforeach()
add_library(sow_headers OBJECT EXCLUDE_FROM_ALL ${alone})
target_include_directories(sow_headers PRIVATE include "${PROJECT_BINARY_DIR}/include")
target_link_libraries(sow_headers PRIVATE sow_flags $<TARGET_NAME_IF_EXISTS:MPI::MPI_CXX>)
add_test(NAME headers_alone
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target sow_headers)

# Ranks of MPI on this machine, more of them than it has cores.
if(MPI_CXX_FOUND)
  add_executable(mpi_ranks tests/distributed/mpi/ranks.cc ${support})
  target_include_directories(mpi_ranks PRIVATE tests)
  target_link_libraries(mpi_ranks PRIVATE sow_internal MPI::MPI_CXX)
  foreach(ranks IN ITEMS 1 2 3 4 8)
    add_test(NAME mpi_${ranks} COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${ranks}
      $<TARGET_FILE:mpi_ranks>)
    set_tests_properties(mpi_${ranks} PROPERTIES TIMEOUT 120 PROCESSORS 2 ENVIRONMENT
      "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_btl_vader_single_copy_mechanism=none;OMP_NUM_THREADS=1")
    list(APPEND check_names mpi_${ranks})
  endforeach()
else()
  message(STATUS "No MPI was found: going on without the test of sow/mpi.h.")
endif()

add_test(NAME fast_math_refused
  COMMAND "${CMAKE_COMMAND}" -S "${PROJECT_SOURCE_DIR}" -B "${PROJECT_BINARY_DIR}/fast_math"
    -G "${CMAKE_GENERATOR}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
    "-DCMAKE_CXX_FLAGS=-O2 -ffast-math")
set_tests_properties(fast_math_refused PROPERTIES
  PASS_REGULAR_EXPRESSION "sow cannot be built with -ffast-math")

# No name of a type means two things: under link-time optimisation the compiler sees every file at
# once. Nothing is optimised, which makes it a matter of a minute.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  get_target_property(library_sources sow_objects SOURCES)
  add_library(sow_one_definition SHARED EXCLUDE_FROM_ALL ${library_sources})
  target_include_directories(sow_one_definition PRIVATE include src "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(sow_one_definition PRIVATE ${sow_needs})
  target_compile_features(sow_one_definition PRIVATE cxx_std_20)
  target_compile_options(sow_one_definition PRIVATE -O0 -flto -fPIC -fvisibility=hidden -w)
  target_link_options(sow_one_definition PRIVATE -O0 -flto -Werror=odr -Werror=lto-type-mismatch)
  add_test(NAME one_definition
    COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target sow_one_definition)
  list(APPEND check_names one_definition)
endif()

# A project of its own finds the installed package, through CMake and through pkg-config.
add_test(NAME install_consumer
  COMMAND sh "${PROJECT_SOURCE_DIR}/tests/install/check.sh"
    "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")

if(SOW_BUILD_EXAMPLES)
  foreach(source IN LISTS examples)
    get_filename_component(name "${source}" NAME_WE)
    add_test(NAME example_${name} COMMAND example_${name})
    list(APPEND check_names example_${name})
  endforeach()
endif()

# The same tests, fewer problems drawn, on CPUs that stop at the first instruction they lack. Death
# tests start the program anew, and that would be on the machine's own CPU; how much memory is taken
# does not depend on it.
find_program(SOW_QEMU qemu-x86_64)
if(NOT SOW_QEMU OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(STATUS "qemu-x86_64 cannot be used: going on without runs on older CPUs.")
else()
  foreach(cpu IN ITEMS Nehalem Haswell)
    foreach(folder IN ITEMS core cpu)
      if(TARGET ${folder}_tests)
        string(TOLOWER "qemu_${cpu}_${folder}" name)
        add_test(NAME ${name} COMMAND "${SOW_QEMU}" -cpu ${cpu} $<TARGET_FILE:${folder}_tests>
          --gtest_filter=-*DeathTest.*:*Scratch* "--gtest_output=xml:${results}/${name}.xml")
        set_tests_properties(${name} PROPERTIES ENVIRONMENT SOW_TEST_PROBLEMS=100)
        list(APPEND check_names ${name})
      endif()
    endforeach()
  endforeach()
endif()

# Headers that host and device share are compiled by nvcc where there is one.
if(SOW_HAS_CUDA)
  file(GLOB device_files CONFIGURE_DEPENDS tests/*/*_cuda.cu)
  foreach(source IN LISTS device_files)
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "_cuda$" "_nvcc_compiles" name "${name}")
    add_test(NAME ${name} COMMAND "${SOW_NVCC}" -std=c++20 --fmad=false
      -Werror all-warnings -Xcompiler=-Wall,-Wextra,-ffp-contract=off
      "-I${PROJECT_SOURCE_DIR}/src" "-I${PROJECT_SOURCE_DIR}/include"
      "-I${PROJECT_BINARY_DIR}/include" -c "${source}" -o "${PROJECT_BINARY_DIR}/${name}.o")
    list(APPEND check_names ${name})
  endforeach()
endif()

list(APPEND check_names headers_alone fast_math_refused install_consumer)
set_tests_properties(${check_names} PROPERTIES LABELS check TIMEOUT 1800)
