// SPDX-License-Identifier: Apache-2.0
// The cases: a table of calls.
#include "program/cases.h"

#include <cstring>

namespace sow::test {

namespace {

// splitmix64, so that the data are the same everywhere.
uint64_t draw(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t count_of(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

Tensor values(const Dims& shape, DType dtype, int64_t seed) {
  auto state = static_cast<uint64_t>(seed);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count_of(shape); ++i) {
    const double magnitude = 0.25 + static_cast<double>(draw(state) % 1000) / 333;
    numbers.push_back(draw(state) % 2 != 0 ? magnitude : -magnitude);
  }
  if (is_floating(dtype)) return to(Tensor::of(numbers, shape), dtype);
  std::vector<int64_t> whole;
  for (const double number : numbers) whole.push_back(static_cast<int64_t>(number * 40));
  return to(Tensor::of(whole, shape), dtype);
}

Tensor keys(const Dims& shape, int64_t size, DType dtype, int64_t seed) {
  uint64_t state = static_cast<uint64_t>(seed) + 77;
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count_of(shape); ++i) {
    numbers.push_back(static_cast<int64_t>(draw(state) % static_cast<uint64_t>(2 * size)) - size);
  }
  return to(Tensor::of(numbers, shape), dtype);
}

Tensor mask(const Dims& shape, int64_t seed) {
  uint64_t state = static_cast<uint64_t>(seed) + 191;
  std::vector<bool> bits;
  for (int64_t i = 0; i < count_of(shape); ++i) bits.push_back(draw(state) % 2 != 0);
  return Tensor::of(bits, shape);
}

namespace {

const char* const kReductions[] = {"assign", "add", "mul", "amax", "amin", "mean"};

void add_along_axis(std::vector<Case>& out) {
  for (const char* reduce : kReductions) {
    for (const bool self : {true, false}) {
      const std::string tail = std::string("_") + reduce + (self ? "" : "_without_self");
      for (const DType dtype : {DType::float32, DType::bfloat16, DType::int32}) {
        const TensorList inputs = {values({4, 5}, dtype), keys({4, 7}, 5),
                                   values({4, 7}, dtype, 2)};
        const std::string name = tail + "_" + name_of(dtype);
        out.push_back({"put_along_axis" + name, inputs, [=](const TensorList& t) {
                         return put_along_axis(t[0], t[1], t[2], 1, reduce, self);
                       }});
        out.push_back({"scatter_reduce" + name, inputs, [=](const TensorList& t) {
                         return scatter_reduce(t[0], -1, t[1], t[2], reduce, self);
                       }});
        out.push_back(
            {"index_reduce" + name,
             {values({4, 5}, dtype), keys({6}, 4, DType::int32), values({6, 5}, dtype, 3)},
             [=](const TensorList& t) { return index_reduce(t[0], 0, t[1], t[2], reduce, self); }});
      }
    }
    out.push_back({std::string("scatter_") + reduce,
                   {values({6, 3}), keys({4, 3}, 6), values({5, 3})},
                   [=](const TensorList& t) { return scatter(t[0], 0, t[1], t[2], reduce); }});
    out.push_back({std::string("scatter_scalar_") + reduce,
                   {values({6, 3}), keys({4, 3}, 6)},
                   [=](const TensorList& t) { return scatter(t[0], 0, t[1], 1.5, reduce); }});
  }
  const TensorList one = {values({8}), keys({20}, 8), values({20})};
  out.push_back({"scatter_addition", one,
                 [](const TensorList& t) { return scatter_add(t[0], 0, t[1], t[2]); }});
  out.push_back({"scatter_addition_in_place", one,
                 [](const TensorList& t) { return t[0].clone().scatter_add_(0, t[1], t[2]); }});
  out.push_back(
      {"scatter_addition_drop",
       {values({4}), keys({20}, 8), values({20})},
       [](const TensorList& t) { return scatter_add(t[0], 0, Index(t[1], Bounds::drop), t[2]); }});
  out.push_back({"take_along_axis", {values({4, 5}), keys({4, 2}, 5)}, [](const TensorList& t) {
                   return take_along_axis(t[0], t[1], 1);
                 }});
  out.push_back({"gather", {values({4, 5}), keys({3, 2}, 4)}, [](const TensorList& t) {
                   return gather(t[0], 0, t[1]);
                 }});
}

void add_rows(std::vector<Case>& out) {
  const TensorList rows = {values({5, 4}), keys({7}, 5), values({7, 4})};
  out.push_back(
      {"index_add", rows, [](const TensorList& t) { return index_add(t[0], 0, t[1], t[2]); }});
  out.push_back(
      {"index_copy", rows, [](const TensorList& t) { return index_copy(t[0], 0, t[1], t[2]); }});
  out.push_back({"index_fill", {values({5, 4}), keys({3}, 5)}, [](const TensorList& t) {
                   return index_fill(t[0], 0, t[1], -2);
                 }});
  out.push_back({"index_select", {values({5, 4}), keys({9}, 5)}, [](const TensorList& t) {
                   return index_select(t[0], 0, t[1]);
                 }});
}

void add_masks(std::vector<Case>& out) {
  const TensorList inputs = {values({3, 4}), mask({3, 4}), values({12})};
  out.push_back({"masked_scatter", inputs,
                 [](const TensorList& t) { return masked_scatter(t[0], t[1], t[2]); }});
  out.push_back({"masked_scatter_in_place", inputs,
                 [](const TensorList& t) { return masked_scatter_(t[0].clone(), t[1], t[2]); }});
  out.push_back({"masked_scatter_broadcast",
                 {values({4}), mask({3, 4}), values({12})},
                 [](const TensorList& t) { return masked_scatter(t[0], t[1], t[2]); }});
  out.push_back({"masked_fill", {values({3, 4}), mask({3, 4})}, [](const TensorList& t) {
                   return masked_fill(t[0], t[1], 0.5);
                 }});
  out.push_back({"masked_fill_tensor",
                 {values({3, 4}), mask({3, 4}), values({})},
                 [](const TensorList& t) { return masked_fill(t[0], t[1], t[2]); }});
  out.push_back({"masked_select", {values({3, 4}), mask({3, 4})}, [](const TensorList& t) {
                   return masked_select(t[0], t[1]);
                 }});
  out.push_back({"nonzero", {values({3, 4}, DType::int32)}, [](const TensorList& t) {
                   return nonzero(t[0]);
                 }});
  out.push_back({"nonzero_then_gather_nd", {mask({3, 4}), values({3, 4})}, [](const TensorList& t) {
                   return mul(gather_nd(t[1], nonzero(t[0])), 2.0);
                 }});
}

void add_nd(std::vector<Case>& out) {
  const TensorList nd = {values({4, 5, 2}), keys({6, 2}, 4), values({6, 2})};
  const auto add = [&](const char* name, auto function) {
    out.push_back({name, nd, [=](const TensorList& t) { return function(t[0], t[1], t[2]); }});
  };
  using Nd = Tensor (*)(const Tensor&, const Index&, const Source&);
  add("tensor_scatter_nd_update", Nd(tensor_scatter_nd_update));
  add("tensor_scatter_nd_add", Nd(tensor_scatter_nd_add));
  add("tensor_scatter_nd_sub", Nd(tensor_scatter_nd_sub));
  add("tensor_scatter_nd_max", Nd(tensor_scatter_nd_max));
  add("tensor_scatter_nd_min", Nd(tensor_scatter_nd_min));
  add("tensor_scatter_nd_mul", Nd(tensor_scatter_nd_mul));
  out.push_back({"scatter_nd", {keys({6, 2}, 4), values({6})}, [](const TensorList& t) {
                   return scatter_nd(t[0], t[1], {4, 4});
                 }});
  out.push_back({"gather_nd", {values({4, 5, 2}), keys({6, 2}, 4)}, [](const TensorList& t) {
                   return gather_nd(t[0], t[1]);
                 }});
  out.push_back({"gather_nd_in_batches",
                 {values({3, 4, 5, 2}), keys({3, 4, 6, 1}, 5)},
                 [](const TensorList& t) { return gather_nd(t[0], t[1], 2); }});
  out.push_back(
      {"index_get", {values({4, 5, 2}), keys({6}, 4), keys({3, 1}, 5)}, [](const TensorList& t) {
         return index_get(t[0], {t[1], t[2]});
       }});
  out.push_back({"index_get_mask", {values({4, 5, 2}), mask({4, 5})}, [](const TensorList& t) {
                   return index_get(t[0], {t[1]});
                 }});
  out.push_back({"index_put",
                 {values({4, 5}), keys({6}, 4), keys({6}, 5), values({6})},
                 [](const TensorList& t) {
                   return index_put(t[0], {t[1], t[2]}, t[3]);
                 }});
  out.push_back({"index_put_accumulate",
                 {values({4, 5}), keys({6}, 4), values({6, 5})},
                 [](const TensorList& t) { return index_put(t[0], {t[1]}, t[2], true); }});
  out.push_back({"index_put_mask_scalar", {values({4, 5}), mask({4, 5})}, [](const TensorList& t) {
                   return index_put(t[0], {t[1]}, 3);
                 }});
  out.push_back({"index_put_mask_tensor",
                 {values({4, 5}), mask({4}), values({1, 5})},
                 [](const TensorList& t) { return index_put(t[0], {t[1]}, t[2]); }});
  out.push_back({"index_put_mask_accumulate",
                 {values({4, 5}), mask({4, 5}), values({})},
                 [](const TensorList& t) { return index_put(t[0], {t[1]}, t[2], true); }});
}

void add_regular(std::vector<Case>& out) {
  out.push_back({"diagonal_scatter", {values({4, 5}), values({4})}, [](const TensorList& t) {
                   return diagonal_scatter(t[0], t[1], 1);
                 }});
  out.push_back({"select_scatter", {values({4, 5}), values({4})}, [](const TensorList& t) {
                   return select_scatter(t[0], t[1], 1, -2);
                 }});
  out.push_back({"slice_scatter", {values({4, 5}), values({2, 5})}, [](const TensorList& t) {
                   return slice_scatter(t[0], t[1], 0, 1, 4, 2);
                 }});
  out.push_back(
      {"slice_scatter_transposed", {values({5, 4}), values({2, 5})}, [](const TensorList& t) {
         return slice_scatter(transpose(t[0], 0, 1), t[1], 0, 1, 4, 2);
       }});
  out.push_back({"fill_diagonal", {values({7, 3})}, [](const TensorList& t) {
                   return fill_diagonal(t[0], 9, true);
                 }});
  const TensorList x = {values({4, 6})};
  const auto add = [&](const char* name, std::function<Tensor(const Tensor&)> function) {
    out.push_back({name, x, [=](const TensorList& t) { return function(t[0]); }});
  };
  add("diagonal", [](const Tensor& t) { return diagonal(t, -1); });
  add("select", [](const Tensor& t) { return select(t, 0, 2); });
  add("slice", [](const Tensor& t) { return slice(t, 1, 1, 6, 2); });
  add("broadcast_to", [](const Tensor& t) { return broadcast_to(t, {2, 4, 6}); });
  add("unsqueeze", [](const Tensor& t) { return unsqueeze(t, 1); });
  add("take_along_no_axis", [](const Tensor& t) {
    return take_along_axis(t, Tensor::of<int64_t>({7, 0, -1}).to(t.device()), std::nullopt);
  });
  add("put_along_no_axis", [](const Tensor& t) {
    return put_along_axis_(t.clone(), Tensor::of<int64_t>({7, 0, 7}).to(t.device()), 2,
                           std::nullopt);
  });
  add("flatten", [](const Tensor& t) { return flatten(t); });
  add("reshape", [](const Tensor& t) { return reshape(t, {3, -1}); });
  add("reshape_that_copies", [](const Tensor& t) { return reshape(transpose(t, 0, 1), {8, 3}); });
  add("transpose", [](const Tensor& t) { return transpose(t, 0, 1); });
  add("permute", [](const Tensor& t) { return t.permute({1, 0}); });
  add("flip", [](const Tensor& t) { return t.flip(1); });
  add("fill", [](const Tensor& t) { return t.clone().fill_(4); });
  add("the_input_itself", [](const Tensor& t) { return t; });
}

void add_elementwise(std::vector<Case>& out) {
  const TensorList two = {values({4, 6}), values({6})};
  using Binary = Tensor (*)(const Source&, const Source&);
  const auto add = [&](const char* name, Binary function) {
    out.push_back({name, two, [=](const TensorList& t) { return function(t[0], t[1]); }});
    out.push_back({std::string(name) + "_scalar", {two[0]}, [=](const TensorList& t) {
                     return function(2, t[0]);
                   }});
  };
  add("add", sow::add);
  add("sub", sub);
  add("mul", mul);
  add("div", div);
  add("eq", eq);
  add("ne", ne);
  add("lt", lt);
  add("le", le);
  add("gt", gt);
  add("ge", ge);
  add("remainder", remainder);
  const TensorList whole = {values({4, 6}, DType::int32), values({6}, DType::int32)};
  const auto add_whole = [&](const char* name, Binary function) {
    out.push_back({name, whole, [=](const TensorList& t) { return function(t[0], t[1]); }});
  };
  add_whole("remainder_of_integers", remainder);
  add_whole("bitwise_and", bitwise_and);
  add_whole("bitwise_or", bitwise_or);
  add_whole("bitwise_xor", bitwise_xor);
  out.push_back({"bitwise_not", whole, [](const TensorList& t) { return bitwise_not(t[0]); }});
  out.push_back({"abs", two, [](const TensorList& t) { return sow::abs(t[0]); }});
  out.push_back({"exp", two, [](const TensorList& t) { return sow::exp(t[0]); }});
  out.push_back({"log", two, [](const TensorList& t) { return sow::log(sow::abs(t[0])); }});
  out.push_back({"where", {mask({4, 6}), values({4, 6}), values({6})}, [](const TensorList& t) {
                   return where(t[0], t[1], t[2]);
                 }});
  out.push_back({"neg", two, [](const TensorList& t) { return neg(t[0]); }});
  out.push_back({"conj",
                 {Tensor::of(std::vector<std::complex<float>>{{1, 2}, {-3, 4}}, {2})},
                 [](const TensorList& t) { return conj(t[0]); }});
  out.push_back({"pow", two, [](const TensorList& t) { return pow(t[0], 3); }});
  out.push_back({"to", two, [](const TensorList& t) { return to(t[0], DType::float16); }});
  out.push_back({"sum", two, [](const TensorList& t) { return sum(t[0], {1}); }});
  out.push_back({"sum_all", two, [](const TensorList& t) { return sum(t[0]); }});
  out.push_back({"mean", two, [](const TensorList& t) { return mean(t[0], {0}, true); }});
  out.push_back({"copy", two, [](const TensorList& t) { return t[0].clone().copy_(t[1]); }});
}

void add_groups(std::vector<Case>& out) {
  const TensorList slices = {values({7, 3}), keys({7}, 4)};
  const TensorList elements = {values({7, 3}), keys({7, 3}, 4)};
  for (const char* reduce : {"sum", "prod", "max", "min", "mean", "count", "any", "all", "var",
                             "std", "logsumexp", "first", "last", "argmax", "argmin"}) {
    const auto call = [=](const TensorList& t) { return group_reduce(t[0], t[1], reduce, 0, 4); };
    out.push_back({std::string("group_reduce_") + reduce, slices, call});
    out.push_back({std::string("group_reduce_each_") + reduce, elements, call});
  }
  out.push_back({"group_softmax", slices,
                 [](const TensorList& t) { return group_softmax(t[0], t[1], 0, 4); }});
  out.push_back({"group_log_softmax", elements, [](const TensorList& t) {
                   return group_log_softmax(t[0], Index(t[1], Bounds::drop), 0, 3);
                 }});
  const TensorList segments = {values({7, 3}), Tensor::of<int64_t>({0, 2, 2, 6}, {4})};
  for (const char* reduce : {"sum", "max", "std", "first", "argmin"}) {
    out.push_back({std::string("segment_reduce_") + reduce, segments,
                   [=](const TensorList& t) { return segment_reduce(t[0], t[1], reduce); }});
  }
  out.push_back({"gather_csr",
                 {values({2, 3}), Tensor::of<int32_t>({0, 2, 5, 5}, {4})},
                 [](const TensorList& t) { return gather_csr(t[0], t[1], 1, 6); }});
  out.push_back({"segment_cumsum", segments,
                 [](const TensorList& t) { return segment_cumsum(t[0], t[1], 0, true); }});
  const Tensor positive = Tensor::of<int64_t>({0, 3, 1, 3, 0}, {5});
  out.push_back(
      {"bincount_integers", {positive}, [](const TensorList& t) { return bincount(t[0], {}, 4); }});
  out.push_back({"bincount_weights", {positive, values({5})}, [](const TensorList& t) {
                   return bincount(t[0], t[1], 4);
                 }});
  out.push_back({"bin_index",
                 {values({4, 6}), Tensor::of<double>({-1, 0, 0.5, 2}, {4})},
                 [](const TensorList& t) { return bin_index(t[0], t[1]); }});
  const TensorList edges = {values({4, 3}), values({9, 3}, DType::float32, 2), keys({9}, 4),
                            keys({9}, 5, DType::int64, 3)};
  for (const char* reduce : {"sum", "mean", "max", "min"}) {
    out.push_back({std::string("send_u_recv_") + reduce,
                   {edges[0], edges[2], edges[3]},
                   [=](const TensorList& t) { return send_u_recv(t[0], t[1], t[2], reduce, 5); }});
    out.push_back({std::string("send_ue_recv_") + reduce, edges, [=](const TensorList& t) {
                     return send_ue_recv(t[0], t[1], t[2], t[3], "mul", reduce, 5);
                   }});
  }
  out.push_back({"send_uv",
                 {edges[0], values({5, 3}), edges[2], edges[3]},
                 [](const TensorList& t) { return send_uv(t[0], t[1], t[2], t[3], "sub"); }});
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> out;
  add_along_axis(out);
  add_rows(out);
  add_masks(out);
  add_nd(out);
  add_regular(out);
  add_elementwise(out);
  add_groups(out);
  return out;
}

Program program_of(const Case& one, bool known) {
  Program program;
  TensorList symbols;
  for (const Tensor& input : one.inputs) {
    std::vector<Extent> shape;
    for (const int64_t extent : input.shape()) shape.push_back(known ? extent : int64_t{-1});
    std::string name = "x";
    name += std::to_string(symbols.size());
    symbols.push_back(program.input(name, input.dtype(), shape));
  }
  program.output("y", one.call(symbols));
  return program;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data(), y.data(), x.nbytes()) == 0;
}

}  // namespace sow::test
