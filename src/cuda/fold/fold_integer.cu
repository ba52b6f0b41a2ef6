// SPDX-License-Identifier: Apache-2.0
// Every reduction of bool and the integers, and amax and amin of float64, as integers that order
// the same way.
#include "core/exact/exact_traits.h"
#include "cuda/block/block_fold.cuh"
#include "cuda/common/dtypes.h"
#include "cuda/common/ordered_bits.cuh"
#include "cuda/fold/fold.cuh"

namespace sow::detail::cuda {

namespace {

template <class T>
struct IntegerFold {
  using Stored = T;
  using Acc = int64_t;
  using Partial = Acc;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = false;
  static constexpr bool kLongRows = !std::is_integral_v<T> && !std::is_same_v<T, Truth>;
  static constexpr int kPack = sizeof(T) == 8 ? 2 : sizeof(T) == 4 ? 4 : 1;

  Reduce reduce;  // any but assign
  bool include_self;
  bool negate;

  __device__ Acc start() const {
    if (reduce == Reduce::bit_and) return -1;
    return reduce == Reduce::mul ? 1 : is_extreme(reduce) ? INT64_MIN : 0;
  }
  __device__ Partial start_partial() const { return start(); }
  __device__ Partial to_partial(Acc acc) const { return acc; }
  __device__ void add(Acc& acc, T value) const { merge(acc, to_ordered(value, negate, reduce)); }
  // Wrapping, so on unsigned numbers.
  __device__ void merge(Acc& acc, Acc other) const {
    if (is_extreme(reduce))
      acc = max(acc, other);
    else if (reduce >= Reduce::bit_and)
      acc = reduce == Reduce::bit_and  ? acc & other
            : reduce == Reduce::bit_or ? acc | other
                                       : acc ^ other;
    else if (reduce == Reduce::mul)
      acc = static_cast<int64_t>(static_cast<uint64_t>(acc) * static_cast<uint64_t>(other));
    else
      acc = static_cast<int64_t>(static_cast<uint64_t>(acc) + static_cast<uint64_t>(other));
  }
  __device__ bool finish(Acc acc, T old, int64_t count, T& out) const {
    if (include_self) merge(acc, to_ordered(old, false, reduce));
    if (reduce == Reduce::mean) {
      const int64_t terms = count + (include_self ? 1 : 0);
      if constexpr (std::is_unsigned_v<T>) {
        acc = static_cast<int64_t>(static_cast<uint64_t>(acc) / static_cast<uint64_t>(terms));
      } else {
        const int64_t quotient = acc / terms;
        acc = quotient - (acc % terms < 0);
      }
    }
    out = from_ordered<T>(acc, reduce);
    return true;
  }
  __device__ bool finish_partial(Acc acc, T old, int64_t count, T& out) const {
    return finish(acc, old, count, out);
  }
};

template <class T>
void run_as(const Launch& launch, const Segments& segments, const FoldMemory& memory,
            const BlockArgs* block) {
  const Problem& p = launch.problem;
  Reduce reduce = p.reduce;
  if constexpr (std::is_same_v<T, Truth>) {
    const bool any = reduce == Reduce::add || reduce == Reduce::amax || reduce == Reduce::bit_or;
    if (reduce != Reduce::bit_xor) reduce = any ? Reduce::amax : Reduce::amin;
  }
  const auto fold = IntegerFold<T>{reduce, p.include_self, p.negate};
  if (block != nullptr)
    run_block(launch, *block, fold);
  else
    run_fold(launch, segments, memory, fold);
}

}  // namespace

void fold_integers(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block) {
  with_type<Truth, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t,
            double>(launch.problem.dtype,
                    [&](auto zero) { run_as<decltype(zero)>(launch, segments, memory, block); });
}

}  // namespace sow::detail::cuda
