// SPDX-License-Identifier: Apache-2.0
// Random programs, short and full of repetitions, against the same calls made one by one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "draw.h"
#include "program/cases.h"

namespace sow::test {
namespace {

constexpr int64_t kSize = 12;

int64_t setting(const char* name, int64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::atoll(given) : otherwise;
}

std::string numbered(const char* name, size_t number) {
  std::string out = name;
  out += std::to_string(number);
  return out;
}

// What calls may take: floats of kSize, keys into them, and masks over them.
struct Pool {
  TensorList floats, keys, masks;
};

// One call, as numbers: what it is and which of the pool it takes.
struct Choice {
  int kind;
  size_t a, b, c, key, mask;
};

Tensor make(const Choice& choice, const Pool& pool) {
  const Tensor& x = pool.floats[choice.a % pool.floats.size()];
  const Tensor& y = pool.floats[choice.b % pool.floats.size()];
  const Tensor& z = pool.floats[choice.c % pool.floats.size()];
  const Tensor& key = pool.keys[choice.key % pool.keys.size()];
  const Tensor& mask = pool.masks[choice.mask % pool.masks.size()];
  switch (choice.kind) {
    case 0:
      return scatter_add(x, 0, key, y);
    case 1:
      return scatter(x, 0, key, y);
    case 2:
      return scatter(x, 0, key, 1.5);
    case 3:
      return scatter_reduce(x, 0, key, y, "amax");
    case 4:
      return index_copy(x, 0, key, y);
    case 5:
      return index_fill(x, 0, key, 0.25);
    case 6:
      return masked_fill(x, mask, 2.0);
    case 7:
      return masked_scatter(x, mask, y);
    case 8:
      return add(x, y);
    case 9:
      return mul(x, 0.5);
    case 10:
      return sub(x, y);
    case 11:
      return where(mask, x, y);
    case 12:
      return index_select(x, 0, key);
    case 13:
      return reshape(add(reshape(x, {3, 4}), reshape(y, {4, 3}).transpose(0, 1)), {kSize});
    case 14:
      return add(x.flip(0), z);
    case 15:
      return slice_scatter(x, y.slice(0, 0, 4), 0, 2, 10, 2);
    default:
      return index_add(x, 0, key, index_select(y, 0, key));
  }
}

Pool leaves(const std::function<Tensor(const Tensor&, const std::string&)>& take) {
  Pool pool;
  const auto next = [&](const Tensor& tensor, const char* name, int i) {
    return take(tensor, numbered(name, static_cast<size_t>(i)));
  };
  for (int i = 0; i < 3; ++i)
    pool.floats.push_back(next(values({kSize}, DType::float32, 5 + i), "x", i));
  for (int i = 0; i < 2; ++i)
    pool.keys.push_back(next(keys({kSize}, kSize, DType::int64, 3 + i), "key", i));
  for (int i = 0; i < 2; ++i) pool.masks.push_back(next(mask({kSize}, 2 + i), "mask", i));
  return pool;
}

TEST(RandomPrograms, HaveEagersBits) {
  const int64_t first = setting("SOW_TEST_SEED", 1);
  const int64_t rounds = setting("SOW_TEST_PROBLEMS", 20000) / 20 + 1;
  for (int64_t seed = first; seed < first + rounds; ++seed) {
    Draw draw(static_cast<uint64_t>(seed));
    std::vector<Choice> choices(static_cast<size_t>(draw.between(2, 9)));
    for (Choice& choice : choices) {
      const auto any = [&] { return static_cast<size_t>(draw.between(0, 11)); };
      choice = {static_cast<int>(draw.between(0, 16)), any(), any(), any(), any(), any()};
    }
    TensorList feeds;
    Program program;
    Pool eager = leaves([](const Tensor& tensor, const std::string&) { return tensor; });
    Pool symbols = leaves([&](const Tensor& tensor, const std::string& name) {
      feeds.push_back(tensor);
      return program.input(name, tensor.dtype(), {kSize});
    });
    for (const Choice& choice : choices) {
      eager.floats.push_back(make(choice, eager));
      symbols.floats.push_back(make(choice, symbols));
    }
    TensorList expected;
    const auto deliver = [&](size_t i) {
      program.output(numbered("y", expected.size()), symbols.floats[i]);
      expected.push_back(eager.floats[i]);
    };
    deliver(symbols.floats.size() - 1);
    for (size_t i = 3; i + 1 < symbols.floats.size(); ++i) {
      if (draw.chance(15)) deliver(i);
    }
    const CompiledProgram compiled(program);
    for (int run = 0; run < 2; ++run) {
      const TensorList got = compiled(feeds);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(same_bits(got[i], expected[i]))
            << "output " << i << ", replay: SOW_TEST_SEED=" << seed << " SOW_TEST_PROBLEMS=1\n"
            << program.to_string() << compiled.explain();
      }
    }
  }
}

}  // namespace
}  // namespace sow::test
