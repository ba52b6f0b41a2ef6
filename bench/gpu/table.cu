// SPDX-License-Identifier: Apache-2.0
// Times the cases of docs/performance.md's GPU table on device 0, with every strategy that supports
// each: median of CUDA events, the goal, and the fraction of a copy's bandwidth that the floor
// makes.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sow/sow.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace {

using sow::Device;
using sow::Dims;
using sow::DType;
using sow::Tensor;

constexpr Device kGpu{sow::DeviceType::cuda, 0};

__device__ uint64_t hashed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

enum class Fill { normal, wide, key, hot, mask };

// normal: a sum of uniforms in (-2, 2); wide: any finite exponent.
__global__ void fill(void* data, int64_t count, DType dtype, Fill kind, int64_t limit,
                     uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t bits = hashed(i * 2 + seed);
    if (kind == Fill::mask) {
      static_cast<uint8_t*>(data)[i] = bits % 100 < static_cast<uint64_t>(limit);
    } else if (kind == Fill::key || kind == Fill::hot) {
      const bool hot = kind == Fill::hot && (bits >> 60) < 8;
      static_cast<int64_t*>(data)[i] =
          hot ? 0 : static_cast<int64_t>((bits >> 4) % static_cast<uint64_t>(limit));
    } else {
      float value =
          (static_cast<int>(bits & 0xffff) + static_cast<int>((bits >> 16) & 0xffff) +
           static_cast<int>((bits >> 32) & 0xffff) + static_cast<int>(bits >> 48) - 131070) /
          65536.0f;
      if (kind == Fill::wide) {
        const uint32_t exponent = 1 + static_cast<uint32_t>(bits >> 32) % 250;
        value = __uint_as_float((static_cast<uint32_t>(bits) & 0x807fffffu) | (exponent << 23));
      }
      if (dtype == DType::float32)
        static_cast<float*>(data)[i] = value;
      else if (dtype == DType::float64)
        static_cast<double*>(data)[i] = value;
      else if (dtype == DType::bfloat16)
        static_cast<sow::bfloat16*>(data)[i] = sow::bfloat16(value);
      else if (dtype == DType::float16)
        static_cast<sow::float16*>(data)[i] = sow::float16(value);
      else
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(bits % 1000);
    }
  }
}

Tensor made(const Dims& shape, DType dtype, Fill kind, int64_t limit = 0) {
  static uint64_t seed = 1;
  Tensor out = Tensor::empty(shape, dtype, kGpu);
  fill<<<4096, 256>>>(out.data(), out.numel(), dtype, kind, limit, ++seed << 33);
  return out;
}
Tensor values(const Dims& shape, DType dtype = DType::float32) {
  return made(shape, dtype, Fill::normal);
}
Tensor keys(const Dims& shape, int64_t limit) {
  return made(shape, DType::int64, Fill::key, limit);
}

double median_ms(const std::function<void()>& call, int rounds) {
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  for (int i = 0; i < 2; ++i) call();
  std::vector<float> times;
  for (int i = 0; i < rounds; ++i) {
    cudaEventRecord(start);
    call();
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

const char* only = "";

void report(const std::string& name, double floor_ms, double goal_ms,
            const std::function<void()>& call) {
  if (name.find(only) == std::string::npos) return;
  const std::string chosen = sow::explain(call);
  for (const std::string& strategy : sow::detail::cuda_strategies()) {
    const sow::detail::ForceStrategy force(strategy.c_str());
    const std::string plan = sow::explain(call);
    if (plan.find("strategy     " + strategy + ":") == std::string::npos) continue;
    const bool planned = chosen.find("strategy     " + strategy + ":") != std::string::npos;
    if (strategy == "copy" && std::count(plan.begin(), plan.end(), '\n') > 3)
      continue;  // the copy beside it
    static const int rounds =
        std::getenv("SOW_BENCH_ROUNDS") ? std::atoi(std::getenv("SOW_BENCH_ROUNDS")) : 9;
    const double ms = median_ms(call, rounds);
    std::printf("%-46s %-16s%s %9.4f ms  goal %6.3f  floor %6.3f  %5.2fx goal\n", name.c_str(),
                strategy.c_str(), planned ? "*" : " ", ms, goal_ms, floor_ms, ms / goal_ms);
    std::fflush(stdout);
  }
  sow::cuda::synchronize();
}

void masks() {
  {
    const Tensor x = values({8, 4096, 4096}, DType::bfloat16),
                 mask = made({8, 4096, 1}, DType::bool_, Fill::mask, 25);
    const Tensor value = values({9000 * 4096}, DType::bfloat16);
    report("mask rows bf16 out", 0.128, 0.16, [&] { x.masked_scatter(mask, value); });
    report("mask rows bf16 in", 0.032, 0.05, [&] { x.masked_scatter_(mask, value); });
  }
  const int64_t n = int64_t{1} << 27;
  const Tensor x = values({n}), mask = made({n}, DType::bool_, Fill::mask, 50), value = values({n});
  report("mask elements f32 out", 0.288, 0.42, [&] { x.masked_scatter(mask, value); });
  report("mask elements f32 in", 0.160, 0.30, [&] { x.masked_scatter_(mask, value); });
  report("masked_fill f32 out", 0.29, 0.32, [&] { x.masked_fill(mask, 1); });
}

void rows() {
  const int64_t n = 8'000'000, to = 500'000;
  {
    const Tensor x = values({to, 64}), index = keys({n}, to), source = values({n, 64});
    report("rows sum f32", 0.565, 0.90, [&] { x.index_add_(0, index, source); });
    const sow::Index held = sow::Index::hold(index, to);
    report("rows sum f32, index held", 0.565, 0.68, [&] { x.index_add_(0, held, source); });
    for (const char* reduce : {"mean", "amax", "mul"}) {
      report(std::string("rows ") + reduce + " f32", 0.565, 0.9,
             [&] { x.index_reduce_(0, index, source, reduce); });
    }
    const Tensor wide = made({n, 64}, DType::float32, Fill::wide);
    report("rows sum f32, wide exponents", 0.565, 3.6, [&] { x.index_add_(0, index, wide); });
    report("gather rows f32", 0.99, 1.1, [&] { x.index_select(0, index); });
  }
  {
    const Tensor x = values({to, 64}, DType::bfloat16), index = keys({n}, to),
                 source = values({n, 64}, DType::bfloat16);
    report("rows sum bf16", 0.290, 0.60, [&] { x.index_add_(0, index, source); });
    const sow::Index held = sow::Index::hold(index, to);
    report("rows sum bf16, index held", 0.290, 0.35, [&] { x.index_add_(0, held, source); });
  }
  {
    const Tensor x = values({to, 128}), index = made({7'800'000}, DType::int64, Fill::hot, to);
    const Tensor source = values({7'800'000, 128});
    report("rows hot f32", 1.0, 2.5, [&] { x.index_add_(0, index, source); });
  }
  {
    const Tensor x = values({1024, 1024, 64}), index = keys({4'000'000, 2}, 1024),
                 source = values({4'000'000, 64});
    report("nd add f32", 0.388, 0.65, [&] { x.tensor_scatter_nd_add_(index, source); });
  }
  {
    const Tensor x = values({32, 8, 32768, 128}, DType::bfloat16), index = keys({4096}, 32768);
    const Tensor source = values({32, 8, 4096, 128}, DType::bfloat16);
    report("kv cache bf16", 0.128, 0.16, [&] { x.index_copy_(2, index, source); });
  }
}

void elements() {
  const int64_t n = int64_t{1} << 26;
  const Tensor source = values({n}), half = values({n}, DType::float16),
               real = values({n}, DType::float64);
  const Tensor wide = made({n}, DType::float32, Fill::wide),
               whole = made({n}, DType::int32, Fill::normal);
  struct Row {
    const char* name;
    int64_t places;
    double floor, goal;
  };
  for (const Row& row : {Row{"2^24", 1 << 24, 0.224, 1.6}, Row{"2^22", 1 << 22, 0.201, 1.1},
                         Row{"2^20", 1 << 20, 0.194, 0.88}, Row{"1024", 1024, 0.192, 0.42},
                         Row{"8", 8, 0.192, 0.25}}) {
    const Tensor index = keys({n}, row.places);
    const Tensor x = Tensor::zeros({row.places}, DType::float32, kGpu);
    report(std::string("elements add f32 to ") + row.name, row.floor, row.goal,
           [&] { x.scatter_add_(0, index, source); });
    if (row.places == 1 << 22 || row.places == 8) {
      const Tensor y = Tensor::zeros({row.places}, DType::float64, kGpu),
                   z = Tensor::zeros({row.places}, DType::int32, kGpu);
      report(std::string("elements add f64 to ") + row.name, row.floor, 22,
             [&] { y.scatter_add_(0, index, real); });
      report(std::string("elements add i32 to ") + row.name, row.floor, row.goal,
             [&] { z.scatter_add_(0, index, whole); });
    }
    if (row.places != 1 << 22)
      report(std::string("elements add f32 wide to ") + row.name, row.floor, 4 * row.goal,
             [&] { x.scatter_add_(0, index, wide); });
    report(std::string("elements amax f32 to ") + row.name, row.floor, row.goal,
           [&] { x.scatter_reduce_(0, index, source, "amax"); });
    if (row.places <= 1024) {
      const Tensor h = Tensor::zeros({row.places}, DType::float16, kGpu);
      report(std::string("elements add f16 to ") + row.name, 0.160, 0.5,
             [&] { h.scatter_add_(0, index, half); });
    }
    if (row.places == 1 << 24)
      report("elements assign f32 to 2^24", 0.224, 3.0, [&] { x.scatter_(0, index, source); });
  }
}

void along_axis() {
  const Tensor x = values({8192, 32768}), index = keys({8192, 2048}, 32768),
               source = values({8192, 2048});
  for (const char* reduce : {"add", "mean", "amax", "mul", "assign"}) {
    report(std::string("along axis ") + reduce, 0.080, 0.8,
           [&] { x.put_along_axis_(index, source, 1, reduce); });
  }
  const Tensor cube = values({64, 4096, 4096}), diagonal = values({64, 4096});
  report("diagonal_scatter f32", 2.051, 2.06, [&] { cube.diagonal_scatter(diagonal, 0, 1, 2); });
  report("clone f32 (copy)", 2.051, 2.06, [&] { cube.clone(); });
  report("transpose copy f32", 2.051, 2.6, [&] { cube.transpose(1, 2).clone(); });
}

// Forward and backward together, as somebody trains: nothing is kept from one round to the next.
void gradients() {
  const auto both = [](const char* name, double floor, double goal,
                       const std::function<void()>& call) {
    if (std::string(name).find(only) == std::string::npos) return;
    std::printf("%-46s %-16s  %9.4f ms  goal %6.3f  floor %6.3f\n", name, "", median_ms(call, 5),
                goal, floor);
  };
  const int64_t n = 8'000'000, to = 500'000;
  {
    const Tensor x = values({to, 64}), index = keys({n}, to), weights = values({to, 64});
    const Tensor source = values({n, 64}).set_requires_grad();
    for (const char* reduce : {"amax", "mean", "mul", "assign", "add"}) {
      const std::string name = std::string("gradient rows ") + reduce;
      both(name.c_str(), 1.559, 3.0, [&] {
        sow::grad({sow::index_reduce(x, 0, index, source, reduce)}, {source}, {weights});
      });
    }
  }
  const int64_t many = int64_t{1} << 27;
  const Tensor x = values({many}).set_requires_grad(),
               mask = made({many}, DType::bool_, Fill::mask, 50);
  const Tensor value = values({many / 2 + (1 << 20)}).set_requires_grad(), weights = values({many});
  both("gradient mask elements", 0.641, 1.0, [&] {
    sow::grad({sow::masked_scatter(x, mask, value)}, {x, value}, {weights});
  });
}

void small() {
  const Tensor x = values({1000}), index = keys({1000}, 1000), source = values({1000});
  const auto many = [&](const char* name, const std::function<void()>& call) {
    if (std::string(name).find(only) == std::string::npos) return;
    constexpr int kCalls = 1000;
    for (int i = 0; i < 20; ++i) call();
    sow::cuda::synchronize();
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    const auto begin = std::chrono::steady_clock::now();
    cudaEventRecord(start);
    for (int i = 0; i < kCalls; ++i) call();
    const double host =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    std::printf("%-46s %8.2f us of host, %8.2f us a call\n", name, host / kCalls,
                ms * 1000 / kCalls);
  };
  const Tensor mask = made({1000}, DType::bool_, Fill::mask, 50);
  many("small scatter_add_ 1000", [&] { x.scatter_add_(0, index, source); });
  many("small scatter_ 1000", [&] { x.scatter_(0, index, source); });
  many("small scatter_reduce_ amax 1000", [&] { x.scatter_reduce_(0, index, source, "amax"); });
  many("small masked_scatter 1000", [&] { x.masked_scatter(mask, source); });
  many("small index_select 1000", [&] { x.index_select(0, index); });
  many("small clone 1000", [&] { x.clone(); });
  many("small fill_ 1000", [&] { x.fill_(1); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) only = argv[1];
  std::printf("%s\n", sow::cuda::status().c_str());
  if (!sow::cuda::available()) return 1;
  try {
    small();
    masks();
    rows();
    elements();
    along_axis();
    gradients();
  } catch (const sow::Error& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  return 0;
}
