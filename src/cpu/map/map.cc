// SPDX-License-Identifier: Apache-2.0
// Runs Maps on the CPU: blocks of each operand are widened to a few computing types, so that one
// kernel per computing type serves all element types.
#include "transfer/map.h"

#include <cmath>
#include <complex>
#include <cstring>

#include "core/dtype_switch.h"
#include "core/isa.h"
#include "core/threads/float_state.h"
#include "core/threads/parallel.h"
#include "cpu/map/map_block.h"
#include "transfer/nested_dims.h"

namespace sow::detail {

namespace {

constexpr int64_t kGrain = 1 << 15;  // elements per thread

// The positions of a Map, at least one dimension of them. An operand without data does not move.
struct MapWalk {
  Nest<3> nest;
  int64_t count = 1;
};

MapWalk collapse(const Map& map) {
  MapWalk walk;
  for (int d = 0; d < map.shape.rank(); ++d) {
    std::array<int64_t, 3> strides{};
    for (int k = 0; k < map.arity; ++k) {
      if (map.in[k].data != nullptr) strides[k] = map.in[k].strides[d];
    }
    walk.nest.push(map.shape[d], strides);
    walk.count *= map.shape[d];
  }
  if (walk.nest.rank() == 0) {
    walk.nest.size.push_back(1);
    for (Dims& strides : walk.nest.stride) strides.push_back(0);
  }
  return walk;
}

// Calls f(element offset, stride, first, length) for the runs of one operand that make up the
// positions [begin, begin + count).
template <class F>
void for_each_run(const MapWalk& walk, int operand, int64_t begin, int64_t count, F&& f) {
  const int64_t stride = walk.nest.stride[operand].back();
  int64_t done = 0;
  for_each_run(walk.nest, begin, begin + count,
               [&](const std::array<int64_t, 3>& at, int64_t inner, int64_t length) {
                 f(at[operand] + inner * stride, stride, done, length);
                 done += length;
               });
}

// The scalar, for the blocks of an operand that has no data.
template <class C>
void spread_scalar(const Map& map, int operand, int64_t count, C* buffer) {
  if (map.in[operand].data != nullptr) return;
  C one{};
  widen<C>(reinterpret_cast<const char*>(map.scalar), map.in[operand].dtype, 0, 1, &one);
  std::fill(buffer, buffer + count, one);
}

// One block of an operand as computing type C: in `buffer`, or where it lies already.
template <class C>
const C* load_block(const Map& map, const MapWalk& walk, int operand, int64_t begin, int64_t count,
                    C* buffer) {
  const MapOperand& from = map.in[operand];
  if (from.data == nullptr) return buffer;  // spread_scalar was there
  if (from.dtype == dtype_of<C>() && walk.nest.rank() == 1 && walk.nest.stride[operand][0] == 1) {
    return reinterpret_cast<const C*>(from.data) + begin;
  }
  const int64_t size = static_cast<int64_t>(size_of(from.dtype));
  for_each_run(walk, operand, begin, count,
               [&](int64_t offset, int64_t stride, int64_t first, int64_t length) {
                 widen<C>(from.data + offset * size, from.dtype, stride, length, buffer + first);
               });
  return buffer;
}

template <class F>
void for_each_block(const MapWalk& walk, F&& f) {
  parallel_for(0, walk.count, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; at += kBlock) f(at, std::min<int64_t>(kBlock, last - at));
  });
}

// Operands of one computing type, and a result of that type or bool.
template <class C>
void run_arithmetic(const Map& map, const MapWalk& walk) {
  const bool compares = map.op >= MapOp::eq && map.op <= MapOp::same;
  const int64_t size = static_cast<int64_t>(size_of(map.out_dtype));
  const bool direct = !compares && map.out_dtype == dtype_of<C>();
  parallel_for(0, walk.count, kGrain, [&](int64_t first, int64_t last) {
    alignas(64) C left[kBlock], right[kBlock], result[kBlock];
    const int64_t most = std::min<int64_t>(kBlock, last - first);
    spread_scalar(map, 0, most, left);
    if (map.arity > 1) spread_scalar(map, 1, most, right);
    for (int64_t at = first; at < last; at += kBlock) {
      const int64_t count = std::min<int64_t>(kBlock, last - at);
      const C* a = load_block(map, walk, 0, at, count, left);
      const C* b = map.arity > 1 ? load_block(map, walk, 1, at, count, right) : a;
      char* out = map.out + at * size;
      if (compares) {
        compare_block(map.op, a, b, count, reinterpret_cast<bool*>(out));
      } else if (direct) {
        compute_block(map, a, b, count, reinterpret_cast<C*>(out));
      } else {
        compute_block(map, a, b, count, result);
        narrow(result, count, map.out_dtype, out);
      }
    }
  });
}

// The second operand counts; R is double or complex<double>.
template <class R>
void run_share(const Map& map, const MapWalk& walk) {
  const int64_t size = static_cast<int64_t>(size_of(map.out_dtype));
  for_each_block(walk, [&](int64_t at, int64_t count) {
    alignas(64) R left[kBlock], result[kBlock];
    alignas(64) int64_t right[kBlock];
    spread_scalar(map, 1, count, right);
    const R* a = load_block(map, walk, 0, at, count, left);
    const int64_t* b = load_block(map, walk, 1, at, count, right);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t parts = std::max<int64_t>(b[i], 1);
      result[i] = plain_nan<R>(a[i] / static_cast<double>(parts));
    }
    narrow(result, count, map.out_dtype, map.out + at * size);
  });
}

template <class C>
void run_cast(const Map& map, const MapWalk& walk) {
  const int64_t size = static_cast<int64_t>(size_of(map.out_dtype));
  for_each_block(walk, [&](int64_t at, int64_t count) {
    alignas(64) C buffer[kBlock];
    narrow(load_block(map, walk, 0, at, count, buffer), count, map.out_dtype, map.out + at * size);
  });
}

// Copies a block of an operand as words, whatever they mean; where it lies already if it can.
template <class Word>
const Word* fetch_words(const Map& map, const MapWalk& walk, int operand, int64_t at, int64_t count,
                        Word* buffer) {
  const char* data = map.in[operand].data;
  const Word* base =
      reinterpret_cast<const Word*>(data ? data : reinterpret_cast<const char*>(map.scalar));
  if (walk.nest.rank() == 1 && walk.nest.stride[operand][0] == 1) return base + at;
  for_each_run(walk, operand, at, count,
               [&](int64_t offset, int64_t stride, int64_t first, int64_t n) {
                 for (int64_t i = 0; i < n; ++i) buffer[first + i] = base[offset + i * stride];
               });
  return buffer;
}

template <class Word>
[[gnu::always_inline]] inline void blend_body(const uint8_t* chosen, const Word* a, const Word* b,
                                              int64_t count, Word* out) {
  for (int64_t i = 0; i < count; ++i) {
    const Word yes = a[i], no = b[i];  // both are read, so that no branch is needed
    out[i] = chosen[i] != 0 ? yes : no;
  }
}
template <class Word>
void blend(const uint8_t* chosen, const Word* a, const Word* b, int64_t count, Word* out) {
  blend_body(chosen, a, b, count, out);
}
template <class Word>
SOW_TARGET_AVX2 void blend_avx2(const uint8_t* chosen, const Word* a, const Word* b, int64_t count,
                                Word* out) {
  blend_body(chosen, a, b, count, out);
}

// Moves bytes: NaN payloads stay.
template <class Word>
void run_where(const Map& map, const MapWalk& walk) {
  const auto blended = current_isa() == Isa::portable ? blend<Word> : blend_avx2<Word>;
  for_each_block(walk, [&](int64_t at, int64_t count) {
    alignas(64) uint8_t flags[kBlock];
    alignas(64) Word left[kBlock], right[kBlock];
    const uint8_t* chosen = fetch_words(map, walk, 0, at, count, flags);
    const Word* a = fetch_words(map, walk, 1, at, count, left);
    const Word* b = fetch_words(map, walk, 2, at, count, right);
    Word* out = reinterpret_cast<Word*>(map.out) + at;
    blended(chosen, a, b, count, out);
  });
}

struct TwoWords {
  uint64_t words[2];
};

void run_moves(const Map& map, const MapWalk& walk) {
  switch (size_of(map.out_dtype)) {
    case 1:
      return run_where<uint8_t>(map, walk);
    case 2:
      return run_where<uint16_t>(map, walk);
    case 4:
      return run_where<uint32_t>(map, walk);
    case 8:
      return run_where<uint64_t>(map, walk);
    default:
      return run_where<TwoWords>(map, walk);
  }
}

bool in_double(MapOp op) {
  return op == MapOp::pow || op == MapOp::share || op == MapOp::cast || op == MapOp::exp ||
         op == MapOp::log;
}

}  // namespace

void run_map_cpu(const Map& map) {
  const FloatStateGuard guard;
  const MapWalk walk = collapse(map);
  if (map.op == MapOp::where) return run_moves(map, walk);
  const DType dtype = map.in[0].dtype;
  if (map.op == MapOp::share) {
    return is_complex(dtype) ? run_share<std::complex<double>>(map, walk)
                             : run_share<double>(map, walk);
  }
  if (map.op == MapOp::cast) {
    if (is_complex(dtype)) return run_cast<std::complex<double>>(map, walk);
    if (dtype == DType::uint64) return run_cast<uint64_t>(map, walk);
    return is_floating(dtype) ? run_cast<double>(map, walk) : run_cast<int64_t>(map, walk);
  }
  if (is_complex(dtype)) {
    const bool wide = dtype == DType::complex128 || in_double(map.op);
    return wide ? run_arithmetic<std::complex<double>>(map, walk)
                : run_arithmetic<std::complex<float>>(map, walk);
  }
  if (dtype == DType::uint64) return run_arithmetic<uint64_t>(map, walk);
  if (!is_floating(dtype)) return run_arithmetic<int64_t>(map, walk);
  const bool wide = dtype == DType::float64 || in_double(map.op);
  return wide ? run_arithmetic<double>(map, walk) : run_arithmetic<float>(map, walk);
}

}  // namespace sow::detail
