# SPDX-License-Identifier: Apache-2.0
# What every file is compiled with, and what no build of sow may be compiled with.

# Exact sums are exact only while each operation rounds as IEEE 754 says.
set(forbidden "-Ofast|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math")
string(APPEND forbidden "|-ffinite-math-only|-fno-signed-zeros")
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}" MATCHES "(^| )(${forbidden})( |$)")
  message(FATAL_ERROR "sow cannot be built with ${CMAKE_MATCH_2}: its sums are exact only where "
    "every floating-point operation rounds as IEEE 754 says. Remove the flag.")
endif()

# Within another project the build type is that project's choice.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
  else()
    message(STATUS "sow is built without optimisation: CMAKE_BUILD_TYPE is empty.")
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sow_flags INTERFACE)
# For C++ alone: nvcc spells them differently (cmake/cuda.cmake).
target_compile_options(sow_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-ffp-contract=off>")
if(SOW_WERROR)
  target_compile_options(sow_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()

# Hardening that costs nothing measurable: symbols are bound at load and their tables sealed, the stack
# is guarded, and the C library checks the sizes that it can know. Sanitizers bring checks of their own.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  target_compile_options(sow_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>")
  if(NOT build_type STREQUAL "DEBUG" AND NOT CMAKE_CXX_FLAGS MATCHES "_FORTIFY_SOURCE")
    target_compile_options(sow_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
  target_link_options(sow_flags INTERFACE "$<$<LINK_LANGUAGE:CXX>:-Wl,-z,relro,-z,now,-z,noexecstack>")
endif()
