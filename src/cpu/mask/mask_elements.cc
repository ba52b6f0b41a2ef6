// SPDX-License-Identifier: Apache-2.0
// Strategy mask_elements: count the trues of each chunk, then expand, compress or blend it.
#include "core/isa.h"
#include "cpu/common/byte_width.h"
#include "cpu/copy/move_run.h"
#include "cpu/mask/mask_kernels.h"
#include "cpu/mask/mask_layout.h"
#include "cpu/mask/mask_scan.h"
#include "cpu/strategies.h"

namespace sow::detail {
namespace {

constexpr int64_t kGrain = 32 << 10;  // elements: below two of these a second thread costs more
constexpr int kChunksPerThread = 8;

bool supports(const Transfer& transfer, const Canonical&) { return is_masked_move(transfer); }

int chunks_for(int64_t count, int threads) {
  return choose_chunks(count, kGrain, threads, kChunksPerThread);
}

// One element and then another: any strides, any mask.
template <int Width>
struct PlainRun {
  Word<Width>* dst;
  const uint8_t* mask;
  const Word<Width>* src;
  const Word<Width>* old;
  int64_t dst_step, mask_step, src_step, old_step;

  // Places a source element, or the old one; choosing addresses, as random masks defeat branches.
  // Only a source by rank moves on with the trues.
  int64_t place(int64_t count, bool by_rank) const {
    int64_t trues = 0;
    for (int64_t i = 0; i < count; ++i) {
      const bool take = mask[i * mask_step] != 0;
      dst[i * dst_step] = *(take ? src + (by_rank ? trues : i) * src_step : old + i * old_step);
      trues += take;
    }
    return trues;
  }
  int64_t collect(int64_t count) const {
    int64_t trues = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (mask[i * mask_step] != 0) dst[trues++ * dst_step] = src[i * src_step];
    }
    return trues;
  }
};

class Mover {
 public:
  Mover(const Transfer& transfer, const ElementLayout& layout)
      : transfer_(transfer),
        layout_(layout),
        kernels_(mask_kernels()),
        width_(static_cast<int64_t>(size_of(transfer.dtype))),
        slot_(width_slot(size_of(transfer.dtype))),
        in_place_(transfer.base.data == nullptr) {
    const bool by_rank = transfer.rank_stride == 1;
    const bool kept = in_place_ || layout.step(kBase) == 1;
    const bool placed = layout.step(kDst) == 1 && kept;
    dense_ = layout.step(kMask) == 1;
    if (transfer.mask_side == MaskSide::source) {
      dense_ = dense_ && placed && by_rank;
    } else if (transfer.mask_side == MaskSide::destination) {
      dense_ = dense_ && by_rank && layout.step(kSrc) == 1;
    } else {
      same_ = transfer.src.data == nullptr || layout.step(kSrc) == 0;
      dense_ = dense_ && placed && (same_ || layout.step(kSrc) == 1);
    }
    streaming_ = !in_place_ && layout.count * width_ >= kStreamingBytes;
  }

  // The positions [first, last), whose trues have the ranks [rank, rank_end).
  void move(int64_t first, int64_t last, int64_t rank, int64_t rank_end) const {
    for_each_run(layout_.all, first, last, [&](const auto& at, int64_t inner, int64_t count) {
      auto operand = [&](const Operand& from, int k) {
        return from.data + (at[k] + inner * layout_.step(k)) * width_;
      };
      Run run;
      run.mask = reinterpret_cast<const uint8_t*>(transfer_.mask.data) + at[kMask] +
                 inner * layout_.step(kMask);
      run.count = count;
      const int64_t ranked = rank * transfer_.rank_stride * width_;
      const bool select = transfer_.mask_side == MaskSide::destination;
      run.dst = select ? transfer_.dst.data + ranked : operand(transfer_.dst, kDst);
      run.old = in_place_ ? run.dst : operand(transfer_.base, kBase);
      if (transfer_.mask_side == MaskSide::source) {
        run.src = transfer_.src.data + ranked;
      } else if (transfer_.src.data != nullptr) {
        run.src = operand(transfer_.src, kSrc);
      } else {
        run.src = reinterpret_cast<const char*>(transfer_.scalar);
      }
      rank += dense_ ? move_dense(run, rank, rank_end) : move_plain(run);
    });
  }

 private:
  struct Run {
    char* dst;
    const char* old;
    const uint8_t* mask;
    const char* src;
    int64_t count;
  };

  int64_t move_dense(const Run& run, int64_t rank, int64_t rank_end) const {
    if (transfer_.mask_side == MaskSide::source) {
      const auto* kernels = streaming_ ? kernels_.expand_streaming : kernels_.expand;
      return kernels[slot_](run.dst, run.old, run.mask, run.src, run.count,
                            transfer_.rank_limit - rank);
    }
    if (transfer_.mask_side == MaskSide::destination) {
      return kernels_.compress[slot_](run.dst, run.mask, run.src, run.count, rank_end - rank);
    }
    const auto* kernels = same_ ? kernels_.blend_same : kernels_.blend;
    kernels[slot_](run.dst, run.old, run.mask, run.src, run.count);
    return 0;
  }

  int64_t move_plain(const Run& run) const {
    const bool select = transfer_.mask_side == MaskSide::destination;
    const bool scatter = transfer_.mask_side == MaskSide::source;
    const int64_t dst_step = select ? transfer_.rank_stride : layout_.step(kDst);
    int64_t src_step = scatter ? transfer_.rank_stride : layout_.step(kSrc);
    if (transfer_.src.data == nullptr) src_step = 0;
    int64_t trues = 0;
    with_width(static_cast<size_t>(width_), [&](auto width) {
      using Element = Word<decltype(width)::value>;
      const PlainRun<decltype(width)::value> plain{reinterpret_cast<Element*>(run.dst),
                                                   run.mask,
                                                   reinterpret_cast<const Element*>(run.src),
                                                   reinterpret_cast<const Element*>(run.old),
                                                   dst_step,
                                                   layout_.step(kMask),
                                                   src_step,
                                                   in_place_ ? dst_step : layout_.step(kBase)};
      trues = select ? plain.collect(run.count) : plain.place(run.count, scatter);
    });
    return trues;
  }

  const Transfer& transfer_;
  const ElementLayout& layout_;
  const MaskKernels& kernels_;
  int64_t width_;
  int slot_;
  bool in_place_;
  bool dense_ = false;
  bool same_ = false;
  bool streaming_ = false;
};

double cost(const Transfer& transfer, const Canonical&, int threads) {
  const auto count = static_cast<double>(mask_positions(transfer));
  const auto width = static_cast<double>(size_of(transfer.dtype));
  const int used = chunks_for(mask_positions(transfer), threads) > 1 ? threads : 1;
  // 0.2 ns an element of 4 bytes and thread, as much again where lines are not in the caches; a
  // mask that is not dense goes through the plain loops.
  const bool dense = mask_row(transfer) == 1;
  const double each = dense ? 0.05 + 0.05 * width : 1.2 + 0.05 * width;
  return 60 + count * each / used + (used > 1 ? 4000 : 0);
}

size_t workspace(const Transfer& transfer, const Canonical&, int threads) {
  const int chunks = chunks_for(mask_positions(transfer), threads);
  return chunks == 1 ? 0 : (static_cast<size_t>(chunks) + 1) * sizeof(int64_t);
}

void run(const Transfer& transfer, const Canonical&, const Plan& plan, char* memory) {
  const ElementLayout layout = element_layout(transfer);
  const Chunks chunks{layout.count, chunks_for(layout.count, plan.threads), 64};
  const bool ranked = transfer.mask_side != MaskSide::skip;
  int64_t one_chunk[2] = {};
  int64_t* ranks = chunks.chunks == 1 ? one_chunk : reinterpret_cast<int64_t*>(memory);
  if (ranked) {
    const auto* mask = reinterpret_cast<const uint8_t*>(transfer.mask.data);
    const int64_t trues = scan_mask(mask, layout.mask, chunks, plan.threads, ranks);
    expect_enough(transfer, trues);
    clear_rest(transfer, trues);
  }
  const Mover mover(transfer, layout);
  for_each_chunk(plan.threads, chunks.chunks, [&](int chunk) {
    const int64_t rank = ranked ? ranks[chunk] : 0;
    const int64_t rank_end = ranked ? ranks[chunk + 1] : 0;
    mover.move(chunks.begin(chunk), chunks.end(chunk), rank, rank_end);
  });
}

}  // namespace

const Strategy k_mask_elements = {
    "mask_elements",
    "counts the trues of each chunk, then expands, compresses or blends it in registers",
    supports,
    cost,
    workspace,
    run,
};

}  // namespace sow::detail
