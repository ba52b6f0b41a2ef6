// SPDX-License-Identifier: Apache-2.0
// Sums in fixed point of data that change while they are added: growing, shrinking, special and of
// any exponent, on every instruction set, bit for bit against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/exact/exact_traits.h"
#include "core/isa.h"
#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace sow::detail {
namespace {

enum Kind {
  normal,
  large,
  tiny,
  zeros,
  minus_zeros,
  special,
  cancelling,
  positive,
  ends,
  any,
  kKinds
};

// Values of one kind after those of another.
template <class T>
class Stream {
 public:
  explicit Stream(uint64_t seed) : random_(seed) {}

  std::vector<T> draw(int64_t count) {
    std::vector<T> values;
    while (static_cast<int64_t>(values.size()) < count) {
      const Kind kind = static_cast<Kind>(random_() % kKinds);
      const int64_t length =
          std::min<int64_t>(1 + random_() % 40000, count - static_cast<int64_t>(values.size()));
      for (int64_t i = 0; i < length; ++i) values.push_back(one(kind, i));
    }
    return values;
  }
  std::vector<T> draw(int64_t count, Kind kind) {
    std::vector<T> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(one(kind, i));
    return values;
  }
  std::mt19937_64& random() { return random_; }

 private:
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;

  T of_bits(uint64_t magnitude) {
    const uint64_t sign = random_() % 2 == 0 ? Traits::kSign : 0;
    return bit_cast<T>(static_cast<Bits>(magnitude | sign));
  }
  T one(Kind kind, int64_t i) {
    const double value = normal_(random_);
    switch (kind) {
      case large:
        return of_bits(Traits::kInfinity - 1 - random_() % (2 * Traits::kHidden));
      case tiny:
        return of_bits(random_() % (2 * Traits::kHidden));
      case zeros:
        return T(0.0);
      case minus_zeros:
        return T(-0.0);
      case special:
        if (random_() % 3000 == 0) return bit_cast<T>(Traits::kQuietNan);
        if (random_() % 1000 == 0) return of_bits(Traits::kInfinity);
        return T(value);
      case cancelling:
        last_ = i % 2 == 0 ? value : -last_;
        return T(last_);
      case positive:
        return T(1.5 + 0.01 * std::abs(value));
      case ends:
        return one(random_() % 50 == 0 ? tiny : large, i);
      case any:
        return of_bits(random_() % Traits::kInfinity);
      default:
        return T(value);
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double last_ = 0;
};

template <class K>
Tensor keys_of(std::mt19937_64& random, int64_t count, int64_t places, bool negative) {
  std::vector<K> keys(static_cast<size_t>(count));
  for (K& key : keys) {
    key = static_cast<K>(random() % static_cast<uint64_t>(places));
    if (negative && random() % 100 == 0) key = static_cast<K>(key - places);
  }
  return Tensor::of(keys, {count});
}

template <class T>
void expect_reference_bits(const std::vector<T>& values, const std::vector<T>& olds,
                           const Tensor& keys, Reduce reduce, bool self) {
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t places = static_cast<int64_t>(olds.size());
  const Tensor src = Tensor::of(values, {count});
  const auto result = [&](const char* strategy) {
    const ForceStrategy forced(strategy);
    const Tensor x = Tensor::of(olds, {places});
    index_reduce_(x, 0, keys, src, reduce, self);
    return x;
  };
  const Tensor expected = result("reference");
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const ScopedIsa scoped(isa);
    for (const char* strategy : {"private", "block", "partition"}) {
      const Tensor found = result(strategy);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), olds.size() * sizeof(T)), 0)
          << strategy << " on " << isa_name(isa) << ": " << name_of(src.dtype()) << " to " << places
          << ", " << name_of(reduce) << (self ? "" : " without old values");
    }
  }
}

template <class T>
struct FixedPoint : testing::Test {
  FixedPoint() { set_num_threads(2); }
  ~FixedPoint() override { set_num_threads(before_); }
  const int before_ = get_num_threads();
};
using Types = testing::Types<float, double, float16, bfloat16>;
TYPED_TEST_SUITE(FixedPoint, Types);

TYPED_TEST(FixedPoint, FollowTheirData) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Stream<TypeParam> stream(seed);
    const int64_t places = std::vector<int64_t>{1, 5, 300, 1000, 3000, 20000}[seed];
    const int64_t count = 100000 + static_cast<int64_t>(stream.random()() % 100000);
    const std::vector<TypeParam> values = stream.draw(count), olds = stream.draw(places);
    const bool negative = seed % 2 == 1;
    const Tensor keys = seed % 3 == 0 ? keys_of<int32_t>(stream.random(), count, places, negative)
                                      : keys_of<int64_t>(stream.random(), count, places, negative);
    const Reduce reduce = seed % 3 == 2 ? Reduce::mean : Reduce::add;
    expect_reference_bits(values, olds, keys, reduce, seed != 4);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(FixedPoint, HoldOneKind) {
  for (int kind = 0; kind < kKinds; ++kind) {
    Stream<TypeParam> stream(static_cast<uint64_t>(kind) + 50);
    const int64_t places = 1 + static_cast<int64_t>(stream.random()() % 230), count = 60000;
    const std::vector<TypeParam> values = stream.draw(count, static_cast<Kind>(kind));
    const std::vector<TypeParam> olds = stream.draw(places, minus_zeros);
    const Tensor keys = keys_of<int64_t>(stream.random(), count, places, kind % 3 == 0);
    expect_reference_bits(values, olds, keys, kind % 2 == 0 ? Reduce::add : Reduce::mean,
                          kind % 4 < 2);
    // Extremes are no sums, but are read in the same way.
    expect_reference_bits(values, olds, keys, kind % 2 == 0 ? Reduce::amax : Reduce::amin,
                          kind % 4 < 2);
    if (this->HasFatalFailure()) return;
  }
}

// More of the largest values that a scale takes than its cells hold, after smaller ones that it
// was made for, in every worker's share.
TYPED_TEST(FixedPoint, Overflow) {
  Stream<TypeParam> stream(9);
  constexpr int64_t kCount = 1 << 20;
  std::vector<TypeParam> values = stream.draw(kCount, positive);
  for (int64_t i = 0; i < kCount; ++i) {
    if (i % (kCount / 2) > 600)
      values[static_cast<size_t>(i)] = TypeParam(7.75 + 0.25 / (i % 7 + 2));
  }
  const std::vector<TypeParam> olds = stream.draw(1, normal);
  expect_reference_bits(values, olds, keys_of<int64_t>(stream.random(), kCount, 1, false),
                        Reduce::add, true);
}

// So many places that sums have one scale or are partitioned: with terms below its unit, with
// values that it does not take from some update on, and with more old values that must be looked at
// than can be at a time.
TYPED_TEST(FixedPoint, HoldManyCells) {
  using Traits = FloatTraits<TypeParam>;
  for (uint64_t seed = 0; seed < 7; ++seed) {
    Stream<TypeParam> stream(seed + 400);
    std::mt19937_64& random = stream.random();
    const int64_t places = std::vector<int64_t>{17001, 100003, 270001}[seed % 3];
    const int64_t count = 2 * places + 7;
    std::vector<TypeParam> values = stream.draw(count, seed == 4 ? special : normal);
    std::vector<TypeParam> olds = stream.draw(places, normal);
    for (int64_t i = 0; i < count; ++i) {
      TypeParam& value = values[static_cast<size_t>(i)];
      if (random() % 2000 == 0)
        value = TypeParam(std::ldexp(0.7, -23 - static_cast<int>(random() % 3)));
      if (random() % 50 == 0) value = TypeParam(random() % 2 == 0 ? 0.0 : -0.0);
    }
    if (seed == 5) {
      const std::vector<TypeParam> others = stream.draw(count / 3, any);
      std::copy(others.begin(), others.end(), values.end() - count / 3);
    }
    for (TypeParam& old : olds) {
      if (random() % 4 == 0) old = TypeParam(-0.0);
      if (seed % 2 == 1 || random() % 40 != 0) continue;
      // With a payload, which no sum keeps.
      old =
          bit_cast<TypeParam>(static_cast<typename Traits::Bits>(Traits::kQuietNan + random() % 2));
    }
    set_num_threads(1 + static_cast<int>(seed % 3));
    const Tensor keys = seed % 2 == 0 ? keys_of<int64_t>(random, count, places, seed == 2)
                                      : keys_of<int32_t>(random, count, places, false);
    expect_reference_bits(values, olds, keys, seed == 6 ? Reduce::mean : Reduce::add, seed != 3);
    if (this->HasFatalFailure()) return;
  }
}

// Many values of any exponent, and of the largest, in very few places.
TEST(BoundedSums, HoldAnyExponent) {
  const int before = get_num_threads();
  set_num_threads(2);
  for (const Kind kind : {any, large}) {
    Stream<float> stream(3 + kind);
    constexpr int64_t kCount = (1 << 20) + 100000;
    std::vector<float> values = stream.draw(kCount, any);
    const std::vector<float> more = stream.draw(kCount / 2, kind), olds = stream.draw(3, normal);
    for (size_t i = 0; i < more.size(); ++i) values[2 * i + 1] = std::abs(more[i]);
    for (float& value : values) value = std::ldexp(value, -40);  // no sum overflows
    expect_reference_bits(values, olds, keys_of<int64_t>(stream.random(), kCount, 3, false),
                          Reduce::add, true);
  }
  set_num_threads(before);
}

// Sums that lie between two numbers of the type, or would but for a term far below, beside places
// that are met by zeros only or not at all, among them NaN, infinities and -0.
TYPED_TEST(FixedPoint, LeaveTiesToOthers) {
  using Traits = FloatTraits<TypeParam>;
  for (const Reduce reduce : {Reduce::add, Reduce::mean}) {
    for (const int64_t places : {9, 700, 30000}) {
      Stream<TypeParam> stream(static_cast<uint64_t>(places));
      std::mt19937_64& random = stream.random();
      const int64_t count = std::max<int64_t>(places * 2, 40000);
      const std::vector<TypeParam> far = stream.draw(count, any);
      const double half = std::ldexp(1.0, -Traits::kDigits);
      std::vector<TypeParam> values, olds;
      for (int64_t i = 0; i < count; ++i) {
        const double sign = random() % 2 == 0 ? 1 : -1;
        switch (random() % 8) {
          case 0:
            values.push_back(far[static_cast<size_t>(i)]);
            break;
          case 1:
            values.push_back(TypeParam(sign * 0.0));
            break;
          case 2:
            values.push_back(bit_cast<TypeParam>(typename Traits::Bits{1}));
            break;
          case 3:
          case 4:
            values.push_back(TypeParam(sign * half));
            break;
          default:
            values.push_back(TypeParam(sign * (1 + 2 * half * static_cast<double>(random() % 4))));
        }
      }
      for (int64_t i = 0; i < places; ++i) {
        olds.push_back(i % 5 == 0   ? bit_cast<TypeParam>(Traits::kQuietNan)
                       : i % 5 == 1 ? TypeParam(-0.0)
                       : i % 5 == 2 ? bit_cast<TypeParam>(Traits::kInfinity)
                                    : TypeParam(static_cast<double>(i % 5 - 3)));
      }
      const Tensor keys = keys_of<int64_t>(random, count, places, false);
      expect_reference_bits(values, olds, keys, reduce, reduce == Reduce::add);
      if (this->HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace sow::detail
