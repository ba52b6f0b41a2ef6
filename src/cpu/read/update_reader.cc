// SPDX-License-Identifier: Apache-2.0
// Gathers the values of a batch of updates, one row after the other.
#include "cpu/read/update_reader.h"

#include "cpu/common/byte_width.h"

namespace sow::detail {

namespace {

template <int Width>
void gather_rows(const char* from, const int64_t* offsets, int count, int64_t stride, int width,
                 char* to) {
  const auto* values = reinterpret_cast<const Word<Width>*>(from);
  auto* out = reinterpret_cast<Word<Width>*>(to);
  if (width == 1) {
    for (int i = 0; i < count; ++i) out[i] = values[offsets[i]];
    return;
  }
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < width; ++c) *out++ = values[offsets[i] + c * stride];
  }
}

}  // namespace

int UpdateReader::leave_out(int count) {
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t offset = offsets_[i], source = sources_[i];
    offsets_[kept] = offset;
    sources_[kept] = source;
    kept += (offset >= lowest_) & (offset < past_) & (source != kDropped);
  }
  return kept;
}

const char* UpdateReader::gather(int count, int64_t column, int width, bool complete) {
  const int64_t size = kernels_.value_size;
  const Axis& row = canonical_.row;
  const bool scalar = transfer_.src.data == nullptr;
  const char* from = scalar ? reinterpret_cast<const char*>(transfer_.scalar)
                            : transfer_.src.data + column * row.src * size;
  if (!scalar && complete && !transfer_.negate && transfer_.src_index.empty()) {
    // Values that lie one after the other are used where they are.
    const bool one_run = canonical_.items.size() <= 1 && (width == 1 || row.src == 1) &&
                         (canonical_.items.empty() || canonical_.items[0].src == width);
    if (one_run) return from + sources_[0] * size;
  }
  if (scalar) std::fill_n(sources_, count, 0);
  with_width(size, [&](auto w) {
    gather_rows<w()>(from, sources_, count, scalar ? 0 : row.src, width, values_);
  });
  if (transfer_.negate) kernels_.negate(values_, int64_t{count} * width);
  return values_;
}

}  // namespace sow::detail
