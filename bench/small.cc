// SPDX-License-Identifier: Apache-2.0
// Calls that cost more than their work: a hundred elements, from C++.
#include <benchmark/benchmark.h>

#include "problems.h"

namespace sow::bench {
namespace {

template <class Call>
void small(const char* name, Call call) {
  benchmark::RegisterBenchmark(name, [call](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(call());
  });
}

const bool listed = [] {
  std::mt19937_64 random(3);
  const Tensor x = random_tensor({100}, DType::float32, random);
  const Tensor src = random_tensor({100}, DType::float32, random);
  const Tensor table = random_tensor({10, 10}, DType::float32, random);
  std::vector<int64_t> places(100), columns(100);
  std::vector<bool> chosen(100);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<int64_t>(random() % 100);
    columns[i] = static_cast<int64_t>(random() % 10);
    chosen[i] = random() % 2 != 0;
  }
  const Tensor index = Tensor::of(places, {100});
  const Tensor grid_index = Tensor::of(columns, {10, 10});
  const Tensor values = src.reshape({10, 10});
  const Tensor mask = Tensor::of(chosen, {100});
  const Tensor diagonal = random_tensor({10}, DType::float32, random);
  const Index held = Index::hold(index, 100);
  small("scatter_add_", [=] { return scatter_add_(x, 0, index, src); });
  small("scatter_add", [=] { return scatter_add(x, 0, index, src); });
  small("index_add_", [=] { return index_add_(x, 0, index, src); });
  small("index_add_ held", [=] { return index_add_(x, 0, held, src); });
  small("index_reduce_ amax", [=] { return index_reduce_(x, 0, index, src, Reduce::amax); });
  small("scatter_ assign", [=] { return scatter_(x, 0, index, src); });
  small("put_along_axis_ add", [=] { return put_along_axis_(table, grid_index, values, 1); });
  small("put_along_axis_ assign",
        [=] { return put_along_axis_(table, grid_index, values, 1, Reduce::assign); });
  small("masked_scatter_", [=] { return masked_scatter_(x, mask, src); });
  small("masked_scatter", [=] { return masked_scatter(x, mask, src); });
  small("masked_fill_", [=] { return masked_fill_(x, mask, 1.0); });
  small("index_select", [=] { return index_select(x, 0, index); });
  small("diagonal_scatter_", [=] { return diagonal_scatter_(table, diagonal); });
  return true;
}();

}  // namespace
}  // namespace sow::bench
