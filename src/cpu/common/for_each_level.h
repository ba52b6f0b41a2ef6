// SPDX-License-Identifier: Apache-2.0
// Compiles the file that SOW_KERNELS names once for every instruction level: in a namespace of its
// own (SOW_LEVEL), with the vectors of that level (vector.h) and the instructions that go with it.
// Only what is defined in that file is compiled so; functions from elsewhere that it calls are not,
// and need not be. SOW_BY_LEVEL(name) is then the function of that name for the current level,
// SOW_AT_LEVEL for another.
#include "core/isa.h"

#if SOW_HAS_X86_KERNELS
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sow/half.h"

#if defined(__clang__)
#define SOW_PRAGMA(text) _Pragma(#text)
#define SOW_BEGIN_LEVEL(names) \
  SOW_PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define SOW_END_LEVEL _Pragma("clang attribute pop")
#else
#define SOW_PRAGMA(text) _Pragma(#text)
#define SOW_BEGIN_LEVEL(names) _Pragma("GCC push_options") SOW_PRAGMA(GCC target(names))
#define SOW_END_LEVEL _Pragma("GCC pop_options")
#endif

#define SOW_LEVEL level_portable
#define SOW_VECTOR_BYTES 16
#include "cpu/common/vector.h"
#include SOW_KERNELS
#undef SOW_LEVEL
#undef SOW_VECTOR_BYTES

#if SOW_HAS_X86_KERNELS
SOW_BEGIN_LEVEL(SOW_AVX2_NAMES)
#define SOW_LEVEL level_avx2
#define SOW_VECTOR_BYTES 32
#include "cpu/common/vector.h"
#include SOW_KERNELS
#undef SOW_LEVEL
#undef SOW_VECTOR_BYTES
SOW_END_LEVEL

SOW_BEGIN_LEVEL(SOW_AVX512_NAMES)
#define SOW_LEVEL level_avx512
#define SOW_VECTOR_BYTES 64
#include "cpu/common/vector.h"
#include SOW_KERNELS
#undef SOW_LEVEL
#undef SOW_VECTOR_BYTES
SOW_END_LEVEL

#define SOW_AT_LEVEL(isa, ...) \
  by_isa(isa, level_portable::__VA_ARGS__, level_avx2::__VA_ARGS__, level_avx512::__VA_ARGS__)
#else
#define SOW_AT_LEVEL(isa, ...) (static_cast<void>(isa), &level_portable::__VA_ARGS__)
#endif
#define SOW_BY_LEVEL(...) SOW_AT_LEVEL(current_isa(), __VA_ARGS__)
