# SPDX-License-Identifier: Apache-2.0
# One libFuzzer program for each tests/fuzz/*_fuzz.cc, run for SOW_FUZZ_SECONDS (30) by ctest.
# One seed (SOW_FUZZ_SEED; 0 draws one) keeps `make test` the same from run to run; test-long draws.
# The corpus it gathers stays in the build folder; tests/fuzz/corpus/<name> holds first inputs, where
# there are any (of program_fuzz those that program_corpus writes).
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "The fuzz targets need clang: use the preset asan-ubsan-fuzz.")
endif()

set(fuzz_dir "${PROJECT_BINARY_DIR}/fuzz")
file(GLOB fuzz_files CONFIGURE_DEPENDS tests/fuzz/*_fuzz.cc)
foreach(source IN LISTS fuzz_files)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}" ${support})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${fuzz_dir}")
  target_include_directories(${name} PRIVATE tests)
  target_link_libraries(${name} PRIVATE sow_internal sow_test_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set(corpus "${fuzz_dir}/corpus/${name}")
  file(MAKE_DIRECTORY "${corpus}")
  set(seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  if(NOT IS_DIRECTORY "${seeds}")
    set(seeds "")
  endif()
  add_test(NAME ${name} COMMAND ${launcher} sh -c
    "exec \"$0\" -max_total_time=\${SOW_FUZZ_SECONDS:-30} -seed=\${SOW_FUZZ_SEED:-11} -print_final_stats=1 \"$@\""
    $<TARGET_FILE:${name}> "-artifact_prefix=${fuzz_dir}/${name}-" "${corpus}" ${seeds})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 7200)
endforeach()

add_executable(program_corpus EXCLUDE_FROM_ALL tests/fuzz/program_corpus.cc tests/program/cases.cc)
set_target_properties(program_corpus PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${fuzz_dir}")
target_include_directories(program_corpus PRIVATE tests)
target_link_libraries(program_corpus PRIVATE sow_internal)
