// SPDX-License-Identifier: Apache-2.0
// Distinct keys: counted in a table where they lie close together, else sorted by radix.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "core/dtype_switch.h"
#include "core/tensor/tensor_impl.h"
#include "ops/groups/host.h"
#include "sow/groups.h"
#include "sow/math.h"
#include "transfer/recorder.h"

namespace sow {
namespace detail {
namespace {

// Which distinct key each row is; where the first row of each is, and how many there are.
struct Distinct {
  Tensor inverse;
  std::vector<int64_t> firsts, counts;
};

// A column of integers as unsigned ones in the same order.
std::vector<uint64_t> ordered_column(const Tensor& keys, int64_t column, int64_t width) {
  const int64_t rows = keys.shape()[0];
  std::vector<uint64_t> out(static_cast<size_t>(rows));
  with_dtype(keys.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
      const Stored* data = static_cast<const Stored*>(keys.data());
      constexpr uint64_t kTop = std::is_signed_v<T> ? uint64_t{1} << 63 : 0;
      for (int64_t i = 0; i < rows; ++i) {
        const auto key = static_cast<T>(data[i * width + column]);
        out[static_cast<size_t>(i)] = static_cast<uint64_t>(key) ^ kTop;
      }
    }
  });
  return out;
}

// Keys that span a few places for each of them: a table of these places.
Distinct count_in_table(const std::vector<uint64_t>& keys, uint64_t least, uint64_t span) {
  const auto rows = static_cast<int64_t>(keys.size());
  Distinct out{Tensor::empty({rows}, DType::int64), {}, {}};
  std::vector<int64_t> count(span, 0), number(span);
  for (const uint64_t key : keys) ++count[key - least];
  for (uint64_t k = 0; k < span; ++k) {
    number[k] = static_cast<int64_t>(out.counts.size());
    if (count[k] != 0) out.counts.push_back(count[k]);
  }
  out.firsts.resize(out.counts.size());
  int64_t* inverse = out.inverse.data<int64_t>();
  for (int64_t i = rows; i-- > 0;) {  // from the end, so that the first is what stays
    const int64_t key = number[keys[static_cast<size_t>(i)] - least];
    inverse[i] = key;
    out.firsts[static_cast<size_t>(key)] = i;
  }
  return out;
}

struct Entry {
  uint64_t key;
  int64_t row;
};

constexpr int kDigitBits = 11;
constexpr uint64_t kDigits = uint64_t{1} << kDigitBits;

// Sorts by key, keeping the order of equal ones; digits that all keys share cost nothing.
void sort_entries(std::vector<Entry>& entries, std::vector<Entry>& scratch) {
  uint64_t differ = 0;
  for (const Entry& entry : entries) differ |= entry.key ^ entries[0].key;
  scratch.resize(entries.size());
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    if (((differ >> shift) & (kDigits - 1)) == 0) continue;
    std::array<int64_t, kDigits> begin{};
    for (const Entry& entry : entries) ++begin[(entry.key >> shift) & (kDigits - 1)];
    int64_t total = 0;
    for (int64_t& at : begin) total += std::exchange(at, total);
    for (const Entry& entry : entries) {
      scratch[static_cast<size_t>(begin[(entry.key >> shift) & (kDigits - 1)]++)] = entry;
    }
    entries.swap(scratch);
  }
}

// Rows in order, column by column from the last.
Distinct sort_rows(const Tensor& keys, int64_t width, std::vector<uint64_t> last) {
  const int64_t rows = keys.shape()[0];
  std::vector<Entry> entries(static_cast<size_t>(rows)), scratch;
  std::vector<uint8_t> differs(static_cast<size_t>(rows), 0);  // from the row before, in order
  std::vector<std::vector<uint64_t>> columns;
  for (int64_t i = 0; i < rows; ++i) entries[static_cast<size_t>(i)] = {last[i], i};
  sort_entries(entries, scratch);
  columns.push_back(std::move(last));
  for (int64_t c = width - 1; c-- > 0;) {
    columns.push_back(ordered_column(keys, c, width));
    for (Entry& entry : entries) entry.key = columns.back()[static_cast<size_t>(entry.row)];
    sort_entries(entries, scratch);
  }
  for (const std::vector<uint64_t>& column : columns) {
    for (size_t i = 1; i < entries.size(); ++i) {
      differs[i] |= column[static_cast<size_t>(entries[i].row)] !=
                    column[static_cast<size_t>(entries[i - 1].row)];
    }
  }
  Distinct out{Tensor::empty({rows}, DType::int64), {}, {}};
  int64_t* inverse = out.inverse.data<int64_t>();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || differs[i]) {
      out.firsts.push_back(entries[i].row);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    inverse[entries[i].row] = static_cast<int64_t>(out.firsts.size()) - 1;
  }
  return out;
}

Distinct distinct_rows(const Tensor& keys) {
  const int64_t rows = keys.shape()[0], width = keys.dim() == 2 ? keys.shape()[1] : 1;
  if (rows == 0) return {Tensor::empty({0}, DType::int64), {}, {}};
  if (width == 0) {  // rows of nothing are all the same
    return {Tensor::zeros({rows}, DType::int64), {0}, {rows}};
  }
  std::vector<uint64_t> last = ordered_column(keys, width - 1, width);
  if (width == 1) {
    const auto [least, most] = std::minmax_element(last.begin(), last.end());
    const uint64_t low = *least, span = *most - low;
    // Such a table is written and read once, where sorting passes over the keys several times.
    if (span < 4 * static_cast<uint64_t>(rows)) return count_in_table(last, low, span + 1);
  }
  return sort_rows(keys, width, std::move(last));
}

Tensor tensor_of(const std::vector<int64_t>& values) {
  const Tensor tensor = Tensor::empty({static_cast<int64_t>(values.size())}, DType::int64);
  std::copy(values.begin(), values.end(), tensor.data<int64_t>());
  return tensor;
}

}  // namespace
}  // namespace detail

UniqueKeys unique(const Tensor& keys) {
  using detail::fail;
  const bool fits = keys.defined() && keys.impl()->symbolic == nullptr &&
                    (is_integer(keys.dtype()) || keys.dtype() == DType::bool_);
  if (!fits) fail(ErrorKind::type, "unique: keys must be integers or bool, and have data");
  if (keys.dim() > 2) {
    fail(ErrorKind::shape, "unique: keys have shape {}; they must have one dimension, or two: rows",
         keys.shape());
  }
  if (detail::Watcher* watcher = detail::current_watcher()) watcher->on_data_read();
  const Tensor source = keys.dim() == 0 ? unsqueeze(keys, 0) : keys;
  const detail::Distinct found = detail::distinct_rows(source.to(Device{}).contiguous());
  const Device device = keys.device();
  return {index_select(source, 0, detail::tensor_of(found.firsts).to(device)),
          found.inverse.to(device), detail::tensor_of(found.counts).to(device)};
}

}  // namespace sow
