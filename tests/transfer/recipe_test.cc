// SPDX-License-Identifier: Apache-2.0
// Recipes: a call that is made again on other memory leaves the same bits, or is refused.
#include "sow/detail/recipe.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/tensor/tensor_impl.h"
#include "random_values.h"
#include "sow/sow.h"

namespace sow::test {
namespace {

using Arrays = std::vector<Tensor>;
using Call = std::function<Tensor(const Arrays&)>;

struct Case {
  const char* name;
  std::function<Arrays(Draw&)> draw;
  Call call;
};

Tensor values(Draw& draw, const Dims& shape, DType dtype = DType::float32) {
  Tensor out = Tensor::empty(shape, dtype);
  fill_random(draw, dtype, ValueKind::special, out.numel(), out.data());
  return out;
}

Tensor keys(Draw& draw, const Dims& shape, int64_t extent) {
  Tensor out = Tensor::empty(shape, DType::int64);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<int64_t>()[i] = draw.between(-extent, extent - 1);
  return out;
}

Tensor mask(Draw& draw, const Dims& shape) {
  Tensor out = Tensor::empty(shape, DType::bool_);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<bool>()[i] = draw.chance(50);
  return out;
}

Arrays along(Draw& draw) {
  return {values(draw, {6, 7}).transpose(0, 1), keys(draw, {3, 6}, 7),
          values(draw, {3, 6}).flip(1)};
}
Arrays rows(Draw& draw) {
  return {values(draw, {9, 4}), keys(draw, {5}, 9), values(draw, {5, 8}).slice(1, 0, kEnd, 2)};
}
Arrays masked(Draw& draw) { return {values(draw, {5, 6}), mask(draw, {6}), values(draw, {30})}; }
Arrays coordinates(Draw& draw) {
  return {values(draw, {4, 5, 2}), keys(draw, {6, 2}, 4), values(draw, {6, 2})};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"scatter_add_", along, [](const Arrays& a) { return scatter_add_(a[0], 0, a[1], a[2]); }},
      {"scatter", along, [](const Arrays& a) { return scatter(a[0], 0, a[1], a[2]); }},
      {"scatter_reduce_", along,
       [](const Arrays& a) { return scatter_reduce_(a[0], 0, a[1], a[2], Reduce::mean, false); }},
      {"put_along_axis", along,
       [](const Arrays& a) {
         return put_along_axis(a[0], a[1], a[2], 0, Reduce::amax, true, false);
       }},
      {"gather",
       [](Draw& d) {
         return Arrays{values(d, {4, 5}), keys(d, {3, 5}, 4)};
       },
       [](const Arrays& a) { return gather(a[0], 0, a[1]); }},
      {"index_add_", rows, [](const Arrays& a) { return index_add_(a[0], 0, a[1], a[2]); }},
      {"index_copy", rows, [](const Arrays& a) { return index_copy(a[0], 0, a[1], a[2]); }},
      {"index_fill_",
       [](Draw& d) {
         return Arrays{values(d, {9}), keys(d, {5}, 9), values(d, {})};
       },
       [](const Arrays& a) { return index_fill_(a[0], 0, a[1], a[2]); }},
      {"index_select",
       [](Draw& d) {
         return Arrays{values(d, {3, 9}), keys(d, {5}, 9)};
       },
       [](const Arrays& a) { return index_select(a[0], 1, a[1]); }},
      {"index_put_",
       [](Draw& d) {
         return Arrays{values(d, {4, 5}), keys(d, {6}, 4), keys(d, {6}, 5), values(d, {6})};
       },
       [](const Arrays& a) {
         return index_put_(a[0], {a[1], a[2]}, a[3], true);
       }},
      {"masked_scatter_", masked,
       [](const Arrays& a) { return masked_scatter_(a[0], a[1], a[2]); }},
      {"masked_scatter", masked, [](const Arrays& a) { return masked_scatter(a[0], a[1], a[2]); }},
      {"masked_fill_",
       [](Draw& d) {
         return Arrays{values(d, {5, 6}), mask(d, {5, 6})};
       },
       [](const Arrays& a) { return masked_fill_(a[0], a[1], 1.5); }},
      {"tensor_scatter_nd_add_", coordinates,
       [](const Arrays& a) { return tensor_scatter_nd_add_(a[0], a[1], a[2]); }},
      {"tensor_scatter_nd_update", coordinates,
       [](const Arrays& a) { return tensor_scatter_nd_update(a[0], a[1], a[2]); }},
      {"diagonal_scatter",
       [](Draw& d) {
         return Arrays{values(d, {5, 6}), values(d, {4})};
       },
       [](const Arrays& a) { return diagonal_scatter(a[0], a[1], 2); }},
      {"select_scatter_",
       [](Draw& d) {
         return Arrays{values(d, {5, 6}), values(d, {5})};
       },
       [](const Arrays& a) { return select_scatter_(a[0], a[1], 1, -2); }},
  };
  return all;
}

// Copies with the same strides.
Arrays twins(const Arrays& arrays) {
  Arrays out;
  for (const Tensor& one : arrays) {
    const size_t rank = one.shape().size();
    Tensor twin = detail::empty_strided_like(one.shape(), one.strides(), one.dtype(), {});
    if (!(twin.strides() == one.strides())) {  // backwards, or with gaps
      twin = one.strides()[rank - 1] < 0
                 ? Tensor::empty(one.shape(), one.dtype()).flip(static_cast<int64_t>(rank) - 1)
                 : Tensor::empty({one.shape()[0], 2 * one.shape()[1]}, one.dtype())
                       .slice(1, 0, kEnd, 2);
    }
    EXPECT_EQ(twin.strides(), one.strides());
    out.push_back(twin.copy_(one));
  }
  return out;
}

std::vector<char> bytes(const Tensor& tensor) {
  const Tensor dense = tensor.clone();
  const auto* data = static_cast<const char*>(dense.data());
  return std::vector<char>(data, data + dense.nbytes());
}

std::vector<void*> memory_of(const Arrays& arrays) {
  std::vector<void*> out;
  for (const Tensor& one : arrays) out.push_back(one.data());
  return out;
}

TEST(Recipe, GivesTheBitsOfTheCall) {
  for (const Case& one : cases()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(one.name);
      Draw draw(seed);
      const Arrays first = one.draw(draw), second = one.draw(draw), expected = twins(second);
      Recipe recipe;
      const Arrays same = twins(first);
      EXPECT_EQ(bytes(recipe.watch(first, [&] { return one.call(first); })), bytes(one.call(same)));
      ASSERT_TRUE(recipe.ready());
      const Tensor wanted = one.call(expected);
      std::vector<void*> memory = memory_of(second);
      Tensor result = second[0];
      if (!recipe.in_place()) {
        ASSERT_EQ(recipe.shape(), wanted.shape());
        result = Tensor::empty(recipe.shape(), recipe.dtype());
        memory.push_back(result.data());
      }
      ASSERT_TRUE(recipe.run(memory.data()));
      EXPECT_EQ(bytes(result), bytes(wanted));
      for (size_t i = 0; i < second.size(); ++i) EXPECT_EQ(bytes(second[i]), bytes(expected[i]));
    }
  }
}

Recipe recipe_of_index_add(const Arrays& arrays) {
  Recipe recipe;
  recipe.watch(arrays, [&] { return index_add_(arrays[0], 0, arrays[1], arrays[2]); });
  return recipe;
}

TEST(Recipe, ComplainsLikeTheCallAndWritesNothing) {
  Draw draw(1);
  const Arrays arrays = rows(draw);
  Recipe recipe = recipe_of_index_add(arrays);
  ASSERT_TRUE(recipe.ready());
  arrays[1].data<int64_t>()[3] = 9;
  const std::vector<char> before = bytes(arrays[0]);
  std::string call, again;
  try {
    index_add_(arrays[0], 0, arrays[1], arrays[2]);
  } catch (const Error& error) {
    call = error.what();
  }
  try {
    recipe.run(memory_of(arrays).data());
  } catch (const Error& error) {
    again = error.what();
  }
  EXPECT_NE(call, "");
  EXPECT_EQ(again, call);
  EXPECT_EQ(bytes(arrays[0]), before);
}

TEST(Recipe, IsRefusedWhereTheCallIsAnother) {
  Draw draw(2);
  const Arrays arrays = rows(draw);
  Recipe recipe = recipe_of_index_add(arrays);
  ASSERT_TRUE(recipe.ready());
  std::vector<void*> memory = memory_of(arrays);
  const std::vector<char> before = bytes(arrays[0]);

  std::vector<void*> shared = memory;
  shared[2] = static_cast<char*>(memory[0]) + 4;
  EXPECT_FALSE(recipe.run(shared.data()));
  bool explained = true;
  explain([&] { explained = recipe.run(memory.data()); });
  EXPECT_FALSE(explained);
  const int threads = get_num_threads();
  set_num_threads(threads + 1);
  EXPECT_FALSE(recipe.run(memory.data()));
  set_num_threads(threads);

  EXPECT_EQ(bytes(arrays[0]), before);
  EXPECT_TRUE(recipe.run(memory.data()));
}

TEST(Recipe, IsNotMadeWhereDataDecides) {
  Draw draw(3);
  const Arrays arrays = {values(draw, {20}), mask(draw, {20}), values(draw, {})};
  const auto ready = [&](const Arrays& given, const std::function<Tensor()>& call) {
    Recipe recipe;
    recipe.watch(given, call);
    return recipe.ready();
  };
  const Tensor x = arrays[0], chosen = arrays[1];
  EXPECT_FALSE(ready({x, chosen}, [&] { return masked_select(x, chosen); }));
  EXPECT_FALSE(ready({x}, [&] { return nonzero(x); }));
  const Tensor many = values(draw, {1});
  EXPECT_FALSE(ready({x, chosen, many}, [&] { return index_put(x, {chosen}, many, true); }));
  // An input that is part of the destination is copied first.
  const Tensor part = x.slice(0, 0, 5);
  const Tensor places = keys(draw, {5}, 20);
  EXPECT_FALSE(ready({x, places, part}, [&] { return index_add_(x, 0, places, part); }));
  // Whose memory went where? One tensor stands for two arrays.
  const Tensor table = values(draw, {20, 20}), update = values(draw, {5});
  EXPECT_FALSE(ready({table, places, places, update}, [&] {
    return index_put_(table, {places, places}, update, true);
  }));
  EXPECT_FALSE(ready({x, places, update}, [&] {
    index_add_(x, 0, places, update);
    index_add_(x, 0, places, update);
    return index_add_(x, 0, places, update);
  }));
}

}  // namespace
}  // namespace sow::test
