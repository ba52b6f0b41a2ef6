// Counts the calls of operator new in this test program.
#pragma once

#include <cstdint>

namespace sow::test {

int64_t heap_calls();

}  // namespace sow::test
