// SPDX-License-Identifier: Apache-2.0
// The engine: what is recorded, in-place rules and their messages, order of sums, depth, threads.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/defs.h"
#include "sow/sow.h"
#include "test_threads.h"

namespace sow {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Tensor leaf(std::initializer_list<float> values) {
  return Tensor::of<float>(values).set_requires_grad();
}

TEST(Engine, leaves_gather_gradients) {
  const Tensor w = leaf({1, 2, 3});
  EXPECT_TRUE(w.requires_grad());
  EXPECT_TRUE(w.is_leaf());
  EXPECT_FALSE(w.grad().defined());
  const Tensor loss = sum(w * w);
  EXPECT_FALSE(loss.is_leaf());
  loss.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 4, 6}));
  loss.backward();  // the graph is still there, and gradients add up
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{4, 8, 12}));
  w.zero_grad();
  EXPECT_FALSE(w.grad().defined());
  w.set_grad(Tensor::of({1.0f, 1.0f, 1.0f}));
  (w * 2).backward(Tensor::of({1.0f, 10.0f, 100.0f}));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{3, 21, 201}));
}

TEST(Engine, gradients_of_leaves_share_no_memory) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  (a + b).backward(Tensor::of({1.0f, 1.0f}));
  a.grad().fill_(7);
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Engine, grad_reaches_inputs_of_any_kind) {
  const Tensor w = leaf({1, 2, 3});
  const Tensor y = w * w;
  const TensorList found = grad({sum(y * w)}, {w, y});
  EXPECT_EQ(found[0].to_vector<float>(), (std::vector<float>{3, 12, 27}));
  EXPECT_EQ(found[1].to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(w.grad().defined());
  const Tensor other = leaf({5});
  EXPECT_EQ(grad({sum(y)}, {other})[0].to_vector<float>(), (std::vector<float>{0}));
  const TensorList both = grad({sum(y), y}, {w}, {Tensor(), Tensor::of({1.0f, 0.0f, 0.0f})});
  EXPECT_EQ(both[0].to_vector<float>(), (std::vector<float>{4, 4, 6}));
}

TEST(Engine, third_derivatives_come_by_themselves) {
  const Tensor x = Tensor::of({2.0}).set_requires_grad();
  Tensor y = pow(x, 4);
  for (const double expected : {32.0, 48.0, 48.0, 24.0}) {
    y = grad({y}, {x}, {}, true)[0];
    EXPECT_EQ(y.item<double>(), expected);
  }
}

TEST(Engine, records_only_what_it_must) {
  const Tensor w = leaf({1, 2});
  {
    const NoGrad guard;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE((w * 2).requires_grad());
    const EnableGrad inner;
    EXPECT_TRUE((w * 2).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_FALSE((w.detach() * 2).requires_grad());
  EXPECT_FALSE(eq(w, w).requires_grad());
  EXPECT_FALSE(nonzero(w).requires_grad());
  EXPECT_TRUE(w.detach().same_storage(w));
  w.set_requires_grad(false);
  EXPECT_FALSE((w * 2).requires_grad());
}

TEST(Engine, every_operation_has_a_rule_or_is_constant) {
  for (const detail::OpDef* op : detail::all_ops()) {
    const std::string name = op->name;
    const bool constant = name == "nonzero" || name == "eq" || name == "ne" || name == "lt" ||
                          name == "le" || name == "gt" || name == "ge" || name == "same" ||
                          name == "full_like" || name == "positions_like" ||
                          name == "segment_ids" || name == "bin_index" ||
                          name.rfind("bitwise_", 0) == 0;
    EXPECT_EQ(op->gradient == nullptr, constant) << name;
  }
}

// -- in place
// --------------------------------------------------------------------------------------------

TEST(InPlace, a_leaf_is_refused_and_left_alone) {
  const Tensor w = leaf({1, 2});
  EXPECT_EQ(message_of([&] {
              w.masked_fill_(Tensor::of<bool>({true, false}), 0);
            }),
            "masked_fill_: the destination is a leaf that requires a gradient; use masked_fill, or "
            "write into it under NoGrad");
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{1, 2}));
  const NoGrad guard;
  w.masked_fill_(Tensor::of<bool>({true, false}), 0);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0, 2}));
}

TEST(InPlace, a_non_leaf_is_tracked_under_the_same_handle) {
  const Tensor w = leaf({1, 2, 3}), v = leaf({10, 20});
  const Tensor y = w * 2;
  const Tensor z = y.masked_scatter_(Tensor::of<bool>({true, false, true}), v);
  EXPECT_TRUE(z.same_object(y));
  sum(y * y).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{0, 16, 0}));
  EXPECT_EQ(v.grad().to_vector<float>(), (std::vector<float>{20, 40}));
}

TEST(InPlace, a_rule_that_needs_the_old_value_has_it) {
  const Tensor w = leaf({1, 5});
  const Tensor y = w * 1;
  y.scatter_reduce_(0, Tensor::of<int64_t>({1}), Tensor::of({4.0f}), "mul");
  y.scatter_reduce_(0, Tensor::of<int64_t>({0, 1}), Tensor::of({3.0f, 3.0f}), "amax");
  sum(y).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{0, 4}));
}

TEST(InPlace, a_plain_destination_joins_the_graph) {
  const Tensor v = leaf({3, 4});
  const Tensor x = Tensor::zeros({3}, DType::float32);
  x.index_add_(0, Tensor::of<int64_t>({2, 2}), v);
  EXPECT_TRUE(x.requires_grad());
  x.backward(Tensor::of({1.0f, 2.0f, 5.0f}));
  EXPECT_EQ(v.grad().to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(InPlace, a_view_of_a_graph_is_refused_by_its_twin_s_name) {
  const Tensor w = Tensor::of({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2}).set_requires_grad();
  const Tensor y = w * 2;
  const std::string expected =
      "copy_: the destination is a view whose base takes part in the graph; use slice_scatter, "
      "which "
      "returns "
      "a new tensor";
  EXPECT_EQ(message_of([&] { w.select(0, 0).copy_(Tensor::of({0.0f, 0.0f})); }), expected);
  EXPECT_EQ(message_of([&] { y.select(0, 0).copy_(Tensor::of({0.0f, 0.0f})); }), expected);
  const Tensor plain = Tensor::zeros({2, 2}, DType::float32);
  EXPECT_EQ(message_of([&] { plain.select(0, 0).copy_(y.select(0, 0)); }), expected);
  EXPECT_EQ(message_of([&] { y.select(0, 0).scatter_(0, Tensor::of<int64_t>({0}), 1.0f); }),
            "scatter_: the destination is a view whose base takes part in the graph; use scatter, "
            "which returns a new tensor");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
}

TEST(InPlace, a_view_whose_base_moved_on_is_refused) {
  const Tensor w = Tensor::of({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2}).set_requires_grad();
  const Tensor y = w * 2;
  const Tensor row = y.select(0, 0).slice(0, 0, 1);
  y.fill_(3);
  EXPECT_EQ(message_of([&] { sum(row); }),
            "sum: an operand is a view whose base was changed in place since; take the view again");
  EXPECT_EQ(sum(y.select(0, 0)).item<float>(), 6);
}

TEST(InPlace, a_tensor_that_backward_needs_must_not_change) {
  const Tensor w = leaf({1, 2}), x = Tensor::of({3.0f, 4.0f});
  const Tensor y = sum(w * x);
  x.fill_(0);
  EXPECT_EQ(message_of([&] { y.backward(); }),
            "mul: an operand of shape [2], which its gradient needs, was changed in place since");
  const Tensor a = w * 1;
  const Tensor z = sum(div(1, a));
  a.fill_(1);
  EXPECT_EQ(message_of([&] { z.backward(); }),
            "div: an operand of shape [2], which its gradient needs, was changed in place since");
  const Tensor keys = Tensor::of<int64_t>({0, 1});
  const Tensor g = sum(gather(w, 0, keys));
  keys.fill_(0);
  EXPECT_EQ(
      message_of([&] { g.backward(); }),
      "gather: an operand of shape [2], which its gradient needs, was changed in place since");
}

TEST(InPlace, what_backward_does_not_need_may_change) {
  const Tensor w = leaf({1, 2}), x = Tensor::of({3.0f, 4.0f});
  const Tensor y = sum(w + x);
  x.fill_(0);
  y.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 1}));
  const Tensor a = w * x;  // its result is not needed
  a.masked_fill_(Tensor::of<bool>({true, false}), 0);
  w.zero_grad();
  sum(a).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(InPlace, a_value_that_overlaps_its_destination_is_remembered) {
  const Tensor w = leaf({1, 2, 3});
  const Tensor y = w * 1;
  const Tensor head = y.slice(0, 0, 2);
  y.scatter_reduce_(0, Tensor::of<int64_t>({1, 2}), head, "amax");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  y.backward(Tensor::of({1.0f, 10.0f, 100.0f}));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 10, 100}));
}

// -- messages
// ----------------------------------------------------------------------------------------------

TEST(Engine, errors_say_what_is_wrong) {
  const Tensor w = leaf({1, 2});
  EXPECT_EQ(
      message_of([&] { (w * 2).backward(); }),
      "backward: the output has shape [2]; only an output of one element needs no gradient of its "
      "own");
  EXPECT_EQ(
      message_of([&] { (w * 2).backward(Tensor::of({1.0f})); }),
      "backward: the gradient is float32 [1], but the output is float32 [2]; they must be equal");
  EXPECT_EQ(
      message_of([] { Tensor::of({1.0f}).backward(); }),
      "backward: the output takes no part in a graph: nothing it was made of requires a gradient");
  EXPECT_EQ(message_of([&] { grad({sum(w)}, {Tensor::of({1.0f})}); }),
            "grad: an input does not require a gradient");
  EXPECT_EQ(message_of([&] {
              grad({sum(w)}, {w}, {Tensor(), Tensor()});
            }),
            "grad: 1 outputs but 2 grad_outputs; there must be one for each");
  EXPECT_EQ(message_of([] { Tensor::of<int64_t>({1}).set_requires_grad(); }),
            "set_requires_grad: int64 has no gradients; floating and complex types have");
  EXPECT_EQ(message_of([&] { (w * 2).set_requires_grad(false); }),
            "set_requires_grad: the tensor is the result of a recorded operation; use detach()");
  EXPECT_EQ(message_of([&] { (w * 2).set_grad(w); }),
            "set_grad: only a leaf that requires a gradient has one to set");
  EXPECT_EQ(message_of([&] { w.set_grad(Tensor::of({1.0f})); }),
            "set_grad: the gradient is float32 [1], but the tensor is float32 [2]");
}

// -- order, depth, threads
// ---------------------------------------------------------------------------------

TEST(Engine, gradients_are_added_in_reverse_order_of_recording) {
  // Pairwise float32 sums of these three depend on the order.
  const Tensor w = leaf({1});
  const Tensor a = w * 1e8f, b = w * 1.0f, c = w * -1e8f;
  sum(a + (c + b)).backward();
  EXPECT_EQ(w.grad().item<float>(), (-1e8f + 1.0f) + 1e8f);
  const Tensor v = leaf({1});
  const Tensor d = v * 1.0f, e = v * 1e8f, f = v * -1e8f;
  sum(d + (e + f)).backward();
  EXPECT_EQ(v.grad().item<float>(), (-1e8f + 1e8f) + 1.0f);
}

TEST(Engine, deep_graphs_fit_any_stack) {
  const Tensor w = leaf({1});
  Tensor y = w * 1;
  for (int i = 0; i < 200000; ++i) y = y + 1;
  sum(y).backward();
  EXPECT_EQ(w.grad().item<float>(), 1);
  y = Tensor();  // takes the chain down
}

TEST(Engine, threads_have_graphs_of_their_own) {
  const Tensor shared = leaf({2});
  std::vector<float> found(4);
  test::run_in_threads(4, [&](int t) {
    for (int i = 0; i < 100; ++i) {
      const Tensor w = Tensor::of({static_cast<float>(t)}).set_requires_grad();
      sum(w * w * shared).backward();
      found[t] = w.grad().item<float>();
    }
  });
  for (int t = 0; t < 4; ++t) EXPECT_EQ(found[t], 4.0f * static_cast<float>(t));
  EXPECT_EQ(shared.grad().item<float>(), 100 * (0 + 1 + 4 + 9));
}

TEST(Vjp, gives_the_result_and_the_way_back) {
  const Tensor x = Tensor::of({1.0, 2.0, 3.0}), index = Tensor::of<int64_t>({0, 2, 0});
  const Tensor src = Tensor::of({5.0, 6.0, 7.0});
  const Vjp out =
      vjp([](const TensorList& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {x, index, src});
  EXPECT_EQ(out.result.to_vector<double>(), (std::vector<double>{13, 2, 9}));
  EXPECT_FALSE(out.result.requires_grad());
  for (int twice = 0; twice < 2; ++twice) {
    const TensorList gradients = out.pullback(Tensor::of({1.0, 10.0, 100.0}));
    EXPECT_EQ(gradients[0].to_vector<double>(), (std::vector<double>{1, 10, 100}));
    EXPECT_FALSE(gradients[1].defined());
    EXPECT_EQ(gradients[2].to_vector<double>(), (std::vector<double>{1, 100, 1}));
  }
  EXPECT_FALSE(x.requires_grad());
  const Vjp constant = vjp([](const TensorList& t) { return t[1]; }, {x, src});
  EXPECT_EQ(constant.pullback(src)[0].to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace sow
