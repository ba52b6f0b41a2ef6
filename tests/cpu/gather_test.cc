// SPDX-License-Identifier: Apache-2.0
// gather against a plain loop: widths, strides, bounds, threads.
#include "cpu/move_cases.h"

namespace sow::detail {
namespace {

// A gather of rows or elements: `components` index tensors vary along the leading `keyed`
// dimensions; each scales its own part of the source.
struct GatherProblem {
  Transfer transfer;
  View dst, src;
  std::vector<View> keys;
};

void make_gather(Random& random, DType dtype, const Dims& shape, int keyed, Bounds bounds,
                 GatherProblem& p) {
  const size_t width = size_of(dtype);
  Transfer& t = p.transfer;
  t.dtype = dtype;
  t.shape = shape;
  t.bounds = bounds;
  p.dst =
      make_view(random, shape, width, pick(random, 0, 1) == 0 ? Layout::dense : Layout::strided);
  t.dst = p.dst.operand(width);
  p.src =
      make_view(random, shape, width, pick(random, 0, 1) == 0 ? Layout::dense : Layout::broadcast);
  t.src = p.src.operand(width);
  // Room for what the keys add.
  int64_t scale = static_cast<int64_t>(p.src.bytes.size() / width);
  const int64_t components = pick(random, 1, 3);
  const int64_t offset = p.src.offset;
  for (int64_t k = 0; k < components; ++k) {
    IndexOperand index;
    index.dtype = pick(random, 0, 1) == 0 ? DType::int32 : DType::int64;
    index.extent = pick(random, 1, 5);
    index.scale = scale;
    scale *= index.extent;
    Dims head = shape;
    for (int d = keyed; d < shape.rank(); ++d) head[d] = 1;
    View keys = make_view(random, head, size_of(index.dtype), Layout::strided);
    for (int d = keyed; d < shape.rank(); ++d) keys.strides[d] = 0;
    const bool outside = bounds == Bounds::drop || bounds == Bounds::clip;
    for (size_t i = 0; i * size_of(index.dtype) < keys.bytes.size(); ++i) {
      const int64_t reach = outside ? index.extent + 2 : index.extent;
      const int64_t key = pick(random, -reach, reach - 1);
      const auto narrow = static_cast<int32_t>(key);
      if (index.dtype == DType::int32)
        std::memcpy(keys.bytes.data() + 4 * i, &narrow, 4);
      else
        std::memcpy(keys.bytes.data() + 8 * i, &key, 8);
    }
    p.keys.push_back(std::move(keys));
    index.data = p.keys.back().operand(size_of(index.dtype)).data;
    index.strides = p.keys.back().strides;
    t.src_index.push_back(index);
  }
  p.src.bytes.resize(static_cast<size_t>(scale) * width);
  for (char& byte : p.src.bytes) byte = static_cast<char>(random());
  t.src.data = p.src.bytes.data() + offset * static_cast<int64_t>(width);
}

void plain_gather(const Transfer& t) {
  const auto width = static_cast<int64_t>(size_of(t.dtype));
  for_each_coordinate(t.shape, [&](const Dims& at) {
    char* to = t.dst.data + place(at, t.dst.strides) * width;
    int64_t from = place(at, t.src.strides);
    bool dropped = false;
    for (const IndexOperand& index : t.src_index) {
      const int64_t key =
          resolve_key(load_key(index, place(at, index.strides)), index.extent, t.bounds);
      dropped = dropped || key == kDropped;
      if (!dropped) from += key * index.scale;
    }
    if (dropped)
      std::memset(to, 0, width);
    else
      std::memcpy(to, t.src.data + from * width, width);
  });
}

void check_gather(Random& random, DType dtype, const Dims& shape, int keyed, Bounds bounds,
                  const std::vector<int>& threads) {
  GatherProblem p;
  make_gather(random, dtype, shape, keyed, bounds, p);
  const std::vector<char> before = p.dst.bytes;
  plain_gather(p.transfer);
  const std::vector<char> expected = p.dst.bytes;
  expect_same(p.dst, p.transfer, k_gather, before, expected, threads);
}

const Bounds kBounds[] = {Bounds::error, Bounds::drop, Bounds::clip, Bounds::promise};

TEST(Gather, AnyShapeIndexAndBounds) {
  Random random(5);
  for (int round = 0; round < 2500; ++round) {
    Dims shape;
    const int64_t rank = pick(random, 0, 5);
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(pick(random, round % 50 == 0 ? 0 : 1, rank > 2 ? 6 : 40));
    }
    const int keyed = static_cast<int>(pick(random, 0, rank));
    ASSERT_NO_FATAL_FAILURE(check_gather(random, kWidths[pick(random, 0, 4)], shape, keyed,
                                         kBounds[pick(random, 0, 3)], {1, 3}));
  }
}

TEST(Gather, PiecesTilesAndParts) {
  Random random(6);
  for (const Bounds bounds : kBounds) {
    check_gather(random, DType::float32, {70000}, 1, bounds, {2, 7});
    check_gather(random, DType::float32, {20000, 3}, 2, bounds, {2, 7});
    check_gather(random, DType::float16, {700, 300}, 1, bounds, {2, 7});
    check_gather(random, DType::float64, {2, 50000}, 1, bounds, {2, 7});
    check_gather(random, DType::float64, {50000}, 0, bounds, {2, 7});
  }
  // Rows that are written around the caches.
  check_gather(random, DType::float32, {9000, 300}, 1, Bounds::drop, {1, 3});
}

}  // namespace
}  // namespace sow::detail
