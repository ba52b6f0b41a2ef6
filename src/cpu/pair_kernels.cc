// The portable loops of pairs, and the choice among the instruction sets.
#include "cpu/pair_kernels.h"

#include "core/isa.h"
#include "cpu/pair_loops.h"

namespace sow::detail {

// src/cpu/pair_deal_avx512.cc, src/cpu/pair_kernels_avx512.cc
extern const PairDealers k_pair_dealers_avx512;
extern const PairKernels k_pair_kernels_avx512;
extern const PairFold k_pair_amax_avx512, k_pair_amin_avx512;

namespace {

void deal(const PairDeal& to, DealBlocks& blocks, const uint32_t* codes, const char* values,
          int count, const char* soon) {
  constexpr int kStep = 8;
  int i = 0;
  for (; i + kStep <= count; i += kStep) {
    send_ahead(soon, i * 8);
    send_ahead(values, (i + kTileItems) * to.value_size);
    deal_pairs(to, blocks, codes, values, i, i + kStep);
  }
  deal_pairs(to, blocks, codes, values, i, count);
}

void unpack(const uint64_t* pairs, int64_t count, uint32_t* cells, void* values, int value_size,
            const void* soon) {
  for (int64_t i = 0; i < count; i += 8) send_ahead(soon, i * 8);
  unpack_pairs(pairs, 0, count, cells, values, value_size);
}

bool store(const Block& block, const uint64_t* pairs, int64_t count, const void* soon) {
  auto* to = reinterpret_cast<Word<4>*>(block.first);
  for_each_strip_of_pairs(block, count, soon, [=](int64_t first, int64_t last) {
// Unrolled, 2^23 moves to 2^22 places took 8.3 ms instead of 7.9.
#pragma GCC unroll 1
    for (int64_t i = first; i < last; ++i)
      to[static_cast<uint32_t>(pairs[i])].bits = static_cast<uint32_t>(pairs[i] >> 32);
  });
  return true;
}

const PairDealers portable_dealers = {deal, nullptr};
const PairKernels portable = {unpack, nullptr, nullptr, nullptr};
const PairFold stores = {nullptr, store};

}  // namespace

const PairDealers& pair_dealers() {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return k_pair_dealers_avx512;
  }
  return portable_dealers;
}

const PairKernels& pair_kernels() {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return k_pair_kernels_avx512;
  }
  return portable;
}

const PairFold* pair_fold(DType dtype, Reduce reduce) {
  if (size_of(dtype) != 4) return nullptr;
  if (reduce == Reduce::assign) return &stores;
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (dtype == DType::float32 && current_isa() == Isa::avx512) {
      if (reduce == Reduce::amax) return &k_pair_amax_avx512;
      if (reduce == Reduce::amin) return &k_pair_amin_avx512;
    }
  }
  return nullptr;
}

}  // namespace sow::detail
