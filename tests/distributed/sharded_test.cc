// SPDX-License-Identifier: Apache-2.0
// Sharded destinations against one call on the whole, bit for bit; and what goes wrong, on all
// ranks.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "distributed/threads_exchange.h"
#include "draw.h"
#include "random_values.h"
#include "sow/distributed.h"
#include "sow/ops.h"

namespace sow::test {
namespace {

using distributed::Exchange;
using distributed::ShardedIndex;
using Handle = std::shared_ptr<Exchange>;

constexpr Reduce kReductions[] = {Reduce::assign, Reduce::add,  Reduce::mul,
                                  Reduce::amax,   Reduce::amin, Reduce::mean};

bool allowed(Reduce reduce, DType dtype) {
  if (reduce == Reduce::amax || reduce == Reduce::amin) return !is_complex(dtype);
  return reduce != Reduce::mean || dtype != DType::bool_;
}

Tensor random_tensor(Draw& draw, const Dims& shape, DType dtype, ValueKind kind) {
  Tensor out = Tensor::zeros(shape, dtype);
  fill_random(draw, dtype, kind, out.numel(), out.data());
  return out;
}

::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return ::testing::AssertionFailure() << "shapes";
  const Tensor left = a.contiguous(), right = b.contiguous();
  if (left.nbytes() == 0 || std::memcmp(left.data(), right.data(), left.nbytes()) == 0)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << left.to_string() << "\nis not\n" << right.to_string();
}

// A destination, the updates of every rank, and where both are cut.
struct Problem {
  Tensor x, keys, source;
  std::vector<int64_t> rows, updates;  // cuts

  Problem(Draw& draw, int ranks, DType dtype) {
    const int64_t places = draw.pick({0, 1, 3, 17, 200});
    const int64_t count = places == 0 ? 0 : draw.pick({0, 1, 40, 1000});
    const Dims row = draw.chance(50) ? Dims{} : Dims{draw.between(1, 5)};
    const ValueKind kind = draw_kind(draw);
    rows = cut(draw, ranks, places);
    updates = cut(draw, ranks, count);
    const auto with_row = [&](int64_t n) {
      Dims shape{n};
      for (int64_t extent : row) shape.push_back(extent);
      return shape;
    };
    x = random_tensor(draw, with_row(places), dtype, kind);
    source = random_tensor(draw, with_row(count), dtype, kind);
    keys = Tensor::zeros({count}, DType::int64);
    const bool one_place = draw.chance(10);
    for (int64_t i = 0; i < count; ++i)
      keys.data<int64_t>()[i] = one_place ? -1 : draw.between(-places, places - 1);
  }
  static std::vector<int64_t> cut(Draw& draw, int ranks, int64_t count) {
    std::vector<int64_t> cuts{0};
    for (int r = 1; r < ranks; ++r) cuts.push_back(draw.between(0, count));
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(count);
    return cuts;
  }
  static Tensor part(const Tensor& whole, const std::vector<int64_t>& cuts, int rank) {
    return whole.slice(0, cuts[rank], cuts[rank + 1]);
  }
};

void expect_nothing_thrown(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& each : thrown) {
    if (each == nullptr) continue;
    try {
      std::rethrow_exception(each);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::string message(const std::exception_ptr& thrown) {
  try {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Sharded, HasTheBitsOfOneCall) {
  Draw draw(7);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (int type = 0; type < kDTypeCount; ++type) {
      for (const Reduce reduce : kReductions) {
        const auto dtype = static_cast<DType>(type);
        if (!allowed(reduce, dtype)) continue;
        const Problem p(draw, ranks, dtype);
        const bool include_self = draw.chance(50);
        const Tensor whole = p.x.clone().index_reduce_(0, p.keys, p.source, reduce, include_self);
        const Tensor once = p.x.clone(), held = p.x.clone();
        const Tensor picked = index_select(p.x, 0, p.keys);
        expect_nothing_thrown(on_ranks(ranks, [&](const Handle& exchange) {
          const int r = exchange->rank();
          const Tensor keys = Problem::part(p.keys, p.updates, r);
          const Tensor source = Problem::part(p.source, p.updates, r);
          distributed::index_reduce_(exchange, Problem::part(once, p.rows, r), keys, source, reduce,
                                     include_self);
          const ShardedIndex index(exchange, keys, p.rows[r + 1] - p.rows[r]);
          const Tensor part = Problem::part(held, p.rows, r);
          distributed::index_reduce_(part, index, source, reduce, include_self);
          part.copy_(Problem::part(p.x, p.rows, r));
          distributed::index_reduce_(part, index, source, reduce, include_self);
          EXPECT_TRUE(
              same_bits(distributed::index_select(exchange, Problem::part(p.x, p.rows, r), keys),
                        Problem::part(picked, p.updates, r)));
          // There and back again is the source.
          EXPECT_TRUE(same_bits(index.send_back(index.send(source)), source));
        }));
        EXPECT_TRUE(same_bits(once, whole)) << name_of(dtype) << " " << name_of(reduce);
        EXPECT_TRUE(same_bits(held, whole)) << name_of(dtype) << " " << name_of(reduce);
      }
    }
  }
}

TEST(Sharded, CoordinatesHaveTheBitsOfOneCall) {
  Draw draw(8);
  for (int round = 0; round < 60; ++round) {
    const int ranks = draw.pick({1, 2, 3, 8});
    const int64_t rows = draw.between(1, 12), count = draw.between(0, 60),
                  depth = draw.between(1, 3);
    const Dims extents{rows, 3, 4};
    const Tensor x = random_tensor(draw, extents, DType::float32, draw_kind(draw));
    const Tensor indices = Tensor::zeros({count, depth}, DType::int64);
    Dims shape{count};
    for (int64_t d = depth; d < 3; ++d) shape.push_back(extents[d]);
    const Tensor updates = random_tensor(draw, shape, DType::float32, draw_kind(draw));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t d = 0; d < depth; ++d)
        indices.data<int64_t>()[i * depth + d] = draw.between(-extents[d], extents[d] - 1);
    }
    const Tensor whole = tensor_scatter_nd_sub(x, indices, updates);
    const Tensor last = tensor_scatter_nd_update(x, indices, updates);
    const Tensor sub = x.clone(), update = x.clone();
    const auto cuts = Problem::cut(draw, ranks, rows), given = Problem::cut(draw, ranks, count);
    expect_nothing_thrown(on_ranks(ranks, [&](const Handle& exchange) {
      const int r = exchange->rank();
      const Tensor at = Problem::part(indices, given, r),
                   rows_of = Problem::part(updates, given, r);
      distributed::tensor_scatter_nd_(exchange, Problem::part(sub, cuts, r), at, rows_of,
                                      Reduce::add, true);
      distributed::tensor_scatter_nd_(exchange, Problem::part(update, cuts, r), at, rows_of,
                                      Reduce::assign);
    }));
    EXPECT_TRUE(same_bits(sub, whole));
    EXPECT_TRUE(same_bits(update, last));
  }
}

TEST(Sharded, BoundsAreThoseOfOneCall) {
  const Tensor x = Tensor::zeros({6, 2}, DType::float32);
  const Tensor keys = Tensor::of<int32_t>({9, 0, -9, 5});
  const Tensor source = Tensor::ones({4, 2}, DType::float32);
  for (const Bounds bounds : {Bounds::drop, Bounds::clip}) {
    const Tensor part = x.clone();
    expect_nothing_thrown(on_ranks(3, [&](const Handle& exchange) {
      const int r = exchange->rank();
      const Tensor mine = part.slice(0, 2 * r, 2 * r + 2);
      distributed::index_add_(exchange, mine, Index(r == 1 ? keys : keys.slice(0, 0, 0), bounds),
                              r == 1 ? source : source.slice(0, 0, 0));
      const Tensor got =
          distributed::index_select(exchange, x.slice(0, 2 * r, 2 * r + 2), Index(keys, bounds));
      EXPECT_TRUE(same_bits(got, index_select(x, 0, Index(keys, bounds))));
    }));
    EXPECT_TRUE(same_bits(part, index_add(x, 0, Index(keys, bounds), source)));
  }
}

// What is wrong on one rank is the same error on all, and nothing is written.
TEST(Sharded, ErrorsAreThoseOfAllRanks) {
  const auto run = [](const auto& change) {
    const Tensor x = Tensor::zeros({8}, DType::float32);
    const auto thrown = on_ranks(4, [&](const Handle& exchange) {
      const int r = exchange->rank();
      Tensor part = x.slice(0, 2 * r, 2 * r + 2);
      Tensor keys = Tensor::of<int64_t>({0, 7}), source = Tensor::ones({2}, DType::float32);
      std::string reduce = "add";
      change(r, part, keys, source, reduce);
      distributed::index_reduce_(exchange, part, keys, source, reduce);
    });
    EXPECT_TRUE(same_bits(x, Tensor::zeros({8}, DType::float32)));
    for (const auto& each : thrown) EXPECT_EQ(message(each), message(thrown[0]));
    return message(thrown[0]);
  };
  EXPECT_EQ(run([](int r, Tensor&, Tensor& keys, Tensor&, std::string&) {
              if (r == 2) keys = Tensor::of<int64_t>({0, 8});
            }),
            "index_reduce_: index 8 at position [1] is out of range for axis 0 of size 8 (valid: "
            "-8 to 7) (on rank 2)");
  EXPECT_EQ(run([](int r, Tensor& part, Tensor&, Tensor& source, std::string&) {
              if (r != 1) return;
              part = Tensor::zeros({2}, DType::float64);
              source = Tensor::ones({2}, DType::float64);
            }),
            "index_reduce_: the ranks do not call it alike: index_reduce_ of float32 [rows] on cpu "
            "by add, bounds "
            "error on ranks 0, 2, 3; index_reduce_ of float64 [rows] on cpu by add, bounds error "
            "on rank 1");
  EXPECT_NE(run([](int r, Tensor&, Tensor&, Tensor&, std::string& reduce) {
              if (r == 3) reduce = "mean";
            }).find("by mean, bounds error on rank 3"),
            std::string::npos);
  EXPECT_NE(run([](int r, Tensor&, Tensor&, Tensor& source, std::string&) {
              if (r == 0) source = Tensor::ones({3}, DType::float32);
            }).find("(on rank 0)"),
            std::string::npos);
}

// Many updates of few places travel as few rows, and an index that is held sends its keys once.
TEST(Sharded, SendsLittle) {
  constexpr int64_t kCount = 20000, kRows = 64;
  Draw draw(9);
  const Tensor x = Tensor::zeros({kRows}, DType::float32);
  const Tensor keys = Tensor::zeros({kCount}, DType::int64);
  for (int64_t i = 0; i < kCount; ++i) keys.data<int64_t>()[i] = draw.between(0, kRows - 1);
  const Tensor source = random_tensor(draw, {kCount}, DType::float32, ValueKind::wide);
  expect_nothing_thrown(on_ranks(2, [&](const Handle& exchange) {
    const int r = exchange->rank();
    const Tensor part = x.slice(0, r * kRows / 2, (r + 1) * kRows / 2);
    const auto spent = [&](const auto& call) {
      const int64_t before = exchange->bytes_sent();
      call();
      return exchange->bytes_sent() - before;
    };
    const int64_t once = spent([&] { distributed::index_add_(exchange, part, keys, source); });
    EXPECT_LT(once, kCount / 2 * 12 / 20);  // of what the raw keys and values would be
    const ShardedIndex index(exchange, keys, kRows / 2);
    const int64_t first = spent([&] { distributed::index_copy_(part, index, source); });
    EXPECT_EQ(first, kRows / 2 * 4 + 24);  // the winners, and the agreement
  }));
}

TEST(MergeUpdates, StandForAll) {
  Draw draw(10);
  for (int round = 0; round < 200; ++round) {
    for (const DType dtype :
         {DType::float32, DType::complex128, DType::bfloat16, DType::int8, DType::float64}) {
      const int64_t count = draw.between(0, 300), places = draw.between(1, 40);
      const Tensor x = random_tensor(draw, {places, 2}, dtype, draw_kind(draw));
      const Tensor source = random_tensor(draw, {count, 2}, dtype, draw_kind(draw));
      const Tensor keys = Tensor::zeros({count}, DType::int32);
      for (int64_t i = 0; i < count; ++i)
        keys.data<int32_t>()[i] = static_cast<int32_t>(draw.between(0, places - 1));
      for (const Reduce reduce : kReductions) {
        if (!allowed(reduce, dtype)) continue;
        const auto merged = distributed::merge_updates(keys, source, reduce);
        EXPECT_LE(merged.keys.numel(), count);
        const Tensor out = x.clone();
        if (merged.counts.defined())
          distributed::index_mean_(out, merged);
        else
          out.index_reduce_(0, merged.keys, merged.rows, reduce);
        EXPECT_TRUE(same_bits(out, index_reduce(x, 0, keys, source, reduce)))
            << name_of(dtype) << name_of(reduce);
      }
    }
  }
}

}  // namespace
}  // namespace sow::test
