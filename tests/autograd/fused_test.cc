// SPDX-License-Identifier: Apache-2.0
// The walk that gives all gradients of a scatter at once has the same bits as the rules it stands
// for.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/isa.h"
#include "sow/sow.h"

namespace sow {
namespace {

// Values that meet, vanish and overflow: small integers, zeros of both signs, NaN, infinities.
Tensor awkward(const Dims& shape, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const double special[] = {0.0, -0.0, 1.0, -1.0, 3.0, 0.3, -2.5, 1e3, std::nan(""), INFINITY};
  if (is_complex(dtype)) {
    std::vector<std::complex<double>> values(count);
    for (auto& value : values) value = {special[random() % 8], special[random() % 8]};
    return to(Tensor::of(values, shape), dtype);
  }
  std::vector<double> values(count);
  for (double& value : values) value = special[random() % (random() % 16 == 0 ? 10 : 8)];
  return to(Tensor::of(values, shape), dtype);
}

Tensor random_keys(const Dims& shape, int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = static_cast<int64_t>(random() % (2 * size)) - size;
  return Tensor::of(values, shape);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && std::memcmp(x.data(), y.data(), x.nbytes()) == 0;
}

// With create_graph the rules run one by one; without, in one walk where there is one.
void expect_same(const std::function<Tensor(const TensorList&)>& f, const Tensor& x,
                 const Tensor& src, const std::string& what) {
  const Tensor a = x.detach().set_requires_grad(), b = src.detach().set_requires_grad();
  const Tensor y = f({a, b});
  const Tensor weight = awkward(y.shape(), y.dtype(), 5);
  const TensorList one_by_one = grad({y}, {a, b}, {weight}, true);
  const TensorList at_once = grad({y}, {a, b}, {weight}, false);
  EXPECT_TRUE(same_bits(one_by_one[0], at_once[0])) << what << ", destination";
  EXPECT_TRUE(same_bits(one_by_one[1], at_once[1])) << what << ", source";
}

void check_all(const std::string& what, const Tensor& x, const Tensor& src,
               const std::function<Tensor(const TensorList&, Reduce, bool)>& f) {
  for (const Reduce reduce :
       {Reduce::assign, Reduce::mean, Reduce::mul, Reduce::amax, Reduce::amin}) {
    const bool ordered = reduce == Reduce::amax || reduce == Reduce::amin;
    if (ordered && is_complex(x.dtype())) continue;
    for (const bool self : {true, false}) {
      expect_same(
          [&](const TensorList& t) { return f(t, reduce, self); }, x, src,
          what + " " + name_of(reduce) + " " + name_of(x.dtype()) + (self ? "" : " without self"));
    }
  }
}

constexpr DType kTypes[] = {DType::float16, DType::bfloat16,  DType::float32,
                            DType::float64, DType::complex64, DType::complex128};

TEST(Fused, rows) {
  for (const DType dtype : kTypes) {
    const Tensor index = random_keys({400}, 23, 3);
    check_all("rows", awkward({23, 70}, dtype, 1), awkward({400, 70}, dtype, 2),
              [&](auto& t, Reduce reduce, bool self) {
                return index_reduce(t[0], 0, index, t[1], reduce, self);
              });
    check_all("columns", awkward({5, 23}, dtype, 1), awkward({5, 400}, dtype, 2),
              [&](auto& t, Reduce reduce, bool self) {
                return index_reduce(t[0], 1, index, t[1], reduce, self);
              });
  }
}

TEST(Fused, every_instruction_level) {
  const Tensor index = random_keys({300}, 23, 3);
  for (const detail::Isa isa : {detail::Isa::portable, detail::Isa::avx2, detail::Isa::avx512}) {
    if (!detail::isa_available(isa)) continue;
    const detail::ScopedIsa level(isa);
    for (const DType dtype : kTypes) {
      check_all(detail::isa_name(isa), awkward({23, 64 + 64 + 3}, dtype, 1),
                awkward({300, 64 + 64 + 3}, dtype, 2), [&](auto& t, Reduce reduce, bool self) {
                  return index_reduce(t[0], 0, index, t[1], reduce, self);
                });
    }
  }
}

// Enough to go past the caches, with rows of whole lines, of parts of them, and not at their start.
TEST(Fused, large_gradients_are_streamed) {
  const int64_t n = 34000;
  const Tensor index = random_keys({n}, 3000, 3);
  for (const int64_t width : {64, 67}) {
    const Tensor x = awkward({3000, width}, DType::float32, 1);
    const Tensor src = awkward({n, width}, DType::float32, 2);
    for (const Reduce reduce : {Reduce::assign, Reduce::mean, Reduce::mul, Reduce::amax}) {
      expect_same([&](auto& t) { return index_reduce(t[0], 0, index, t[1], reduce); }, x, src,
                  std::string("streamed ") + name_of(reduce));
    }
  }
}

// Values that differ nearly always: a few zeros, of which some tie, and fewer NaNs. The source
// begins `shift` elements after the beginning of its memory.
Tensor distinct(const Dims& shape, unsigned seed, int64_t shift = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(shape[0] * shape[1] + shift);
  for (float& value : values) {
    value = normal(random);
    if (random() % 300 == 0) value = 4;
    if (random() % 3000 == 0) value = NAN;
  }
  return Tensor::of(values, {static_cast<int64_t>(values.size())})
      .slice(0, shift, static_cast<int64_t>(values.size()))
      .reshape(shape);
}

TEST(Fused, extremes_that_rarely_tie) {
  for (const int64_t items : {900, 40000}) {
    const int64_t places = items / 9;
    const Tensor index = random_keys({items}, places, 3);
    for (const int64_t width : {64, 128, 150}) {
      if (items > 900 && width != 64) continue;
      for (const int64_t shift : {0, 4, 7}) {
        for (const bool self : {true, false}) {
          const Reduce reduce = (shift + width) % 3 == 0 ? Reduce::amin : Reduce::amax;
          expect_same([&](auto& t) { return index_reduce(t[0], 0, index, t[1], reduce, self); },
                      distinct({places, width}, 1), distinct({items, width}, 2, shift),
                      std::to_string(items) + " rows of " + std::to_string(width) + ", shift " +
                          std::to_string(shift) + (self ? "" : ", without self"));
        }
      }
    }
  }
}

// What masked_scatter did not use gets zeros, whatever lay in the memory before.
TEST(Fused, unused_values_get_zeros) {
  for (const int64_t unused : {0, 5, 3000000}) {
    for (const bool by_rows : {false, true}) {
      const Tensor x = Tensor::ones({400, 30}, DType::float32).set_requires_grad();
      Tensor mask = Tensor::zeros({400, by_rows ? 1 : 30}, DType::bool_);
      mask.slice(0, 10, 200).fill_(true);
      const int64_t used = 190 * 30;
      const Tensor value = Tensor::ones({used + unused}, DType::float32).set_requires_grad();
      const Tensor y = masked_scatter(x, mask, value);
      const Tensor g = awkward(y.shape(), DType::float32, 3);
      { const Tensor dirty = Tensor::full({used + unused}, 7, DType::float32); }
      const Tensor found = grad({y}, {value}, {g})[0];
      EXPECT_TRUE(same_bits(found.slice(0, 0, used), g.slice(0, 10, 200).reshape({used})));
      EXPECT_TRUE(
          same_bits(found.slice(0, used, used + unused), Tensor::zeros({unused}, DType::float32)));
    }
  }
  const Tensor nothing = Tensor::ones({0, 3}, DType::float32);
  const Tensor value = Tensor::ones({4}, DType::float32).set_requires_grad();
  const Tensor y = masked_scatter(nothing, Tensor::ones({0, 3}, DType::bool_), value);
  EXPECT_TRUE(same_bits(grad({y}, {value}, {nothing})[0], Tensor::zeros({4}, DType::float32)));
}

TEST(Fused, long_products_are_cut_in_chunks) {
  const Tensor index = random_keys({2000}, 3, 3);
  check_all("chunks", awkward({3}, DType::float32, 1), awkward({2000}, DType::float32, 2),
            [&](auto& t, Reduce reduce, bool self) {
              return scatter_reduce(t[0], 0, index, t[1], reduce, self);
            });
}

TEST(Fused, along_an_axis_with_every_broadcast_rule) {
  for (const DType dtype : {DType::float32, DType::complex64}) {
    const Tensor x = awkward({40, 9, 8}, dtype, 1);
    const auto put = [](const Tensor& index, int64_t axis, bool broadcast) {
      return [=](const TensorList& t, Reduce reduce, bool self) {
        return put_along_axis(t[0], index, t[1], axis, reduce, self, broadcast);
      };
    };
    check_all("last", x, awkward({40, 9, 20}, dtype, 2),
              put(random_keys({40, 9, 20}, 8, 3), 2, true));
    check_all("first", x, awkward({9, 1}, dtype, 2), put(random_keys({60, 9, 8}, 40, 3), 0, true));
    check_all("expanded", x, awkward({60, 9, 8}, dtype, 2),
              put(random_keys({60, 1, 1}, 40, 3), 0, true));
    check_all("corner", x, awkward({70, 12, 8}, dtype, 2),
              put(random_keys({30, 11, 2}, 9, 3), 1, false));
  }
}

TEST(Fused, coordinates_and_strided_operands) {
  const Tensor x = awkward({6, 10, 7}, DType::float32, 1).transpose(0, 1);
  const Tensor index = random_keys({50, 2}, 6, 3);
  const Tensor src = awkward({7, 50}, DType::float32, 2).transpose(0, 1);
  expect_same([&](auto& t) { return tensor_scatter_nd_update(t[0], index, t[1]); }, x, src,
              "update");
  expect_same([&](auto& t) { return tensor_scatter_nd_max(t[0], index, t[1]); }, x, src, "max");
  expect_same([&](auto& t) { return tensor_scatter_nd_mul(t[0], index, t[1]); }, x, src, "mul");
  expect_same(
      [&](auto& t) {
        return index_put(t[0], {random_keys({9, 1}, 10, 4), random_keys({5}, 6, 5)}, t[1]);
      },
      x, awkward({9, 5, 7}, DType::float32, 6), "index_put");
}

TEST(Fused, bounds) {
  const Tensor keys = random_keys({300}, 40, 3);
  for (const Bounds bounds : {Bounds::drop, Bounds::clip}) {
    const Index index(keys, bounds);
    check_all("bounds", awkward({30, 4}, DType::float32, 1), awkward({300, 4}, DType::float32, 2),
              [&](auto& t, Reduce reduce, bool self) {
                return index_reduce(t[0], 0, index, t[1], reduce, self);
              });
  }
}

TEST(Fused, held_indices) {
  const Index index = Index::hold(random_keys({5000}, 300, 3), 300);
  check_all("held", awkward({300, 8}, DType::float32, 1), awkward({5000, 8}, DType::float32, 2),
            [&](auto& t, Reduce reduce, bool self) {
              return index_reduce(t[0], 0, index, t[1], reduce, self);
            });
}

TEST(Fused, many_keys) {
  const int64_t n = 10000;
  const Tensor index = random_keys({n}, 300, 3), src = awkward({n, 4}, DType::float32, 2);
  const Tensor x = awkward({300, 4}, DType::float32, 1);
  check_all("many keys", x, src, [&](auto& t, Reduce reduce, bool self) {
    return index_reduce(t[0], 0, index, t[1], reduce, self);
  });
  check_all("many elements", x.flatten(), src.flatten().slice(0, 0, n),
            [&](auto& t, Reduce reduce, bool self) {
              return scatter_reduce(t[0], 0, index, t[1], reduce, self);
            });
}

TEST(Fused, a_bad_key_is_named_by_the_operation) {
  const Tensor leaf = Tensor::ones({10000}, DType::float32).set_requires_grad();
  const Tensor index = Tensor::full({10000}, 7, DType::int64);
  try {
    scatter_reduce(Tensor::ones({5}, DType::float32), 0, index, leaf, "amax");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "scatter_reduce: index 7 at position [0] is out of range for axis 0 of size 5 "
                 "(valid: -5 to 4)");
  }
}

TEST(Fused, explain_says_so) {
  const Tensor x = Tensor::ones({3, 4}, DType::float32).set_requires_grad();
  const Tensor index = Tensor::of<int64_t>({0, 0, 2});
  const std::string said = explain([&] {
    const Tensor y = index_reduce(x, 0, index, Tensor::ones({3, 4}, DType::float32), "amax");
    grad({y}, {x}, {Tensor::ones({3, 4}, DType::float32)});
  });
  EXPECT_NE(
      said.find(
          "index_reduce: gradient of amax over [3, 4], each destination's updates in one walk"),
      std::string::npos)
      << said;
}

}  // namespace
}  // namespace sow
