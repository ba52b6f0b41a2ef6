// SPDX-License-Identifier: Apache-2.0
// Gradients of indexed scatters and gathers against finite differences: every family, reduction,
// shape rule, duplicates, negative indices, strided operands, bounds and zeros.
#include "gradcheck.h"

namespace sow {
namespace {

using testing::check_gradients;
using testing::random_tensor;

constexpr Reduce kAll[] = {Reduce::assign, Reduce::add,  Reduce::mul,
                           Reduce::amax,   Reduce::amin, Reduce::mean};

std::string name(const char* what, Reduce reduce, bool self) {
  return std::string(what) + " " + name_of(reduce) + (self ? "" : " without self");
}

Tensor keys(std::initializer_list<int64_t> values, const Dims& shape) {
  return Tensor::of<int64_t>(values, shape);
}

template <class F>
void for_each_reduction(F&& f) {
  for (const Reduce reduce : kAll) {
    for (const bool self : {true, false}) f(reduce, self);
  }
}

TEST(ScatterGradient, put_along_axis_with_every_broadcast_rule) {
  const Tensor x = random_tensor({3, 4});
  const Tensor index = keys({0, 2, 0, -1, 2, 0}, {3, 2});  // negative keys and duplicates
  const Tensor column = keys({0, -2, 0}, {3, 1}).transpose(0, 1);
  for_each_reduction([&](Reduce reduce, bool self) {
    const auto put = [&](const Tensor& at, int64_t axis, bool broadcast) {
      return [=](const TensorList& t) {
        return put_along_axis(t[0], at, t[1], axis, reduce, self, broadcast);
      };
    };
    const auto what = [&](const char* rule) { return name(rule, reduce, self); };
    check_gradients(put(index, 1, true), {x, random_tensor({3, 2}, DType::float64, 2)},
                    what("same"));
    check_gradients(put(index, -1, true), {x, random_tensor({2}, DType::float64, 2)},
                    what("lower rank"));
    check_gradients(put(index, 1, true), {x, random_tensor({}, DType::float64, 2)},
                    what("0-d values"));
    check_gradients(put(column, 1, true), {x, random_tensor({3, 1}, DType::float64, 2)},
                    what("both expand"));
    check_gradients(put(index, 1, false), {x, random_tensor({4, 3}, DType::float64, 2)},
                    what("larger src"));
    check_gradients(put(keys({1, 2, 1, 1}, {2, 2}), 0, false),
                    {x, random_tensor({3, 3}, DType::float64, 2)}, what("a corner"));
  });
}

TEST(ScatterGradient, scalar_sources) {
  const Tensor x = random_tensor({3, 4});
  const Tensor index = keys({0, 2, 0, -1, 2, 0}, {3, 2});
  for_each_reduction([&](Reduce reduce, bool self) {
    check_gradients([&](auto& t) { return put_along_axis(t[0], index, 0.75, 1, reduce, self); },
                    {x}, name("scalar", reduce, self));
  });
}

TEST(ScatterGradient, scatter_family) {
  const Tensor x = random_tensor({4, 3}).transpose(0, 1);
  const Tensor src = random_tensor({4, 6}, DType::float64, 3).slice(1, 0, 6, 2);  // every second
  const Tensor index = keys({3, 0, 3, 1, -1, 0}, {2, 3}).transpose(0, 1);
  for_each_reduction([&](Reduce reduce, bool self) {
    check_gradients([&](auto& t) { return scatter_reduce(t[0], 1, index, t[1], reduce, self); },
                    {x, src}, name("scatter_reduce", reduce, self));
  });
  for (const Reduce reduce : kAll) {
    check_gradients([&](auto& t) { return scatter(t[0], -1, index, t[1], reduce); }, {x, src},
                    name("scatter", reduce, true));
  }
  check_gradients([&](auto& t) { return scatter_add(t[0], 1, index, t[1]); }, {x, src},
                  "scatter_add");
}

TEST(ScatterGradient, rows) {
  const Tensor x = random_tensor({3, 2, 4});
  const Tensor index = keys({2, -3, 2, 1, 2}, {5}).flip(0);
  const Tensor rows = random_tensor({5, 2, 4}, DType::float64, 4);
  const Tensor columns = random_tensor({3, 2, 5}, DType::float64, 5);
  for_each_reduction([&](Reduce reduce, bool self) {
    const auto call = [&](int64_t axis) {
      return
          [=](const TensorList& t) { return index_reduce(t[0], axis, index, t[1], reduce, self); };
    };
    check_gradients(call(0), {x, rows}, name("index_reduce", reduce, self));
    check_gradients(call(-1), {x, columns}, name("index_reduce on the last axis", reduce, self));
  });
  check_gradients([&](auto& t) { return index_add(t[0], 0, index, t[1]); }, {x, rows}, "index_add");
  check_gradients([&](auto& t) { return index_copy(t[0], 0, index, t[1]); }, {x, rows},
                  "index_copy");
  check_gradients([&](auto& t) { return index_fill(t[0], 0, index, t[1]); }, {x, random_tensor({})},
                  "index_fill");
  check_gradients([&](auto& t) { return index_fill(t[0], 1, keys({1}, {1}), 3.0); }, {x},
                  "index_fill with a scalar");
}

TEST(ScatterGradient, coordinates) {
  const Tensor x = random_tensor({3, 4, 2});
  const Tensor at = keys({0, 1, 2, -1, 0, 1, 2, 3}, {4, 2});
  const Tensor updates = random_tensor({4, 2}, DType::float64, 6);
  const auto check = [&](auto op, const char* what) {
    check_gradients([&](auto& t) { return op(t[0], at, t[1]); }, {x, updates}, what);
  };
  check([](auto&... t) { return tensor_scatter_nd_update(t...); }, "update");
  check([](auto&... t) { return tensor_scatter_nd_add(t...); }, "add");
  check([](auto&... t) { return tensor_scatter_nd_sub(t...); }, "sub");
  check([](auto&... t) { return tensor_scatter_nd_max(t...); }, "max");
  check([](auto&... t) { return tensor_scatter_nd_min(t...); }, "min");
  check([](auto&... t) { return tensor_scatter_nd_mul(t...); }, "mul");
  check_gradients(
      [&](auto& t) {
        return scatter_nd(at, t[0], {3, 4, 2});
      },
      {updates}, "scatter_nd");
}

TEST(ScatterGradient, index_put_by_tensors_and_masks) {
  const Tensor x = random_tensor({3, 4, 2});
  const Tensor rows = keys({0, -1, 0}, {3, 1}), columns = keys({1, 1}, {2});
  const Tensor mask = Tensor::of<bool>(
      {true, false, true, true, false, false, true, false, false, true, false, false}, {3, 4});
  for (const bool accumulate : {false, true}) {
    const std::string how = accumulate ? " accumulates" : "";
    check_gradients(
        [&](auto& t) {
          return index_put(t[0], {rows, columns}, t[1], accumulate);
        },
        {x, random_tensor({3, 2, 2}, DType::float64, 2)}, "index_put" + how);
    check_gradients(
        [&](auto& t) {
          return index_put(t[0], {rows, columns}, t[1], accumulate);
        },
        {x, random_tensor({2}, DType::float64, 2)}, "index_put, value expands" + how);
    check_gradients([&](auto& t) { return index_put(t[0], {mask}, t[1], accumulate); },
                    {x, random_tensor({5, 2}, DType::float64, 2)}, "index_put, mask" + how);
    check_gradients([&](auto& t) { return index_put(t[0], {mask}, t[1], accumulate); },
                    {x, random_tensor({}, DType::float64, 2)}, "index_put, mask, one value" + how);
    check_gradients([&](auto& t) { return index_put(t[0], {mask}, 2.0, accumulate); }, {x},
                    "index_put, mask, scalar" + how);
  }
}

TEST(ScatterGradient, gathers) {
  const Tensor x = random_tensor({3, 4});
  const Tensor index = keys({0, 2, 0, -1, 2, 0}, {3, 2});
  const auto square = [](const Tensor& t) { return mul(t, t); };
  check_gradients([&](auto& t) { return square(take_along_axis(t[0], index, 1)); }, {x}, "take");
  check_gradients(
      [&](auto& t) {
        return square(take_along_axis(t[0], keys({1, 1}, {2, 1}), 0));
      },
      {x}, "take, expanded");
  check_gradients(
      [&](auto& t) {
        return square(gather(t[0], 0, keys({2, 2}, {1, 2})));
      },
      {x}, "gather");
  check_gradients(
      [&](auto& t) {
        return square(index_select(t[0], 1, keys({3, 3, 0}, {3})));
      },
      {x}, "index_select");
  check_gradients(
      [&](auto& t) {
        return square(gather_nd(t[0], keys({1, 1, 1, 1, 2, -1}, {3, 2})));
      },
      {x}, "gather_nd");
}

TEST(ScatterGradient, bounds_are_respected) {
  const Tensor x = random_tensor({4}), src = random_tensor({5}, DType::float64, 2);
  const Tensor bad = keys({0, 9, -9, 0, 2}, {5});
  for (const Bounds bounds : {Bounds::drop, Bounds::clip}) {
    const Index index(bad, bounds);
    for_each_reduction([&](Reduce reduce, bool self) {
      check_gradients([&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], reduce, self); },
                      {x, src}, name("bounds", reduce, self));
    });
    check_gradients([&](auto& t) { return gather(t[0], 0, index); }, {x}, "gather with bounds");
    check_gradients([&](auto& t) { return index_select(t[0], 0, index); }, {x},
                    "index_select with bounds");
    check_gradients(
        [&](auto& t) {
          return tensor_scatter_nd_update(t[0], Index(bad.reshape({5, 1}), bounds), t[1]);
        },
        {x, src}, "nd with bounds");
  }
}

TEST(ScatterGradient, products_with_any_number_of_zeros) {
  // Destination 0 has no zero, 1 has one, 2 has two, 3 has three; the destinations' own are among
  // them.
  const Tensor index = keys({0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3}, {12});
  const Tensor src = Tensor::of({2.0, -3.0, 0.0, 1.5, 2.5, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0, 4.0});
  for (const double own : {0.0, 1.5}) {
    const Tensor x = Tensor::of({1.25, own, own, -0.5, own});
    for (const bool self : {true, false}) {
      check_gradients(
          [&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], Reduce::mul, self); },
          {x, src}, name("zeros", Reduce::mul, self));
    }
  }
  const Tensor wide = random_tensor({2, 3}), zeros = Tensor::of({0.0, 2.0, 0.0}, {3});
  check_gradients(
      [&](auto& t) {
        return put_along_axis(t[0], keys({1, 1, 0, 1, 1, 1}, {2, 3}), t[1], 1, Reduce::mul);
      },
      {wide, zeros}, "expanded zeros");
}

TEST(ScatterGradient, complex_products_sums_and_moves) {
  const DType c = DType::complex128;
  const Tensor x = random_tensor({4}, c), src = random_tensor({5}, c, 2);
  const Tensor index = keys({0, 2, 2, 0, 2}, {5});
  for (const Reduce reduce : {Reduce::assign, Reduce::add, Reduce::mul, Reduce::mean}) {
    for (const bool self : {true, false}) {
      check_gradients([&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], reduce, self); },
                      {x, src}, name("complex", reduce, self));
    }
  }
}

TEST(ScatterGradient, nothing_to_do) {
  const Tensor none = Tensor::empty({0}, DType::int64);
  const Tensor x = random_tensor({3}), src = random_tensor({2}, DType::float64, 2);
  const Tensor empty = Tensor::empty({0, 2}, DType::float64);
  for_each_reduction([&](Reduce reduce, bool self) {
    check_gradients([&](auto& t) { return scatter_reduce(t[0], 0, none, t[1], reduce, self); },
                    {x, src}, name("empty index", reduce, self));
    check_gradients([&](auto& t) { return index_reduce(t[0], 0, none, t[1], reduce, self); },
                    {empty, empty}, name("empty tensors", reduce, self));
  });
  check_gradients([&](auto& t) { return scatter(t[0], 0, keys({0}, {}), t[1]); },
                  {random_tensor({}), random_tensor({}, DType::float64, 2)}, "0-d");
  check_gradients([&](auto& t) { return index_add(t[0], 0, keys({0}, {}), t[1]); },
                  {random_tensor({}), random_tensor({1}, DType::float64, 2)}, "0-d rows");
}

}  // namespace
}  // namespace sow
