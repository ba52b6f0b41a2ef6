// SPDX-License-Identifier: Apache-2.0
// What the tests of masks share: random problems, and the plain loop they are compared with.
#pragma once

#include "cpu/mask/mask_scan.h"
#include "cpu/move_cases.h"
#include "sow/error.h"
#include "sow/runtime.h"

namespace sow::detail {

struct MaskCase {
  DType dtype = DType::float32;
  Dims shape;
  MaskSide side = MaskSide::source;
  Layout layout = Layout::dense;
  bool with_base = false;
  bool scalar = false;
  int row_dims = 0;  // trailing dimensions along which the mask is broadcast
  int percent = 50;  // of trues
  int64_t rank_stride = 1;
  int64_t spare = 0;  // elements of the rank side beyond the trues
};

// Its operands stay here while the Transfer points to them.
struct MaskProblem {
  Transfer transfer;
  View dst, src, base, mask;
  int64_t trues = 0;
};

inline View make_mask(Random& random, const MaskCase& c) {
  View mask =
      make_view(random, c.shape, 1, c.layout == Layout::dense ? Layout::dense : Layout::broadcast);
  if (c.row_dims > 0) {
    Dims head = c.shape;
    for (int i = 0; i < c.row_dims; ++i) head[head.size() - 1 - i] = 1;
    mask = make_view(random, head, 1, c.layout == Layout::dense ? Layout::dense : Layout::strided);
    for (int i = 0; i < c.row_dims; ++i) mask.strides[head.size() - 1 - i] = 0;
  }
  for (char& byte : mask.bytes) {
    // Any nonzero byte is true, whatever its lowest bit.
    byte = pick(random, 0, 99) < c.percent ? static_cast<char>(pick(random, 1, 255)) : 0;
  }
  return mask;
}

inline void make_problem(Random& random, const MaskCase& c, MaskProblem& p) {
  const size_t width = size_of(c.dtype);
  Transfer& t = p.transfer;
  t.op = "masked_scatter";
  t.dtype = c.dtype;
  t.shape = c.shape;
  t.mask_side = c.side;
  t.rank_stride = c.rank_stride;
  p.mask = make_mask(random, c);
  t.mask = p.mask.operand(1);
  for_each_coordinate(
      c.shape, [&](const Dims& at) { p.trues += t.mask.data[place(at, t.mask.strides)] != 0; });
  t.rank_limit = p.trues + c.spare;
  const Dims ranked{std::max<int64_t>(0, (t.rank_limit - 1) * std::abs(c.rank_stride) + 1)};
  p.dst = make_view(random, c.side == MaskSide::destination ? ranked : c.shape, width,
                    c.side == MaskSide::destination ? Layout::dense : c.layout);
  const Layout read = c.layout == Layout::dense ? Layout::dense : Layout::broadcast;
  p.src = make_view(random, c.side == MaskSide::source ? ranked : c.shape, width,
                    c.side == MaskSide::source ? Layout::dense : read);
  t.dst = p.dst.operand(width);
  t.src = p.src.operand(width);
  if (c.side == MaskSide::destination) t.dst.strides = Dims(c.shape.size(), 0);
  if (c.side == MaskSide::source) t.src.strides = Dims(c.shape.size(), 0);
  if (c.rank_stride < 0 && c.side != MaskSide::skip) {
    Operand& side = c.side == MaskSide::source ? t.src : t.dst;
    side.data += (t.rank_limit - 1) * -c.rank_stride * static_cast<int64_t>(width);
  }
  if (c.scalar) {
    t.src = Operand{};
    for (std::byte& byte : t.scalar) byte = static_cast<std::byte>(random());
  }
  if (c.with_base) {
    p.base = make_view(random, c.shape, width, read);
    t.base = p.base.operand(width);
  }
}

// The whole definition, in one loop.
inline void plain_loop(const Transfer& t) {
  const auto width = static_cast<int64_t>(size_of(t.dtype));
  int64_t rank = 0;
  for_each_coordinate(t.shape, [&](const Dims& at) {
    int64_t dst = place(at, t.dst.strides);
    if (t.mask.data[place(at, t.mask.strides)] == 0) {
      if (t.base.data != nullptr) {
        std::memcpy(t.dst.data + dst * width, t.base.data + place(at, t.base.strides) * width,
                    width);
      }
      return;
    }
    const char* from = reinterpret_cast<const char*>(t.scalar);
    const int64_t ranked = rank++ * t.rank_stride;
    if (t.mask_side == MaskSide::destination) dst = ranked;
    if (t.mask_side == MaskSide::source) {
      from = t.src.data + ranked * width;
    } else if (t.src.data != nullptr) {
      from = t.src.data + place(at, t.src.strides) * width;
    }
    std::memcpy(t.dst.data + dst * width, from, width);
  });
}

inline void check(Random& random, const MaskCase& c, const Strategy& strategy,
                  const std::vector<int>& threads = {1, 2, 3, 7}) {
  MaskProblem p;
  make_problem(random, c, p);
  const std::vector<char> before = p.dst.bytes;
  plain_loop(p.transfer);
  const std::vector<char> expected = p.dst.bytes;
  for (const Isa isa : isa_levels()) {
    const ScopedIsa forced(isa);
    for (const int count : threads) {
      std::copy(before.begin(), before.end(), p.dst.bytes.begin());
      run_strategy(strategy, p.transfer, count);
      ASSERT_EQ(p.dst.bytes, expected)
          << strategy.name << " " << isa_name(isa) << " " << count << " threads, "
          << name_of(c.dtype) << to_string(c.shape) << " side " << static_cast<int>(c.side)
          << " layout " << static_cast<int>(c.layout) << " base " << c.with_base;
    }
  }
}

inline const MaskSide kSides[] = {MaskSide::source, MaskSide::destination, MaskSide::skip};

}  // namespace sow::detail
