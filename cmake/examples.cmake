# SPDX-License-Identifier: Apache-2.0
# One program for each file of examples/, built against the library as a user's would be.
file(GLOB examples CONFIGURE_DEPENDS examples/*.cc)
add_custom_target(examples)
foreach(source IN LISTS examples)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  target_link_libraries(example_${name} PRIVATE sow::sow sow_flags)
  add_dependencies(examples example_${name})
endforeach()
