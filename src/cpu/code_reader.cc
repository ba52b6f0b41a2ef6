// The quick way from keys to codes.
#include "cpu/code_reader.h"

namespace sow::detail {

namespace {

// Keys in [-extent, extent) fit 32 bits, so the rest of a longer one only repeats its sign.
template <class K>
void wrap_keys(const char* data, int64_t first, int count, uint32_t extent, uint32_t* codes) {
  const K* keys = reinterpret_cast<const K*>(data) + first;
  for (int i = 0; i < count; ++i) {
    const int32_t key = static_cast<int32_t>(keys[i]);
    codes[i] = static_cast<uint32_t>(key) + (static_cast<uint32_t>(key >> 31) & extent);
  }
}

}  // namespace

CodeReader::CodeReader(const Transfer& t, const Canonical& c, const FoldKernels& kernels, const PlaceCode& places)
    : transfer_(t), kernels_(kernels), places_(places), reader_(t, c, kernels) {
  const bool checked = t.bounds == Bounds::error || t.bounds == Bounds::promise;
  decodes_ = checked && t.dst_index.size() == 1 && t.src_index.empty() && c.items.size() == 1 &&
             c.items[0].index[0] == 1 && c.items[0].dst == 0;
  if (decodes_) {
    const IndexOperand& index = t.dst_index[0];
    decodes_ = index.extent <= INT32_MAX && index.scale == places.step() && index.extent == places.count();
  }
  plain_ = decodes_ && t.src.data != nullptr && c.items[0].src == 1 && !t.negate;
}

void CodeReader::decode_plain(const OuterBase& base, int64_t first, int count) {
  const IndexOperand& index = transfer_.dst_index[0];
  const uint32_t extent = static_cast<uint32_t>(index.extent);
  if (index.dtype == DType::int32) {
    wrap_keys<int32_t>(index.data, base.index[0] + first, count, extent, codes_);
  } else {
    wrap_keys<int64_t>(index.data, base.index[0] + first, count, extent, codes_);
  }
}

}  // namespace sow::detail
