// SPDX-License-Identifier: Apache-2.0
// Marks what the shared library shows to its users; everything else in it is hidden.
#pragma once

#if __cplusplus < 202002L
#error \
    "sow needs C++20: -std=c++20, or in CMake target_link_libraries(app PRIVATE sow::sow), which asks for it"
#endif

#define SOW_API __attribute__((visibility("default")))
