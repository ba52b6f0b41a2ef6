// SPDX-License-Identifier: Apache-2.0
// Elementwise operations have the CPU's bits, for every type, stride and kind of value.
#include "transfer/map.h"
#include "core/device_table.h"
#include "cuda/device_problem.h"
#include "random_values.h"

namespace sow::test {
namespace {

using detail::Map;
using detail::MapOp;

DType result_type(MapOp op, DType dtype, Draw& draw) {
  if (op >= MapOp::eq && op <= MapOp::same) return DType::bool_;
  if (op != MapOp::cast) return dtype;
  if (is_complex(dtype)) return draw.pick({DType::complex64, DType::complex128});
  if (is_floating(dtype))
    return draw.pick({DType::float16, DType::bfloat16, DType::float32, DType::float64});
  return static_cast<DType>(draw.between(0, static_cast<int64_t>(DType::float64)));
}

bool allowed(MapOp op, DType dtype) {
  switch (op) {
    case MapOp::div:
    case MapOp::pow:
    case MapOp::share:
      return is_differentiable(dtype);
    case MapOp::conj:
      return is_complex(dtype);
    case MapOp::lt:
    case MapOp::le:
    case MapOp::gt:
    case MapOp::ge:
      return !is_complex(dtype);
    case MapOp::sub:
    case MapOp::neg:
      return dtype != DType::bool_;
    default:
      return true;
  }
}

int arity_of(MapOp op) {
  if (op == MapOp::where) return 3;
  return op == MapOp::neg || op == MapOp::conj || op == MapOp::pow || op == MapOp::cast ? 1 : 2;
}

// A tensor of random values, dense, transposed or broadcast along its first axis.
Tensor random_operand(Draw& draw, DType dtype, int64_t rows, int64_t columns) {
  const int64_t kind = draw.between(0, 2);
  const Tensor base =
      Tensor::empty(kind == 1 ? Dims{columns, rows} : Dims{kind == 2 ? 1 : rows, columns}, dtype);
  fill_random(draw, dtype, draw_kind(draw), base.numel(), static_cast<char*>(base.data()));
  if (kind == 1) return base.transpose(0, 1);
  return base.broadcast_to({rows, columns});
}

TEST_F(Cuda, MapsHaveTheCpusBits) {
  int tried = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Draw draw(seed);
    Map map;
    map.op = static_cast<MapOp>(draw.between(0, static_cast<int64_t>(MapOp::cast)));
    const DType dtype = static_cast<DType>(draw.between(0, kDTypeCount - 1));
    if (!allowed(map.op, dtype)) continue;
    ++tried;
    const int64_t rows = draw.between(1, 40), columns = draw.between(1, 40);
    map.shape = {rows, columns};
    map.arity = arity_of(map.op);
    map.out_dtype = result_type(map.op, dtype, draw);
    map.exponent = static_cast<double>(draw.between(-4, 5));
    if (map.op == MapOp::pow && !is_complex(dtype) && draw.chance(60))
      map.exponent = draw.pick({0.5, -0.5, 2.5, 1.0 / 3, -7.25, 101.0});
    const Tensor expected = Tensor::empty({rows, columns}, map.out_dtype);
    const Tensor result = Tensor::empty({rows, columns}, map.out_dtype, kGpu);
    Map on_device = map;
    TensorList kept;
    for (int k = 0; k < map.arity; ++k) {
      DType own = dtype;
      if (map.op == MapOp::where && k == 0) own = DType::bool_;
      if (map.op == MapOp::share && k == 1) own = DType::int64;
      const Tensor x = random_operand(draw, own, rows, columns);
      const Tensor y = x.to(kGpu);
      map.in[k] = {static_cast<const char*>(x.data()), own, x.strides()};
      on_device.in[k] = {static_cast<const char*>(y.data()), own, y.strides()};
      kept.push_back(x);
      kept.push_back(y);
    }
    if (map.op == MapOp::where) map.out_dtype = on_device.out_dtype = dtype;
    map.out = static_cast<char*>(expected.data());
    on_device.out = static_cast<char*>(result.data());
    run_map_cpu(map);
    detail::device_table(DeviceType::cuda).map(on_device, 0);
    const Tensor back = result.to({});
    ASSERT_EQ(std::memcmp(back.data(), expected.data(), expected.nbytes()), 0)
        << detail::name_of(map.op) << " of " << name_of(dtype) << " to " << name_of(map.out_dtype)
        << ", seed " << seed;
  }
  EXPECT_GT(tried, 1500);
}

}  // namespace
}  // namespace sow::test
