// SPDX-License-Identifier: Apache-2.0
// Started by mpirun: every rank makes the whole problem, does its part of it, and compares its rows
// with those of one call, bit for bit. Exit status 0 on every rank, or it says what differs.
#include "sow/mpi.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "draw.h"
#include "random_values.h"
#include "sow/ops.h"

namespace {

using namespace sow;
using namespace sow::test;

int failures = 0;

Tensor part_of(const Tensor& whole, int rank, int size) {
  const int64_t rows = whole.size(0);
  return whole.slice(0, rows * rank / size, rows * (rank + 1) / size);
}

void expect_same(const Tensor& a, const Tensor& b, const std::string& what, int rank) {
  const Tensor left = a.contiguous(), right = b.contiguous();
  if (left.nbytes() == 0 || std::memcmp(left.data(), right.data(), left.nbytes()) == 0) return;
  std::fprintf(stderr, "rank %d: %s differs\n", rank, what.c_str());
  ++failures;
}

void run(const std::shared_ptr<distributed::Exchange>& exchange) {
  const int rank = exchange->rank(), size = exchange->size();
  Draw draw(3);  // the same numbers on every rank
  for (int type = 0; type < kDTypeCount; ++type) {
    for (const Reduce reduce :
         {Reduce::assign, Reduce::add, Reduce::mul, Reduce::amax, Reduce::amin, Reduce::mean}) {
      const auto dtype = static_cast<DType>(type);
      if (reduce == Reduce::mean && dtype == DType::bool_) continue;
      if ((reduce == Reduce::amax || reduce == Reduce::amin) && is_complex(dtype)) continue;
      const int64_t rows = draw.pick({2, 50}), count = draw.pick({1, 400});
      const Tensor x = Tensor::zeros({rows, 3}, dtype), source = Tensor::zeros({count, 3}, dtype);
      const Tensor keys = Tensor::zeros({count}, DType::int64);
      fill_random(draw, dtype, draw_kind(draw), x.numel(), x.data());
      fill_random(draw, dtype, draw_kind(draw), source.numel(), source.data());
      for (int64_t i = 0; i < count; ++i) keys.data<int64_t>()[i] = draw.between(-rows, rows - 1);
      const Tensor whole = index_reduce(x, 0, keys, source, reduce);
      const Tensor mine = part_of(x, rank, size).clone();
      distributed::index_reduce_(exchange, mine, part_of(keys, rank, size),
                                 part_of(source, rank, size), reduce);
      expect_same(mine, part_of(whole, rank, size),
                  std::string(name_of(dtype)) + " " + name_of(reduce), rank);
      const Tensor got =
          distributed::index_select(exchange, part_of(x, rank, size), part_of(keys, rank, size));
      expect_same(got, part_of(index_select(x, 0, keys), rank, size),
                  std::string(name_of(dtype)) + " select", rank);
    }
  }
  const Tensor x = Tensor::zeros({2}, DType::float32);
  try {
    const int64_t key = rank == size - 1 ? 2 * size : 0;
    distributed::index_add_(exchange, x, Tensor::of<int64_t>({key}),
                            Tensor::ones({1}, DType::float32));
    ++failures;
  } catch (const Error& error) {
    if (std::string(error.what()).find("on rank " + std::to_string(size - 1)) == std::string::npos)
      ++failures;
  }
  expect_same(x, Tensor::zeros({2}, DType::float32), "a destination after an error", rank);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const auto exchange = std::make_shared<distributed::MpiExchange>();
    run(exchange);
    if (exchange->rank() == 0)
      std::printf("%d ranks, %d differences\n", exchange->size(), failures);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ++failures;
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
