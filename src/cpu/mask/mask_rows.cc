// SPDX-License-Identifier: Apache-2.0
// Strategy mask_rows: where one mask byte decides about a whole row, scan the bytes, copy the rows.
#include "cpu/copy/move_run.h"
#include "cpu/mask/mask_layout.h"
#include "cpu/mask/mask_scan.h"
#include "cpu/strategies.h"

namespace sow::detail {
namespace {

constexpr int64_t kGrain = 128 << 10;  // bytes of rows worth a chunk of their own
// Many, because the trues may lie close together, and false rows cost nothing in place.
constexpr int kChunksPerThread = 32;

bool supports(const Transfer& transfer, const Canonical&) {
  return is_masked_move(transfer) && mask_row(transfer) > 1;
}

int64_t bytes_of(const Transfer& transfer) {
  return mask_positions(transfer) * static_cast<int64_t>(size_of(transfer.dtype));
}

// Pieces are sets of rows; where rows are few and long, each is cut into parts as well.
struct Cut {
  int chunks = 1;
  int parts = 1;
};
Cut cut_for(int64_t rows, int64_t bytes, int threads) {
  const int wanted = choose_chunks(bytes, kGrain, threads, kChunksPerThread);
  Cut cut;
  cut.chunks = static_cast<int>(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(rows, 1)));
  if (rows < 4 * threads) cut.parts = std::max(1, wanted / cut.chunks);
  return cut;
}

class RowMover {
 public:
  RowMover(const Transfer& transfer, const RowLayout& layout)
      : transfer_(transfer),
        layout_(layout),
        width_(static_cast<int64_t>(size_of(transfer.dtype))),
        step_(layout.row * transfer.rank_stride) {
    const int last = layout.outer.rank() - 1;
    if (last >= 0) {
      const bool by_rank_dst = transfer.mask_side == MaskSide::destination;
      const bool by_rank_src = transfer.mask_side == MaskSide::source;
      const auto& stride = layout.outer.stride;
      move_step_ = {by_rank_dst ? step_ : stride[kDst][last],
                    by_rank_src ? step_ : stride[kSrc][last]};
      keep_step_ = {stride[kDst][last], stride[kBase][last]};
      move_joins_ = joins(layout.move, move_step_);
      keep_joins_ = joins(layout.keep, keep_step_);
    }
    streaming_ = layout.rows * layout.row * width_ >= kStreamingBytes;
  }

  // Part [from, to) of each of the rows [first, last); the first true one has this rank.
  void move(int64_t first, int64_t last, int64_t rank, int64_t from, int64_t to) const {
    const auto* mask = reinterpret_cast<const uint8_t*>(transfer_.mask.data);
    const int64_t mask_step = layout_.outer.rank() == 0 ? 1 : layout_.outer.stride[kMask].back();
    for_each_run(layout_.outer, first, last, [&](const auto& at, int64_t inner, int64_t count) {
      const uint8_t* bytes = mask + at[kMask] + inner * mask_step;
      for (int64_t i = 0; i < count;) {
        const bool take = bytes[i * mask_step] != 0;
        int64_t end = i + 1;
        while (end < count && (bytes[end * mask_step] != 0) == take) ++end;
        if (take) {
          move_rows(at, inner + i, end - i, rank, from, to);
          rank += end - i;
        } else if (transfer_.base.data != nullptr) {
          keep_rows(at, inner + i, end - i, from, to);
        }
        i = end;
      }
    });
  }

 private:
  using Pair = std::array<int64_t, 2>;
  using Places = std::array<int64_t, 4>;

  // Whether rows one after the other are one long run.
  bool joins(const Nest<2>& nest, const Pair& step) const {
    if (nest.rank() != 1) return false;
    return step[0] == layout_.row * nest.stride[0][0] && step[1] == layout_.row * nest.stride[1][0];
  }

  void move_rows(const Places& at, int64_t row, int64_t count, int64_t rank, int64_t from,
                 int64_t to) const {
    Pair begin{at[kDst] + row * move_step_[0], at[kSrc] + row * move_step_[1]};
    if (transfer_.mask_side == MaskSide::destination) begin[0] = rank * step_;
    if (transfer_.mask_side == MaskSide::source) begin[1] = rank * step_;
    const char* src = transfer_.src.data;
    if (src == nullptr) src = reinterpret_cast<const char*>(transfer_.scalar);
    const bool whole = from == 0 && to == layout_.row;
    copy_rows(layout_.move, src, begin, move_step_, move_joins_ && whole, count, from, to);
  }

  void keep_rows(const Places& at, int64_t row, int64_t count, int64_t from, int64_t to) const {
    const Pair begin{at[kDst] + row * keep_step_[0], at[kBase] + row * keep_step_[1]};
    const bool whole = from == 0 && to == layout_.row;
    copy_rows(layout_.keep, transfer_.base.data, begin, keep_step_, keep_joins_ && whole, count,
              from, to);
  }

  void copy_rows(const Nest<2>& nest, const char* src, Pair begin, const Pair& step, bool joined,
                 int64_t count, int64_t from, int64_t to) const {
    if (joined) return copy(nest, src, begin, count * layout_.row);
    for (int64_t i = 0; i < count; ++i) {
      for_each_run(nest, from, to, [&](const auto& at, int64_t inner, int64_t length) {
        const int last = nest.rank() - 1;
        const Pair place{begin[0] + at[0] + (last < 0 ? 0 : inner * nest.stride[0][last]),
                         begin[1] + at[1] + (last < 0 ? 0 : inner * nest.stride[1][last])};
        copy(nest, src, place, length);
      });
      begin[0] += step[0];
      begin[1] += step[1];
    }
  }

  void copy(const Nest<2>& nest, const char* src, const Pair& place, int64_t length) const {
    const int last = nest.rank() - 1;
    const int64_t dst_step = last < 0 ? 1 : nest.stride[0][last];
    const int64_t src_step = last < 0 ? 1 : nest.stride[1][last];
    char* to = transfer_.dst.data + place[0] * width_;
    const char* from = src + place[1] * width_;
    if (streaming_ && dst_step == 1 && src_step == 1) {
      copy_streaming(to, from, static_cast<size_t>(length * width_));
    } else {
      move_run(static_cast<size_t>(width_), to, dst_step, from, src_step, length);
    }
  }

  const Transfer& transfer_;
  const RowLayout& layout_;
  int64_t width_;
  int64_t step_;  // from one row to the next on the side addressed by rank
  Pair move_step_{}, keep_step_{};
  bool move_joins_ = false, keep_joins_ = false;
  bool streaming_ = false;
};

double cost(const Transfer& transfer, const Canonical&, int threads) {
  const int64_t row = mask_row(transfer);
  const auto rows = static_cast<double>(row == 0 ? 0 : mask_positions(transfer) / row);
  const auto bytes = static_cast<double>(bytes_of(transfer));
  const Cut cut = cut_for(static_cast<int64_t>(rows), bytes_of(transfer), threads);
  const int used = cut.chunks * cut.parts > 1 ? threads : 1;
  // A row costs a call, its bytes about 0.1 ns a thread.
  return 80 + (rows * 4 + bytes * 0.1) / used + (used > 1 ? 4000 : 0);
}

size_t workspace(const Transfer& transfer, const Canonical&, int threads) {
  const int64_t row = mask_row(transfer);
  const int64_t rows = row == 0 ? 0 : mask_positions(transfer) / row;
  const Cut cut = cut_for(rows, bytes_of(transfer), threads);
  return cut.chunks == 1 ? 0 : (static_cast<size_t>(cut.chunks) + 1) * sizeof(int64_t);
}

void run(const Transfer& transfer, const Canonical&, const Plan& plan, char* memory) {
  const RowLayout layout = row_layout(transfer);
  if (layout.row == 0 || layout.rows == 0) return;
  const Cut cut = cut_for(layout.rows, bytes_of(transfer), plan.threads);
  const Chunks chunks{layout.rows, cut.chunks};
  const Chunks parts{layout.row, cut.parts};
  int64_t one_chunk[2] = {};
  int64_t* ranks = cut.chunks == 1 ? one_chunk : reinterpret_cast<int64_t*>(memory);
  if (transfer.mask_side != MaskSide::skip) {
    const auto* mask = reinterpret_cast<const uint8_t*>(transfer.mask.data);
    // The bytes are few beside the rows: one thread counts them.
    const int threads = layout.rows < (256 << 10) ? 1 : plan.threads;
    const int64_t trues = scan_mask(mask, layout.mask, chunks, threads, ranks);
    expect_enough(transfer, trues * layout.row);
    clear_rest(transfer, trues * layout.row);
  } else {
    std::fill(ranks, ranks + cut.chunks + 1, 0);
  }
  const RowMover mover(transfer, layout);
  for_each_chunk(plan.threads, cut.chunks * cut.parts, [&](int unit) {
    const int chunk = unit / cut.parts;
    const int part = unit % cut.parts;
    mover.move(chunks.begin(chunk), chunks.end(chunk), ranks[chunk], parts.begin(part),
               parts.end(part));
  });
}

}  // namespace

const Strategy k_mask_rows = {
    "mask_rows", "scans the mask without expanding it and copies whole rows",
    supports,    cost,
    workspace,   run,
};

}  // namespace sow::detail
