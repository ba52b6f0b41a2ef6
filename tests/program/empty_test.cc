// SPDX-License-Identifier: Apache-2.0
// Programs against eager calls over empty shapes, every bounds policy and every form of scatter and
// gather: the same bits, or the same error.
#include <gtest/gtest.h>

#include <cstring>

#include "program/cases.h"

namespace sow::test {
namespace {

// A call of a destination, an index and a source; `axis` is the axis that is indexed.
struct Form {
  std::string name;
  enum class Shape : uint8_t { along, rows, coordinates, none } shape;
  std::function<Tensor(const Tensor& x, const Index& i, const Tensor& s, int64_t axis)> call;
};

using Shape = Form::Shape;

void add_along(std::vector<Form>& out) {
  for (const char* reduce : {"assign", "add", "mul", "amax", "mean"}) {
    const std::string tail = std::string("_") + reduce;
    out.push_back({"put_along_axis" + tail, Shape::along, [=](auto& x, auto& i, auto& s, auto a) {
                     return put_along_axis(x, i, s, a, reduce);
                   }});
    out.push_back({"scatter_with" + tail, Shape::along,
                   [=](auto& x, auto& i, auto& s, auto a) { return scatter(x, a, i, s, reduce); }});
    out.push_back({"scatter_reduce" + tail, Shape::along, [=](auto& x, auto& i, auto& s, auto a) {
                     return scatter_reduce(x, a, i, s, reduce, false);
                   }});
    out.push_back({"index_reduce" + tail, Shape::rows, [=](auto& x, auto& i, auto& s, auto a) {
                     return index_reduce(x, a, i, s, reduce);
                   }});
  }
  out.push_back({"scatter_scalar", Shape::along,
                 [](auto& x, auto& i, auto&, auto a) { return scatter(x, a, i, 2.5); }});
  out.push_back({"scatter_add", Shape::along,
                 [](auto& x, auto& i, auto& s, auto a) { return scatter_add(x, a, i, s); }});
  out.push_back({"scatter_add_in_place", Shape::along, [](auto& x, auto& i, auto& s, auto a) {
                   return x.clone().scatter_add_(a, i, s);
                 }});
  out.push_back({"take_along_axis", Shape::along,
                 [](auto& x, auto& i, auto&, auto a) { return take_along_axis(x, i, a); }});
  out.push_back(
      {"gather", Shape::along, [](auto& x, auto& i, auto&, auto a) { return gather(x, a, i); }});
}

void add_rows(std::vector<Form>& out) {
  out.push_back({"index_add", Shape::rows,
                 [](auto& x, auto& i, auto& s, auto a) { return index_add(x, a, i, s); }});
  out.push_back({"index_copy", Shape::rows,
                 [](auto& x, auto& i, auto& s, auto a) { return index_copy(x, a, i, s); }});
  out.push_back({"index_copy_in_place", Shape::rows,
                 [](auto& x, auto& i, auto& s, auto a) { return x.clone().index_copy_(a, i, s); }});
  out.push_back({"index_fill", Shape::rows,
                 [](auto& x, auto& i, auto&, auto a) { return index_fill(x, a, i, -1.5); }});
  out.push_back({"index_select", Shape::rows,
                 [](auto& x, auto& i, auto&, auto a) { return index_select(x, a, i); }});
  // A gather that feeds a scatter: one step of both, where that is quicker.
  out.push_back({"index_select_add", Shape::rows, [](auto& x, auto& i, auto&, auto a) {
                   return index_add(x, a, i, index_select(x, a, i));
                 }});
}

void add_coordinates(std::vector<Form>& out) {
  for (const bool accumulate : {false, true}) {
    out.push_back(
        {accumulate ? "index_put_add" : "index_put", Shape::none,
         [=](auto& x, auto& i, auto& s, auto) { return index_put(x, {i}, s, accumulate); }});
  }
  out.push_back({"scatter_nd", Shape::coordinates, [](auto& x, auto& i, auto& s, auto) {
                   return add(x, scatter_nd(i, s, x.shape()));
                 }});
  out.push_back({"gather_nd", Shape::coordinates,
                 [](auto& x, auto& i, auto&, auto) { return gather_nd(x, i); }});
  const auto nd = [&](const char* name, auto function) {
    out.push_back({name, Shape::coordinates,
                   [=](auto& x, auto& i, auto& s, auto) { return function(x, i, s); }});
  };
  nd("tensor_scatter_nd_update", tensor_scatter_nd_update);
  nd("tensor_scatter_nd_add", tensor_scatter_nd_add);
  nd("tensor_scatter_nd_sub", tensor_scatter_nd_sub);
  nd("tensor_scatter_nd_max", tensor_scatter_nd_max);
  nd("tensor_scatter_nd_min", tensor_scatter_nd_min);
  nd("tensor_scatter_nd_mul", tensor_scatter_nd_mul);
}

std::vector<Form> all_forms() {
  std::vector<Form> out;
  add_along(out);
  add_rows(out);
  add_coordinates(out);
  return out;
}

// A result as text, or the error.
std::string outcome_of(const std::function<TensorList()>& f) {
  try {
    std::string out;
    for (const Tensor& tensor : f()) {
      const Tensor dense = tensor.contiguous();
      out += to_string(dense.shape()) + ":";
      if (dense.numel() != 0) out.append(static_cast<const char*>(dense.data()), dense.nbytes());
    }
    return out;
  } catch (const Error& error) {
    return error.what();
  }
}

struct Problem {
  const Form* form;
  Tensor x, keys, source;
  int64_t axis;
  Bounds bounds;

  Tensor call(const Tensor& x_now, const Tensor& keys_now, const Tensor& source_now) const {
    return form->call(x_now, Index(keys_now, bounds), source_now, axis);
  }
};

enum class Way : uint8_t { known, plain, unknown, constant };

Program build(const Problem& problem, Way way, bool gradients) {
  const auto extents = [&](const Tensor& tensor, bool keep) {
    std::vector<Extent> shape;
    for (const int64_t extent : tensor.shape()) {
      shape.emplace_back(way == Way::unknown && !keep ? -1 : extent);
    }
    return shape;
  };
  const bool nd = problem.form->shape == Shape::coordinates;
  Program program;
  const Tensor x = program.input("x", DType::float32, extents(problem.x, nd));
  const Tensor keys = way == Way::constant
                          ? program.constant(problem.keys)
                          : program.input("keys", DType::int64, extents(problem.keys, nd));
  const Tensor source = program.input("source", DType::float32, extents(problem.source, false));
  const Tensor y = problem.call(x, keys, source);
  program.output("y", y);
  if (gradients) {
    const TensorList grads = program.gradients({sum(mul(y, y))}, {x, source});
    program.output("x_grad", grads[0]);
    program.output("source_grad", grads[1]);
  }
  return program;
}

TensorList run_eager(const Problem& problem, bool gradients) {
  if (!gradients) return {problem.call(problem.x, problem.keys, problem.source)};
  const Tensor x = problem.x.clone().set_requires_grad();
  const Tensor source = problem.source.clone().set_requires_grad();
  const Tensor y = problem.call(x, problem.keys, source);
  const Tensor loss = sum(mul(y, y));
  loss.backward();
  const auto grad_of = [](const Tensor& tensor) {
    return tensor.grad().defined() ? tensor.grad() : Tensor::zeros(tensor.shape(), tensor.dtype());
  };
  return {y.detach(), grad_of(x), grad_of(source)};
}

TensorList run_program(const Problem& problem, Way way, bool gradients) {
  CompileOptions options;
  options.optimize = way != Way::plain;
  const CompiledProgram compiled(build(problem, way, gradients), options);
  TensorList feeds = {problem.x, problem.keys, problem.source};
  if (way == Way::constant) feeds.erase(feeds.begin() + 1);
  TensorList first = compiled(feeds), second = compiled(feeds);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i], second[i]));
  return first;
}

// The index and the source that a form wants for n keys.
Problem problem_of(const Form& form, const Dims& shape, int64_t axis, int64_t n, Bounds bounds) {
  Dims index = {n}, source = shape;
  if (form.shape == Shape::along) {
    index = shape;
    index[axis] = n;
  } else if (form.shape == Shape::coordinates) {
    index = {n, 1};
  }
  source[axis] = n;
  // Every extent up to 3 has keys that fit, and keys that do not.
  const bool fit = bounds == Bounds::promise || n == 1;
  const int64_t size = std::max<int64_t>(1, fit ? shape[axis] : 4);
  return {&form, values(shape), keys(index, size), values(source, DType::float32, 2), axis, bounds};
}

void compare(const Problem& problem, int64_t& errors) {
  for (const bool gradients : {false, true}) {
    const std::string expected = outcome_of([&] { return run_eager(problem, gradients); });
    errors += expected.find("out of range") != std::string::npos;
    for (const Way way : {Way::known, Way::plain, Way::unknown, Way::constant}) {
      const std::string got = outcome_of([&] { return run_program(problem, way, gradients); });
      EXPECT_EQ(got, expected) << problem.form->name << " x " << to_string(problem.x.shape())
                               << " keys " << problem.keys << " axis " << problem.axis << " bounds "
                               << static_cast<int>(problem.bounds) << " way "
                               << static_cast<int>(way) << " gradients " << gradients;
    }
  }
}

class EmptyShapes : public testing::TestWithParam<Form> {};

TEST_P(EmptyShapes, GiveEagersBitsOrErrors) {
  const Form& form = GetParam();
  const bool any_axis = form.shape == Shape::along || form.shape == Shape::rows;
  int64_t errors = 0;
  for (const Dims& shape : {Dims{0}, {3}, {0, 3}, {3, 0}, {0, 0}, {2, 0, 2}}) {
    for (int64_t axis = 0; axis < (any_axis ? shape.rank() : 1); ++axis) {
      for (const int64_t n : {0, 1, 3}) {
        for (const Bounds bounds : {Bounds::error, Bounds::drop, Bounds::clip, Bounds::promise}) {
          // A promise about an axis without places cannot be kept.
          if (bounds == Bounds::promise && shape[axis] == 0 && n != 0) continue;
          compare(problem_of(form, shape, axis, n, bounds), errors);
        }
      }
    }
  }
  EXPECT_GT(errors, 0);
}

INSTANTIATE_TEST_SUITE_P(Program, EmptyShapes, testing::ValuesIn(all_forms()),
                         [](const auto& info) { return info.param.name; });

// Forms without an index: masks and regular places.
TEST(EmptyShapesWithoutIndex, GiveEagersBits) {
  using Call = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::vector<std::pair<const char*, Call>> calls = {
      {"masked_scatter", [](auto& x, auto& m) { return masked_scatter(x, m, x); }},
      {"masked_fill", [](auto& x, auto& m) { return masked_fill(x, m, 4); }},
      {"masked_select", [](auto& x, auto& m) { return masked_select(x, m); }},
      {"nonzero", [](auto& x, auto&) { return nonzero(x); }},
      {"fill_diagonal", [](auto& x, auto&) { return fill_diagonal(x, 3); }},
      {"diagonal_scatter", [](auto& x, auto&) { return diagonal_scatter(x, diagonal(x)); }},
      {"slice_scatter",
       [](auto& x, auto&) { return slice_scatter(x, slice(x, 0, 0, 1), 0, 0, 1); }},
      {"select_scatter", [](auto& x, auto&) { return select_scatter(x, select(x, 1, 0), 1, 0); }},
      {"index_put_mask", [](auto& x, auto& m) { return index_put(x, {Index(m)}, 2.0); }},
  };
  for (const auto& [name, call] : calls) {
    for (const Dims& shape : {Dims{0, 3}, {3, 0}, {0, 0}, {3, 3}}) {
      const Tensor x = values(shape), m = mask(shape);
      const auto& function = call;
      const std::string expected = outcome_of([&]() -> TensorList { return {function(x, m)}; });
      for (const bool known : {true, false}) {
        const Case one{name, {x, m}, [&](const TensorList& t) { return function(t[0], t[1]); }};
        const std::string got =
            outcome_of([&] { return CompiledProgram(program_of(one, known))(one.inputs); });
        EXPECT_EQ(got, expected) << name << " " << to_string(shape)
                                 << (known ? "" : " of unknown extents");
      }
    }
  }
}

}  // namespace
}  // namespace sow::test
