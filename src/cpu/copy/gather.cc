// SPDX-License-Identifier: Apache-2.0
// Strategy gather: the source is indexed, the destination affine. Whole rows, or elements by width.
#include <algorithm>
#include <cstring>

#include "cpu/common/byte_width.h"
#include "cpu/common/work_queue.h"
#include "cpu/copy/move_run.h"
#include "cpu/strategies.h"

namespace sow::detail {
namespace {

constexpr int64_t kGrainBytes = 64 << 10;  // random reads: fewer bytes keep a thread busy
constexpr int kChunksPerThread = 8;
constexpr int64_t kPrefetchAhead = 8;  // rows, of which the first bytes are asked for early
constexpr int64_t kPrefetchBytes = 512;
constexpr int64_t kShort = 16;  // an axis shorter than this is no inner loop if there is a longer

bool supports(const Transfer& transfer, const Canonical& canonical) {
  return transfer.mask_side == MaskSide::none && transfer.reduce == Reduce::assign &&
         transfer.dst_index.empty() && !transfer.src_index.empty() &&
         transfer.src.data != nullptr && !transfer.negate && canonical.items.empty();
}

// How the positions are walked: along one axis in tiles, over all others around it.
struct Order {
  int axis = -1;  // of canonical.outer; -1: there is a single position
  int64_t length = 1;
  int64_t others = 1;
  int64_t tile = kTileItems;
  int64_t tiles = 1;
  int64_t parts = 1;  // of a row, where positions are few

  int64_t units() const { return tiles * others * parts; }
};

Order choose_order(const Canonical& canonical, int64_t row_bytes, int threads) {
  Order order;
  const auto& outer = canonical.outer;
  if (!outer.empty()) {
    order.axis = static_cast<int>(outer.size()) - 1;
    if (outer.back().size < kShort) {
      for (size_t d = 0; d < outer.size(); ++d) {
        if (outer[d].size > outer[order.axis].size) order.axis = static_cast<int>(d);
      }
    }
    order.length = outer[order.axis].size;
    order.others = canonical.outer_count / order.length;
  }
  const int wanted =
      choose_chunks(canonical.outer_count * row_bytes, kGrainBytes, threads, kChunksPerThread);
  if (order.others < wanted) {
    const int64_t share = order.length * order.others / wanted;
    order.tile = std::clamp<int64_t>(share, 1, kTileItems);
  }
  order.tiles = (order.length + order.tile - 1) / order.tile;
  if (order.tiles * order.others < wanted) {
    order.parts = std::min(wanted / (order.tiles * order.others), canonical.row.size);
  }
  return order;
}

// offsets[i] += scale * key, or kDropped, along one axis.
template <class Key>
void add_keys(const IndexOperand& index, Bounds bounds, int64_t place, int64_t stride,
              int64_t count, int64_t* offsets) {
  const Key* keys = reinterpret_cast<const Key*>(index.data) + place;
  const int64_t extent = index.extent;
  const int64_t scale = index.scale;
  if (bounds == Bounds::drop || bounds == Bounds::clip) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t key = resolve_key(keys[i * stride], extent, bounds);
      const bool dropped = key == kDropped || offsets[i] == kDropped;
      offsets[i] = dropped ? kDropped : offsets[i] + scale * key;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t key = keys[i * stride];
    offsets[i] += scale * (key < 0 ? key + extent : key);
  }
}

class Gatherer {
 public:
  Gatherer(const Transfer& transfer, const Canonical& canonical, const Order& order)
      : transfer_(transfer),
        canonical_(canonical),
        order_(order),
        width_(static_cast<int64_t>(size_of(transfer.dtype))) {
    const int64_t bytes = canonical.row.size * width_;
    streaming_ = canonical.row.dst == 1 && canonical.row.src == 1 && bytes >= 64 &&
                 bytes * canonical.outer_count >= kStreamingBytes && can_stream();
    is_plain_ = canonical.row.size == 1 && transfer.src_index.size() == 1 &&
                transfer.bounds != Bounds::drop && transfer.bounds != Bounds::clip;
  }

  void run_unit(int64_t unit) const {
    const int64_t part = unit % order_.parts;
    unit /= order_.parts;
    // Along the last axis, one line of the destination after another; else tile by tile, so that
    // the lines that short inner axes share stay in the cache.
    const bool last = order_.axis + 1 == static_cast<int>(canonical_.outer.size());
    const int64_t other = last ? unit / order_.tiles : unit % order_.others;
    const int64_t first = (last ? unit % order_.tiles : unit / order_.others) * order_.tile;
    const int64_t count = std::min(order_.tile, order_.length - first);
    static const Axis kSingle;
    const Axis& axis = order_.axis < 0 ? kSingle : canonical_.outer[order_.axis];
    const OuterBase at = begin_of(axis, other, first);
    if (is_plain_ && !axis.index.empty()) return move_plain(axis, at, count);
    int64_t offsets[kTileItems];
    decode(axis, at, count, offsets);
    const int64_t dst = at.dst, stride = axis.dst;
    if (canonical_.row.size == 1) {
      with_width(static_cast<size_t>(width_), [&](auto width) {
        move_elements<decltype(width)::value>(dst, stride, offsets, count);
      });
    } else {
      const Chunks parts{canonical_.row.size, static_cast<int>(order_.parts)};
      move_rows(dst, stride, offsets, count, parts, static_cast<int>(part));
      if (streaming_) finish_streams();
    }
  }

 private:
  // Where `count` positions along the axis begin.
  OuterBase begin_of(const Axis& axis, int64_t other, int64_t first) const {
    OuterBase at;
    at.dst = first * axis.dst;
    at.src = first * axis.src;
    const size_t components = transfer_.src_index.size();
    at.index.resize(components);
    for (size_t k = 0; k < axis.index.size(); ++k) at.index[k] = first * axis.index[k];
    for (int d = static_cast<int>(canonical_.outer.size()) - 1; d >= 0; --d) {
      if (d == order_.axis) continue;
      const Axis& around = canonical_.outer[d];
      const int64_t position = other % around.size;
      other /= around.size;
      at.dst += position * around.dst;
      at.src += position * around.src;
      for (size_t k = 0; k < components; ++k) at.index[k] += position * around.index[k];
    }
    return at;
  }

  // Source offsets of the positions.
  void decode(const Axis& axis, const OuterBase& at, int64_t count, int64_t* offsets) const {
    for (int64_t i = 0; i < count; ++i) offsets[i] = at.src + i * axis.src;
    for (size_t k = 0; k < transfer_.src_index.size(); ++k) {
      const IndexOperand& index = transfer_.src_index[k];
      const int64_t stride = axis.index.empty() ? 0 : axis.index[k];
      const auto add = index.dtype == DType::int32 ? add_keys<int32_t> : add_keys<int64_t>;
      add(index, transfer_.bounds, at.index[k], stride, count, offsets);
    }
  }

  // Elements by one checked index: straight from the keys.
  void move_plain(const Axis& axis, const OuterBase& at, int64_t count) const {
    const bool int32_keys = transfer_.src_index[0].dtype == DType::int32;
    with_width(static_cast<size_t>(width_), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      int32_keys ? move_keyed<kWidth, int32_t>(axis, at, count)
                 : move_keyed<kWidth, int64_t>(axis, at, count);
    });
  }

  template <int Width, class Key>
  void move_keyed(const Axis& axis, const OuterBase& at, int64_t count) const {
    const IndexOperand& index = transfer_.src_index[0];
    const Key* keys = reinterpret_cast<const Key*>(index.data) + at.index[0];
    auto* to = reinterpret_cast<Word<Width>*>(transfer_.dst.data) + at.dst;
    const auto* src = reinterpret_cast<const Word<Width>*>(transfer_.src.data) + at.src;
    const int64_t extent = index.extent, scale = index.scale;
    const auto wrapped = [&](int64_t key) { return key + (key >> 63 & extent); };
    if (axis.dst == 1 && axis.index[0] == 1 && axis.src == 0 && scale == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = src[wrapped(keys[i])];
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      to[i * axis.dst] = src[i * axis.src + scale * wrapped(keys[i * axis.index[0]])];
    }
  }

  template <int Width>
  void move_elements(int64_t dst, int64_t stride, const int64_t* offsets, int64_t count) const {
    auto* to = reinterpret_cast<Word<Width>*>(transfer_.dst.data) + dst;
    const auto* src = reinterpret_cast<const Word<Width>*>(transfer_.src.data);
    if (transfer_.bounds != Bounds::drop) {
      for (int64_t i = 0; i < count; ++i) to[i * stride] = src[offsets[i]];
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      to[i * stride] = offsets[i] == kDropped ? Word<Width>{} : src[offsets[i]];
    }
  }

  void move_rows(int64_t dst, int64_t stride, const int64_t* offsets, int64_t count,
                 const Chunks& parts, int part) const {
    static constexpr char kZero[16] = {};
    const Axis& row = canonical_.row;
    const int64_t first = parts.begin(part);
    const int64_t length = parts.end(part) - first;
    for (int64_t i = 0; i < count; ++i) {
      char* to = transfer_.dst.data + (dst + i * stride + first * row.dst) * width_;
      const bool dropped = offsets[i] == kDropped;
      const char* from = kZero;
      if (!dropped) from = transfer_.src.data + (offsets[i] + first * row.src) * width_;
      if (streaming_ && i + kPrefetchAhead < count && offsets[i + kPrefetchAhead] != kDropped) {
        const char* later = transfer_.src.data + (offsets[i + kPrefetchAhead] + first) * width_;
        for (int64_t byte = 0; byte < length * width_ && byte < kPrefetchBytes; byte += 64) {
          __builtin_prefetch(later + byte);
        }
      }
      if (streaming_ && !dropped) {
        stream_run(to, from, static_cast<size_t>(length * width_));
        continue;
      }
      move_run(static_cast<size_t>(width_), to, row.dst, from, dropped ? 0 : row.src, length);
    }
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const Order& order_;
  int64_t width_;
  bool streaming_ = false;
  bool is_plain_ = false;
};

int64_t row_bytes(const Transfer& transfer, const Canonical& canonical) {
  return canonical.row.size * static_cast<int64_t>(size_of(transfer.dtype));
}

double cost(const Transfer& transfer, const Canonical& canonical, int threads) {
  if (canonical.empty) return 0;
  const auto rows = static_cast<double>(canonical.outer_count);
  const auto bytes = static_cast<double>(row_bytes(transfer, canonical));
  const int used = rows * bytes >= 2 * kGrainBytes ? threads : 1;
  return 60 + rows * (2 + 0.1 * bytes) / used + (used > 1 ? 4000 : 0);
}

size_t workspace(const Transfer&, const Canonical&, int) { return 0; }

void run(const Transfer& transfer, const Canonical& canonical, const Plan& plan, char*) {
  if (canonical.empty) return;
  const Order order = choose_order(canonical, row_bytes(transfer, canonical), plan.threads);
  const Gatherer gatherer(transfer, canonical, order);
  const int wanted = choose_chunks(canonical.outer_count * row_bytes(transfer, canonical),
                                   kGrainBytes, plan.threads, kChunksPerThread);
  const Chunks chunks{order.units(), static_cast<int>(std::min<int64_t>(wanted, order.units()))};
  for_each_chunk(plan.threads, chunks.chunks, [&](int chunk) {
    for (int64_t unit = chunks.begin(chunk); unit < chunks.end(chunk); ++unit) {
      gatherer.run_unit(unit);
    }
  });
}

}  // namespace

const Strategy k_gather = {
    "gather",  "reads rows or elements through the index into a strided destination",
    supports,  cost,
    workspace, run,
};

}  // namespace sow::detail
