// SPDX-License-Identifier: Apache-2.0
// The fixed-point sums of short_rows against the reference: terms that they must take aside.
#include "cpu/row_cases.h"

namespace sow::detail {
namespace {

// Sums at one fixed-point scale: a few terms that do not fit it, zeros of either sign in rows with
// and without updates, and more of them than there is room for.
TEST(ShortRows, TakeStrangeTermsAside) {
  std::mt19937_64 random(6);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const int64_t columns : {2, 3, 4, 6, 8, 11, 16}) {
      for (const int64_t strange : {1, 20, 200, 2000}) {
        if (is_left_out(static_cast<int>(columns + strange / 20) + static_cast<int>(dtype)))
          continue;
        const DenseRows rows{4000, columns, 700, 0, strange == 20, true};
        for (const Reduce reduce : {Reduce::add, Reduce::mean}) {
          Problem problem = make(random, rows, dtype, reduce, Values::plain);
          const auto width = static_cast<int64_t>(size_of(dtype));
          const auto mix = [&](Bytes& bytes, Values values, int64_t count) {
            const Bytes others = random_elements(random, dtype, count, values);
            for (int64_t i = 0; i < count; ++i) {
              const auto at = static_cast<int64_t>(random() % (bytes.size() / width));
              std::memcpy(bytes.data() + at * width, others.data() + i * width, width);
            }
          };
          mix(problem.src, Values::wide, strange);
          mix(problem.src, Values::special, strange);
          mix(problem.dst, Values::special, 4 * strange);
          // Places of zeros only.
          for (int64_t i = 0; i < rows.items; ++i) {
            int64_t key;
            std::memcpy(&key, problem.keys[0].data() + 8 * i, 8);
            if (key % 50 != 7) continue;
            Bytes zeros = random_elements(random, dtype, columns, Values::tiny);
            if (strange == 1) zeros.assign(zeros.size(), 0);
            std::memcpy(const_cast<char*>(problem.transfer.src.data) + i * columns * width,
                        zeros.data(), zeros.size());
          }
          for (int64_t place = 7; place < rows.places; place += 50) {
            const Bytes zeros = random_elements(random, dtype, columns, Values::tiny);
            std::memcpy(problem.dst.data() + place * columns * width, zeros.data(), zeros.size());
          }
          const Bytes expected = result_of(problem, k_reference, 1);
          for (const Isa isa : {Isa::portable, Isa::avx512}) {
            if (!isa_available(isa)) continue;
            const ScopedIsa scoped(isa);
            for (const int threads : {1, 3}) {
              ASSERT_TRUE(result_of(problem, k_short_rows, threads) == expected)
                  << problem.text << " strange " << strange << " on " << isa_name(isa);
            }
          }
        }
      }
    }
  }
}

// An order of so many items of so few rows would be larger than the operands: cells take over.
TEST(ShortRows, ManyItemsOfFewRowsFallBackToCells) {
  std::mt19937_64 random(7);
  for (const int64_t columns : {2, 5}) {
    const DenseRows rows{60000, columns, 30, 0, false, true};
    for (const Reduce reduce : {Reduce::add, Reduce::mean}) {
      const Problem problem = make(random, rows, DType::float32, reduce, Values::wide);
      const Canonical canonical = canonicalize(problem.transfer);
      ASSERT_TRUE(k_short_rows.supports(problem.transfer, canonical));
      if (columns == 2) {
        EXPECT_EQ(k_short_rows.fallback(problem.transfer, canonical, 2), &k_block);
      }
      const Bytes expected = result_of(problem, k_reference, 1);
      for (const int threads : {1, 2}) {
        ASSERT_TRUE(result_of(problem, k_short_rows, threads) == expected)
            << problem.text << " on " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace sow::detail
