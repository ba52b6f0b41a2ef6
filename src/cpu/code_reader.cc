// The quick way from keys to codes.
#include "cpu/code_reader.h"

#include "transfer/key_runs.h"

namespace sow::detail {

namespace {

bool is_one_run(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  const bool checked = t.bounds == Bounds::error || t.bounds == Bounds::promise;
  if (!checked || t.dst_index.size() != 1 || !t.src_index.empty() || c.items.size() != 1 ||
      c.items[0].index[0] != 1 || c.items[0].dst != 0) {
    return false;
  }
  const IndexOperand& index = t.dst_index[0];
  return index.extent <= INT32_MAX && index.scale == places.step() &&
         index.extent == places.count();
}

// Calls f(keys), the keys from number `first` on.
template <class F>
auto with_keys(const IndexOperand& index, int64_t first, F&& f) {
  if (index.dtype == DType::int32) return f(reinterpret_cast<const int32_t*>(index.data) + first);
  return f(reinterpret_cast<const int64_t*>(index.data) + first);
}

}  // namespace

CodeReader::CodeReader(const Transfer& t, const Canonical& c, const FoldKernels& kernels,
                       const PlaceCode& places)
    : transfer_(t),
      kernels_(kernels),
      places_(places),
      reader_(t, c, kernels),
      decodes_(is_one_run(t, c, places)),
      plain_(decodes_ && t.src.data != nullptr && c.items[0].src == 1 && !t.negate) {}

bool CodeReader::can_decode(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  return is_one_run(t, c, places);
}

bool CodeReader::good_keys(const OuterBase& base, int64_t first, int64_t last) const {
  const IndexOperand& index = transfer_.dst_index[0];
  return with_keys(index, base.index[0] + first, [&](const auto* keys) {
    return keys_in_range(keys, last - first, index.extent);
  });
}

bool CodeReader::decode_plain(const OuterBase& base, int64_t first, int count) {
  if (!checks_out(base, first, first + count)) return false;
  const IndexOperand& index = transfer_.dst_index[0];
  with_keys(index, base.index[0] + first, [&](const auto* keys) {
    wrap_keys(keys, count, static_cast<uint32_t>(index.extent), 0, codes_);
    soon_ = reinterpret_cast<const char*>(keys + count);
  });
  return true;
}

}  // namespace sow::detail
