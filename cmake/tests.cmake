# The tests: one GoogleTest program for each folder of tests/ that holds *_test.cc files.
find_package(GTest REQUIRED)
find_library(SOW_MPFR mpfr REQUIRED)

file(GLOB test_files CONFIGURE_DEPENDS
  RELATIVE "${PROJECT_SOURCE_DIR}/tests" tests/*/*_test.cc)
list(TRANSFORM test_files REPLACE "/.*" "" OUTPUT_VARIABLE test_folders)
list(REMOVE_DUPLICATES test_folders)

foreach(folder IN LISTS test_folders)
  file(GLOB sources CONFIGURE_DEPENDS tests/${folder}/*.cc)
  add_executable(${folder}_tests ${sources})
  set_target_properties(${folder}_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(${folder}_tests PRIVATE tests)
  target_link_libraries(${folder}_tests PRIVATE
    sow_internal GTest::gtest GTest::gtest_main ${SOW_MPFR} gmp)
  add_test(NAME ${folder} COMMAND ${folder}_tests
    "--gtest_output=xml:${PROJECT_BINARY_DIR}/results/${folder}.xml")
endforeach()
