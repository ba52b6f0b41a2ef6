// SPDX-License-Identifier: Apache-2.0
// ordered, and short_rows where it does the same, against the reference: every width of a tile,
// rows that begin anywhere in a cache line, few and very many updates, on every instruction set.
#include "cpu/row_cases.h"

namespace sow::detail {
namespace {

class Rows : public testing::TestWithParam<DType> {};

TEST_P(Rows, GiveTheReferenceBits) {
  std::mt19937_64 random(3);
  std::vector<DenseRows> all;
  for (const int64_t columns : {2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 65, 127, 200})
    all.push_back({90, columns, 11});
  for (const int64_t shift : {0, 1, 2, 4, 8, 15}) all.push_back({150, 64, 13, shift, shift == 8});
  for (const int64_t shift : {0, 4}) all.push_back({1500, 128, 3, shift});
  for (const Reduce reduce : {Reduce::add, Reduce::mean, Reduce::mul, Reduce::amax, Reduce::amin}) {
    for (const DenseRows& rows : all) {
      for (int values = 0; values < 4; ++values) {
        const int number = values + static_cast<int>(reduce) + static_cast<int>(rows.columns);
        if (is_left_out(number + static_cast<int>(GetParam()))) continue;
        const Problem problem = make(random, rows, GetParam(), reduce, static_cast<Values>(values));
        const Bytes expected = result_of(problem, k_reference, 1);
        for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
          if (!isa_available(isa)) continue;
          const ScopedIsa scoped(isa);
          for (const int threads : {1, 3}) {
            expect_bits(problem, threads, expected, values, isa_name(isa));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, Rows, testing::Values(DType::float32, DType::bfloat16, DType::float16, DType::float64),
    [](const testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); });

// Orders of many keys, of far more places than keys, and of keys in order are found differently.
TEST(RowsInOrder, GiveTheReferenceBits) {
  std::mt19937_64 random(4);
  for (const DenseRows rows :
       {DenseRows{5000, 3, 4000}, DenseRows{20000, 2, 300}, DenseRows{300, 4, 100000},
        DenseRows{5000, 3, 4000, 0, true}, DenseRows{300, 4, 100000, 0, true},
        DenseRows{9000, 3, 9000, 0, false, true}, DenseRows{20000, 2, 300, 0, false, true},
        DenseRows{30000, 17, 2500, 0, false, true}}) {
    for (const Reduce reduce :
         {Reduce::mul, Reduce::add, Reduce::mean, Reduce::amax, Reduce::assign}) {
      const Problem problem = make(random, rows, DType::float32, reduce, Values::plain);
      const Bytes expected = result_of(problem, k_reference, 1);
      for (const int threads : {1, 2, 3, 5}) expect_bits(problem, threads, expected);
    }
  }
}

// Sums that a float64 cannot tell: halves of a last digit beside a term that is far too small for
// it, in either direction, and large terms that cancel.
TEST(RowsOfWideTerms, AreRoundedByTheLeastOfThem) {
  std::mt19937_64 random(8);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const int digits = dtype == DType::float32 ? 24 : 8;
    for (const Reduce reduce : {Reduce::add, Reduce::mean}) {
      for (const int64_t columns : {5, 64, 100}) {
        const DenseRows rows{400, columns, 90, 0, false, true};
        Problem problem = make(random, rows, dtype, reduce, Values::plain);
        problem.transfer.include_self = false;
        auto* const src = const_cast<char*>(problem.transfer.src.data);
        for (int64_t i = 0; i < rows.items * columns; ++i) {
          const float terms[] = {1.0f,
                                 -1.0f,
                                 std::ldexp(1.0f, -digits),
                                 std::ldexp(3.0f, -digits),
                                 std::ldexp(1.0f, -90),
                                 std::ldexp(-1.0f, -100),
                                 std::ldexp(1.0f, 60),
                                 std::ldexp(-1.0f, 60)};
          const float term = terms[random() % 8];
          const char* bits = reinterpret_cast<const char*>(&term) + (digits == 8 ? 2 : 0);
          std::memcpy(src + i * static_cast<int64_t>(size_of(dtype)), bits, size_of(dtype));
        }
        const Bytes expected = result_of(problem, k_reference, 1);
        for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
          if (!isa_available(isa)) continue;
          const ScopedIsa scoped(isa);
          expect_bits(problem, 2, expected, 0, isa_name(isa));
        }
      }
    }
  }
}

// Fills a problem of float32 with terms of three sizes, `spread` exponents apart. All but the small
// ones of a place are followed by their opposites, so that the small ones are all that is left.
void fill_far_apart(std::mt19937_64& random, const DenseRows& rows, int spread, int lowest,
                    Problem& problem) {
  const auto draw = [&](int exponent) {
    if (random() % 50 == 0) return random() % 2 ? 0.0f : -0.0f;
    return static_cast<float>(std::ldexp(std::normal_distribution<float>()(random),
                                         exponent + static_cast<int>(random() % 3)));
  };
  float* dst = reinterpret_cast<float*>(problem.dst.data());
  for (int64_t i = 0; i < rows.places * rows.columns; ++i) dst[i] = draw(lowest);
  std::vector<float> open(static_cast<size_t>(rows.places * rows.columns));
  float* src = reinterpret_cast<float*>(const_cast<char*>(problem.transfer.src.data));
  for (int64_t i = 0; i < rows.items; ++i) {
    int64_t key;
    std::memcpy(&key, problem.keys[0].data() + 8 * i, 8);
    for (int64_t c = 0; c < rows.columns; ++c) {
      float& value = src[i * rows.columns + c];
      float& before = open[static_cast<size_t>(key * rows.columns + c)];
      if (before != 0) {
        value = -before;
        before = 0;
        continue;
      }
      const int more[] = {0, 0, spread, std::max(spread - 47, 0)};
      const int chosen = more[random() % 4];
      value = draw(lowest + chosen);
      if (chosen != 0) before = value;
    }
  }
}

// Around what one float64 holds, what two do, and beyond.
TEST(WideRows, GiveTheReferenceBits) {
  std::mt19937_64 random(7);
  for (const int64_t columns : {20, 37, 64, 80}) {
    for (const int spread : {5, 20, 25, 30, 50, 60, 64, 66, 68, 70, 72, 74, 76, 78, 80, 90, 140}) {
      for (const int lowest : {-145, -60, -spread / 2}) {
        const DenseRows rows{120, columns, 12, spread % 3 == 0 ? 4 : 0, false, true};
        const Reduce reduce = random() % 3 ? Reduce::add : Reduce::mean;
        Problem problem = make(random, rows, DType::float32, reduce, Values::plain);
        fill_far_apart(random, rows, spread, lowest, problem);
        const Bytes expected = result_of(problem, k_reference, 1);
        for (const int threads : {1, 3}) expect_bits(problem, threads, expected, spread);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The bad key is named, wherever it is, and the destination is as it was.
TEST(RowsInOrder, ABadKeyWritesNothing) {
  constexpr int64_t kItems = 20000, kColumns = 3;
  for (const char* strategy : {"ordered", "short_rows"}) {
    const ForceStrategy forced(strategy);
    std::mt19937_64 random(5);
    for (const int64_t places : {40, 3000, 1000000}) {
      for (const bool sorted : {false, true}) {
        for (const int64_t at : {int64_t{0}, kItems / 2, kItems - 1}) {
          std::vector<int64_t> keys(kItems);
          for (int64_t& key : keys)
            key = static_cast<int64_t>(random() % static_cast<uint64_t>(places));
          if (sorted) std::sort(keys.begin(), keys.end());
          keys[static_cast<size_t>(at)] = at == 0 ? -places - 1 : places;
          const Tensor x = Tensor::ones({places, kColumns}, DType::float32);
          const Tensor src = Tensor::full({kItems, kColumns}, 7, DType::float32);
          try {
            index_add_(x, 0, Tensor::of(keys, {kItems}), src);
            FAIL() << places;
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::index);
            EXPECT_NE(std::string(error.what()).find("[" + std::to_string(at) + "]"),
                      std::string::npos)
                << error.what();
          }
          const float* data = static_cast<const float*>(x.data());
          EXPECT_TRUE(std::all_of(data, data + places * kColumns, [](float v) { return v == 1; }));
        }
      }
    }
  }
}

// Rows whose sources are walked backwards are read another way, which must check their keys too.
TEST(Rows, ABadKeyOfFlippedSourcesWritesNothing) {
  for (const int64_t items : {4, 3000}) {
    for (const int64_t bad : {int64_t{5}, int64_t{-6}, int64_t{INT32_MAX}}) {
      std::vector<int64_t> keys(static_cast<size_t>(items), 2);
      keys[static_cast<size_t>(items / 2)] = bad;
      const Tensor index = Tensor::of(keys, {items});
      const Tensor rows = Tensor::ones({items, 15}, DType::float32);
      const Dims strides = {-15, 1};
      const Tensor src = Tensor::wrap({static_cast<float*>(rows.data()) + (items - 1) * 15,
                                       DType::float32,
                                       {items, 15},
                                       strides,
                                       {},
                                       true,
                                       {}});
      for (const Strategy* strategy : cpu_strategies()) {
        const ForceStrategy forced(strategy->name);
        const Tensor x = Tensor::zeros({5, 15}, DType::float32);
        EXPECT_THROW(index_reduce_(x, 0, index, src, Reduce::add), Error) << strategy->name;
        const float* data = static_cast<const float*>(x.data());
        EXPECT_TRUE(std::all_of(data, data + 75, [](float value) { return value == 0.0f; }))
            << strategy->name;
      }
    }
  }
}

}  // namespace
}  // namespace sow::detail
