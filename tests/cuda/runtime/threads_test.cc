// SPDX-License-Identifier: Apache-2.0
// Every strategy from eight threads at once, on streams of their own and with calls whose sizes
// differ: what one launch needs (shared memory above all) must not be taken away by another.
#include <cstring>
#include <map>

#include "cuda/device_problem.h"
#include "cuda/own_streams.h"
#include "sow/sow.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

constexpr int kThreads = 8;

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Tensor keys_below(int64_t places, const Dims& shape) {
  Tensor keys = Tensor::empty(shape, DType::int64);
  for (int64_t i = 0; i < keys.numel(); ++i)
    static_cast<int64_t*>(keys.data())[i] =
        static_cast<int64_t>(mixed(static_cast<uint64_t>(i) + 1) % static_cast<uint64_t>(places));
  return keys;
}

Tensor numbers(const Dims& shape, DType dtype = DType::float32) {
  if (dtype == DType::int32) {  // no cast leads from floats to integers
    Tensor whole = Tensor::empty(shape, dtype);
    for (int64_t i = 0; i < whole.numel(); ++i)
      static_cast<int32_t*>(whole.data())[i] =
          static_cast<int32_t>(mixed(static_cast<uint64_t>(i) * 31 + 7) >> 44) - 524288;
    return whole;
  }
  Tensor out = Tensor::empty(shape, DType::float64);
  for (int64_t i = 0; i < out.numel(); ++i)
    static_cast<double*>(out.data())[i] =
        static_cast<double>(mixed(static_cast<uint64_t>(i) * 31 + 7) >> 44) * 0x1p-10 - 512;
  return to(out, dtype);
}

// A call on arrays of a device, and what it gives on the CPU.
struct Call {
  std::string text;
  TensorList inputs;
  Tensor (*apply)(const TensorList&);
  TensorList on_gpu;
  Tensor expected;
};

Tensor add_elements(const TensorList& in) { return scatter_add(in[0], 0, in[1], in[2]); }
Tensor mean_elements(const TensorList& in) {
  return scatter_reduce(in[0], 0, in[1], in[2], "mean");
}
Tensor max_elements(const TensorList& in) { return scatter_reduce(in[0], 0, in[1], in[2], "amax"); }
Tensor assign_elements(const TensorList& in) { return scatter(in[0], 0, in[1], in[2]); }
Tensor add_along(const TensorList& in) { return put_along_axis(in[0], in[1], in[2], 1, "add"); }
Tensor max_along(const TensorList& in) { return put_along_axis(in[0], in[1], in[2], 1, "amax"); }
Tensor assign_along(const TensorList& in) { return put_along_axis(in[0], in[1], in[2], 1); }
Tensor add_rows(const TensorList& in) { return index_add(in[0], 0, in[1], in[2]); }
Tensor multiply_rows(const TensorList& in) { return index_reduce(in[0], 0, in[1], in[2], "mul"); }
Tensor copy_rows(const TensorList& in) { return index_copy(in[0], 0, in[1], in[2]); }
Tensor select_rows(const TensorList& in) { return index_select(in[0], 0, in[1]); }
Tensor transposed(const TensorList& in) { return transpose(in[0], 0, 1).contiguous(); }
Tensor fill_elements(const TensorList& in) { return masked_fill(in[0], in[1], 3.0); }
Tensor scatter_masked(const TensorList& in) { return masked_scatter(in[0], in[1], in[2]); }

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  const auto add = [&](const std::string& text, Tensor (*apply)(const TensorList&),
                       TensorList inputs) {
    calls.push_back({text, std::move(inputs), apply, {}, {}});
  };
  for (const int64_t places : {1, 7, 100, 700, 1500, 2500, 4000, 60000}) {
    const Tensor keys = keys_below(places, {30000});
    const std::string to_places = " to " + std::to_string(places);
    add("sums" + to_places, add_elements, {numbers({places}), keys, numbers({30000})});
    add("assignment" + to_places, assign_elements, {numbers({places}), keys, numbers({30000})});
    add("means" + to_places, mean_elements, {numbers({places}), keys, numbers({30000})});
    add("integer maxima" + to_places, max_elements,
        {numbers({places}, DType::int32), keys, numbers({30000}, DType::int32)});
  }
  for (const int64_t items : {40, 700, 2048}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      const std::string of = " of " + std::to_string(items) + " " + std::string(name_of(dtype));
      add("sums" + of, add_elements,
          {numbers({300}, dtype), keys_below(300, {items}), numbers({items}, dtype)});
      const TensorList along = {numbers({24, 3000}, dtype), keys_below(3000, {24, items}),
                                numbers({24, items}, dtype)};
      add("sums along an axis" + of, add_along, along);
      add("maxima along an axis" + of, max_along, along);
      add("assignment along an axis" + of, assign_along, along);
    }
    const TensorList rows = {numbers({90, 16}), keys_below(90, {items}), numbers({items, 16})};
    add("sums of rows, " + std::to_string(items), add_rows, rows);
    add("products of rows, " + std::to_string(items), multiply_rows, rows);
    add("copies of rows, " + std::to_string(items), copy_rows, rows);
    add("gather of rows, " + std::to_string(items), select_rows, rows);
  }
  for (const int64_t places : {9000, 70000, 600000})
    add("many rows to " + std::to_string(places), add_rows,
        {numbers({places, 2}), keys_below(places, {530000}), numbers({530000, 2})});
  add("transpose", transposed, {numbers({300, 700})});
  const Tensor mask = gt(numbers({400, 30}), 0.0);
  add("mask of elements", fill_elements, {numbers({400, 30}), mask});
  add("values under a mask", scatter_masked, {numbers({400, 30}), mask, numbers({12000})});
  const Tensor rows = gt(numbers({400, 1}), 0.0);
  add("mask of rows", scatter_masked, {numbers({400, 30}), rows, numbers({12000})});
  for (Call& call : calls) {
    call.expected = call.apply(call.inputs);
    for (const Tensor& input : call.inputs) call.on_gpu.push_back(input.to(kGpu));
  }
  return calls;
}

bool is_equal(const Tensor& found, const Tensor& expected) {
  const Tensor host = found.to({});
  return std::memcmp(host.data(), expected.data(), expected.nbytes()) == 0;
}

TEST_F(Cuda, EveryStrategyFromEightThreadsAtOnce) {
  const std::vector<Call> calls = all_calls();
  for (const std::string& name : detail::cuda_strategies()) {
    std::vector<const Call*> taken;  // the calls that the strategy is for
    {
      const detail::ForceStrategy forced(name.c_str());
      for (const Call& call : calls) {
        const std::string text = explain([&] { call.apply(call.on_gpu); });
        if (text.find(" " + name + ":") != std::string::npos) taken.push_back(&call);
      }
    }
    EXPECT_FALSE(taken.empty()) << name << " is tried by no call";
    cuda::synchronize();
    std::vector<std::map<std::string, int>> wrong(kThreads);
    run_on_streams(kThreads, [&](int t) {
      const detail::ForceStrategy forced(name.c_str());
      for (size_t round = 0; round < 3 * taken.size(); ++round) {
        const Call& call = *taken[(round * 5 + static_cast<size_t>(t) * 3) % taken.size()];
        if (!is_equal(call.apply(call.on_gpu), call.expected))
          ++wrong[static_cast<size_t>(t)][call.text];
      }
    });
    cuda::check();
    for (const auto& of_thread : wrong) {
      for (const auto& [text, count] : of_thread)
        ADD_FAILURE() << name << ": " << text << " differed " << count << " times";
    }
  }
}

}  // namespace
}  // namespace sow::test
