# SPDX-License-Identifier: Apache-2.0
# One program for each file of bench/.
find_package(benchmark REQUIRED)

file(GLOB benchmarks CONFIGURE_DEPENDS bench/*.cc)
foreach(source IN LISTS benchmarks)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench_${name} "${source}")
  set_target_properties(bench_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(bench_${name} PRIVATE
    sow_internal benchmark::benchmark benchmark::benchmark_main)
endforeach()
