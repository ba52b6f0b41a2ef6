// mask_elements and mask_rows against a plain loop: widths, instruction sets, strides, threads.
#include "cpu/move_cases.h"
#include "cpu/mask_scan.h"
#include "sow/error.h"
#include "sow/runtime.h"

namespace sow::detail {
namespace {

struct MaskCase {
  DType dtype = DType::float32;
  Dims shape;
  MaskSide side = MaskSide::source;
  Layout layout = Layout::dense;
  bool with_base = false;
  bool scalar = false;
  int row_dims = 0;        // trailing dimensions along which the mask is broadcast
  int percent = 50;        // of trues
  int64_t rank_stride = 1;
  int64_t spare = 0;       // elements of the rank side beyond the trues
};

// Its operands stay here while the Transfer points to them.
struct MaskProblem {
  Transfer transfer;
  View dst, src, base, mask;
  int64_t trues = 0;
};

View make_mask(Random& random, const MaskCase& c) {
  View mask = make_view(random, c.shape, 1, c.layout == Layout::dense ? Layout::dense : Layout::broadcast);
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

void make_problem(Random& random, const MaskCase& c, MaskProblem& p) {
  const size_t width = size_of(c.dtype);
  Transfer& t = p.transfer;
  t.op = "masked_scatter";
  t.dtype = c.dtype;
  t.shape = c.shape;
  t.mask_side = c.side;
  t.rank_stride = c.rank_stride;
  p.mask = make_mask(random, c);
  t.mask = p.mask.operand(1);
  for_each_coordinate(c.shape, [&](const Dims& at) {
    p.trues += t.mask.data[place(at, t.mask.strides)] != 0;
  });
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
void plain_loop(const Transfer& t) {
  const auto width = static_cast<int64_t>(size_of(t.dtype));
  int64_t rank = 0;
  for_each_coordinate(t.shape, [&](const Dims& at) {
    int64_t dst = place(at, t.dst.strides);
    if (t.mask.data[place(at, t.mask.strides)] == 0) {
      if (t.base.data != nullptr) {
        std::memcpy(t.dst.data + dst * width, t.base.data + place(at, t.base.strides) * width, width);
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

void check(Random& random, const MaskCase& c, const Strategy& strategy,
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

const MaskSide kSides[] = {MaskSide::source, MaskSide::destination, MaskSide::skip};

TEST(MaskElements, DenseRunsOfEveryLengthAndWidth) {
  Random random(1);
  for (const DType dtype : kWidths) {
    for (const MaskSide side : kSides) {
      for (const int64_t count : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128,
                                  129, 191, 257, 1000}) {
        for (const int percent : {0, 10, 50, 90, 100}) {
          MaskCase c;
          c.dtype = dtype;
          c.shape = {count};
          c.side = side;
          c.percent = percent;
          c.spare = count % 3;
          check(random, c, k_mask_elements, {1});
          c.scalar = side == MaskSide::skip;
          c.with_base = side != MaskSide::destination;
          check(random, c, k_mask_elements, {1});
        }
      }
    }
  }
}

TEST(MaskElements, PiecesAndTheirEdges) {
  Random random(2);
  for (const DType dtype : kWidths) {
    for (const MaskSide side : kSides) {
      for (const int64_t count : {65536, 98305}) {
        MaskCase c;
        c.dtype = dtype;
        c.shape = {count};
        c.side = side;
        check(random, c, k_mask_elements, {2});
        if (side == MaskSide::destination) continue;
        c.with_base = true;
        check(random, c, k_mask_elements, {3});
      }
    }
  }
}

// Past the size from which results are written around the caches, at odd addresses too.
TEST(MaskElements, LargeResults) {
  Random random(3);
  for (const DType dtype : {DType::int8, DType::float32, DType::complex64, DType::complex128}) {
    MaskCase c;
    c.dtype = dtype;
    c.shape = {static_cast<int64_t>((9 << 20) / size_of(dtype)) + 3};
    c.with_base = true;
    check(random, c, k_mask_elements, {1, 3});
  }
  MaskCase c;
  c.shape = {3, 1024 * 1024};
  c.with_base = true;
  MaskProblem p;
  make_problem(random, c, p);
  p.dst.bytes.resize(p.dst.bytes.size() + 64);
  for (const int64_t shift : {1, 2, 3, 4, 20}) {
    p.transfer.dst.data = p.dst.bytes.data() + shift;
    std::fill(p.dst.bytes.begin(), p.dst.bytes.end(), 'x');
    plain_loop(p.transfer);
    const std::vector<char> expected = p.dst.bytes;
    std::fill(p.dst.bytes.begin(), p.dst.bytes.end(), 'x');
    run_strategy(k_mask_elements, p.transfer, 2);
    ASSERT_EQ(p.dst.bytes, expected) << shift;
  }
}

TEST(MaskElements, AnyStridesAndRanks) {
  Random random(4);
  for (int round = 0; round < 1500; ++round) {
    MaskCase c;
    c.dtype = kWidths[pick(random, 0, 4)];
    const int64_t rank = pick(random, 0, 7);
    for (int64_t d = 0; d < rank; ++d) c.shape.push_back(pick(random, round % 40 == 0 ? 0 : 1, rank > 3 ? 4 : 9));
    c.side = kSides[pick(random, 0, 2)];
    c.layout = pick(random, 0, 3) == 0 ? Layout::dense : Layout::strided;
    c.with_base = c.side != MaskSide::destination && pick(random, 0, 1) == 0;
    c.scalar = c.side == MaskSide::skip && pick(random, 0, 1) == 0;
    c.percent = static_cast<int>(pick(random, 0, 10)) * 10;
    c.rank_stride = pick(random, 0, 2) == 0 ? pick(random, 1, 3) : 1;
    if (c.rank_stride == 3) c.rank_stride = -2;
    c.spare = c.rank_stride < 0 ? 1 : pick(random, 0, 2);
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_elements, {1, 3}));
  }
}

TEST(MaskElements, StridedPieces) {
  Random random(5);
  for (const MaskSide side : kSides) {
    MaskCase c;
    c.shape = {310, 7, 100};
    c.side = side;
    c.layout = Layout::strided;
    for (int round = 0; round < 4; ++round) {
      c.with_base = side != MaskSide::destination && round % 2 == 1;
      check(random, c, k_mask_elements, {2, 7});
    }
  }
}

TEST(MaskRows, RowsOfEveryKind) {
  Random random(6);
  for (int round = 0; round < 1200; ++round) {
    MaskCase c;
    c.dtype = kWidths[pick(random, 0, 4)];
    const int64_t rank = pick(random, 1, 5);
    for (int64_t d = 0; d < rank; ++d) c.shape.push_back(pick(random, 1, 7));
    c.shape[c.shape.size() - 1] = pick(random, 2, 40);
    c.side = kSides[pick(random, 0, 2)];
    c.layout = pick(random, 0, 1) == 0 ? Layout::dense : Layout::strided;
    c.with_base = c.side != MaskSide::destination && pick(random, 0, 1) == 0;
    c.scalar = c.side == MaskSide::skip && pick(random, 0, 1) == 0;
    c.row_dims = static_cast<int>(pick(random, 1, rank));
    c.percent = static_cast<int>(pick(random, 0, 4)) * 25;
    c.rank_stride = pick(random, 0, 3) == 0 ? 2 : 1;
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_rows, {1, 3}));
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_elements, {2}));
  }
}

TEST(MaskRows, PiecesPartsAndLargeRows) {
  Random random(7);
  const Dims shapes[] = {{1500, 300}, {2, 300000}, {1, 3, 100, 1000}, {9000, 260}, {3, 1000000}};
  for (const Dims& shape : shapes) {
    for (const MaskSide side : kSides) {
      for (const bool with_base : {false, true}) {
        if (with_base && side == MaskSide::destination) continue;
        MaskCase c;
        c.shape = shape;
        c.side = side;
        c.with_base = with_base;
        c.row_dims = shape.rank() == 4 ? 2 : 1;
        check(random, c, k_mask_rows, {2, 7});
      }
    }
  }
}

TEST(Mask, TooFewValuesLeaveTheDestination) {
  Random random(8);
  for (const int64_t count : {12, 200000}) {
    for (const int row_dims : {0, 1}) {
      MaskCase c;
      c.shape = {count, 2};
      c.row_dims = row_dims;
      MaskProblem p;
      make_problem(random, c, p);
      p.transfer.rank_limit = p.trues - 1;
      const std::vector<char> before = p.dst.bytes;
      const Strategy& strategy = row_dims == 0 ? k_mask_elements : k_mask_rows;
      try {
        run_strategy(strategy, p.transfer, 3);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::shape);
        EXPECT_EQ(error.what(), "masked_scatter: mask has " + std::to_string(p.trues) +
                                    " true values but value has only " +
                                    std::to_string(p.trues - 1) + " elements");
      }
      EXPECT_EQ(p.dst.bytes, before);
    }
  }
}

TEST(Mask, RefusesWhatItCannotDo) {
  Random random(9);
  MaskCase c;
  c.shape = {4, 3};
  MaskProblem p;
  make_problem(random, c, p);
  const Canonical none{};
  ASSERT_TRUE(k_mask_elements.supports(p.transfer, none));
  EXPECT_FALSE(k_mask_rows.supports(p.transfer, none)) << "a mask of elements";
  Transfer overlapping = p.transfer;
  overlapping.dst.strides = {0, 1};
  EXPECT_FALSE(k_mask_elements.supports(overlapping, none));
  Transfer sum = p.transfer;
  sum.reduce = Reduce::add;
  EXPECT_FALSE(k_mask_elements.supports(sum, none));
}

TEST(MaskScan, CountsAndFinds) {
  Random random(10);
  for (const int threads : {1, 2, 3, 7}) {
    const int before = get_num_threads();
    set_num_threads(threads);
    for (const int64_t count : {0, 1, 7, 8, 63, 64, 65, 5000, 262144, 600001}) {
      for (const int percent : {0, 3, 50, 100}) {
        std::vector<uint8_t> mask(count);
        std::vector<int64_t> expected;
        for (int64_t i = 0; i < count; ++i) {
          if (pick(random, 0, 99) >= percent) continue;
          mask[i] = static_cast<uint8_t>(pick(random, 1, 255));
          expected.push_back(i);
        }
        for (const Isa isa : isa_levels()) {
          const ScopedIsa forced(isa);
          ASSERT_EQ(count_true(mask.data(), count), static_cast<int64_t>(expected.size()));
        }
        std::vector<int64_t> found(expected.size());
        nonzero_positions(mask.data(), count, found.data());
        ASSERT_EQ(found, expected);
      }
    }
    set_num_threads(before);
  }
}

}  // namespace
}  // namespace sow::detail
