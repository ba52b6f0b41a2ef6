// SPDX-License-Identifier: Apache-2.0
// Where a tensor is not zero: as a mask, as a count, and as coordinates (nonzero).
#include "core/device_table.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/parallel.h"
#include "ops/defs.h"
#include "ops/families/masked.h"
#include "ops/shapes.h"
#include "transfer/map.h"
#include "transfer/recorder.h"

namespace sow {
namespace detail {
namespace {

constexpr int64_t kMarkGrain = 1 << 16;  // elements per thread

// Floats are zero whatever their sign; comparing bits keeps subnormals under any floating state.
template <class Bits>
void mark(const char* x, bool* mask, int64_t count, int lanes, bool floating) {
  const Bits significant =
      floating ? static_cast<Bits>(~Bits{0}) >> 1 : static_cast<Bits>(~Bits{0});
  for (int64_t i = 0; i < count; ++i) {
    Bits any = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      Bits bits;
      std::memcpy(&bits, x + (i * lanes + lane) * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
      any |= bits & significant;
    }
    mask[i] = any != 0;
  }
}

Meta infer_nonzero(const Call&, const Metas& inputs) {
  return {DType::int64, {-1, inputs[0].shape.rank()}, inputs[0].device};
}

// The same where elements are not in the host's memory.
Tensor differs_from_zero(const Tensor& x) {
  const Tensor out = Tensor::empty(x.shape(), DType::bool_, x.device());
  if (x.numel() == 0) return out;
  Map map;
  map.op = MapOp::ne;
  map.shape = x.shape();
  map.out = static_cast<char*>(out.data());
  map.out_dtype = DType::bool_;
  map.in[0] = {static_cast<const char*>(x.data()), x.dtype(), x.strides()};
  map.in[1] = {nullptr, x.dtype(), Dims(x.shape().size(), 0)};
  execute(map, x.device());
  return out;
}

Tensor nonzero_now(const Call& call) {
  int64_t count = 0;
  return coordinates_of(nonzero_mask(call.inputs[0]), count);
}

}  // namespace

CountedMask count_mask(const Tensor& mask, bool keeps) {
  if (Watcher* watcher = current_watcher()) watcher->on_data_read();
  // Places that share a byte (an expanded mask) are counted once and multiplied.
  Dims shape = mask.shape();
  Dims strides = mask.strides();
  int64_t copies = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (strides[d] == 0 && shape[d] > 1) {
      copies *= shape[d];
      shape[d] = 1;
    }
  }
  CountedMask out;
  out.bytes = make_view(mask, 0, shape, strides).contiguous();
  const int64_t bytes = out.bytes.numel();
  if (bytes == 0 || mask.numel() == 0) return out;
  const DeviceTable& table = device_table(mask.device().type);
  if (keeps && table.mask_ranks_bytes != nullptr)
    out.ranks = Tensor::empty({static_cast<int64_t>(table.mask_ranks_bytes(bytes))}, DType::uint8,
                              mask.device());
  void* ranks = out.ranks.defined() ? out.ranks.data() : nullptr;
  out.count = copies * table.count_true(out.bytes.data(), bytes, ranks, mask.device().index);
  return out;
}

void CountedMask::set(Transfer& transfer, const Dims& shape) const {
  const Dims strides = expanded_strides(&bytes, shape);
  transfer.mask = operand(bytes, strides);
  // Ranks count bytes, so they hold for a mask that is expanded along its last dimensions alone.
  bool repeats = false, known = ranks.defined();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool shared = strides[d] == 0;
    known = known && (shared || !repeats);
    repeats = repeats || shared;
  }
  if (known) transfer.mask_ranks = ranks.data();
}

Tensor nonzero_mask(const Tensor& x) {
  if (x.dtype() == DType::bool_) return x;
  if (x.device().type != DeviceType::cpu) return differs_from_zero(x);
  const Tensor dense = x.contiguous();
  const Tensor out = Tensor::empty(x.shape(), DType::bool_, x.device());
  const bool floating = is_floating(x.dtype()) || is_complex(x.dtype());
  const int lanes = is_complex(x.dtype()) ? 2 : 1;
  const char* from = static_cast<const char*>(dense.data());
  bool* to = static_cast<bool*>(out.data());
  const int64_t size = static_cast<int64_t>(size_of(x.dtype()));
  parallel_for(0, x.numel(), kMarkGrain, [&](int64_t first, int64_t last) {
    const char* x_first = from + first * size;
    switch (size / lanes) {
      case 1:
        return mark<uint8_t>(x_first, to + first, last - first, lanes, floating);
      case 2:
        return mark<uint16_t>(x_first, to + first, last - first, lanes, floating);
      case 4:
        return mark<uint32_t>(x_first, to + first, last - first, lanes, floating);
      default:
        return mark<uint64_t>(x_first, to + first, last - first, lanes, floating);
    }
  });
  return out;
}

namespace {

// Flat positions, taken apart: memory for what is found, not for the extents.
void host_coordinates(const Tensor& mask, const Tensor& out) {
  constexpr int64_t kGrain = 1 << 14;
  const Tensor dense = mask.contiguous();
  const int64_t count = out.shape()[0];
  const int rank = mask.dim();
  const Tensor flat = rank == 1 ? out : Tensor::empty({count}, DType::int64);
  const DeviceTable& table = device_table(mask.device().type);
  table.true_positions(dense.data(), dense.numel(), flat.data<int64_t>(), mask.device().index);
  if (rank == 1) return;
  const int64_t* positions = flat.data<int64_t>();
  parallel_for(0, count, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t rest = positions[i];
      int64_t* row = out.data<int64_t>() + i * rank;
      for (int d = rank - 1; d >= 0; --d) {
        row[d] = rest % mask.shape()[d];
        rest /= mask.shape()[d];
      }
    }
  });
}

}  // namespace

Tensor coordinates_of(const Tensor& given, int64_t& count) {
  const bool on_host = given.device().type == DeviceType::cpu;
  const Tensor mask = on_host ? given : given.contiguous();
  const CountedMask counted = count_mask(mask, !on_host);
  count = counted.count;
  const Tensor out = Tensor::empty({count, mask.dim()}, DType::int64, mask.device());
  if (count == 0 || mask.dim() == 0) return out;
  if (on_host)
    host_coordinates(mask, out);
  else
    device_table(mask.device().type)
        .true_coordinates(counted.ranks.data(), mask.shape(), out.data<int64_t>(),
                          mask.device().index);
  return out;
}

const OpDef kNonzero{
    .name = "nonzero", .in_place_name = nullptr, .infer = infer_nonzero, .dynamic = nonzero_now};

}  // namespace detail

Tensor nonzero(const Tensor& x) {
  return detail::apply(detail::make_call(detail::kNonzero, false, x));
}

}  // namespace sow
