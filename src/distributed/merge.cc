// SPDX-License-Identifier: Apache-2.0
// Merging updates of one place before they travel or wait: exact, so that nobody can tell.
#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>

#include "core/dtype_switch.h"
#include "core/exact/exact_expansion.h"
#include "core/fail.h"
#include "core/memory/scratch.h"
#include "core/threads/float_state.h"
#include "core/threads/parallel.h"
#include "distributed/groups.h"
#include "sow/distributed.h"
#include "sow/limits.h"
#include "sow/ops.h"
#include "transfer/index/index_order.h"
#include "transfer/transfer.h"

namespace sow::distributed {

using detail::fail;

Tensor numbers(const std::vector<int64_t>& values) {
  return Tensor::of(values, {static_cast<int64_t>(values.size())});
}

Tensor plain_keys(const Tensor& keys) {
  const Tensor here = keys.to({}).contiguous();
  if (here.dtype() == DType::int64) return here;
  const Tensor wide = Tensor::empty(here.shape(), DType::int64);
  std::copy_n(here.data<int32_t>(), here.numel(), wide.data<int64_t>());
  return wide;
}

Dims rows_like(const Tensor& tensor, int64_t rows) {
  Dims shape = tensor.shape();
  shape[0] = rows;
  return shape;
}

Groups group_by_key(const int64_t* keys, int64_t count) {
  Groups groups;
  const int64_t largest = count == 0 ? -1 : *std::max_element(keys, keys + count);
  if (largest < 0) {
    groups.begins = {0};
    return groups;
  }
  constexpr int64_t kMost = (int64_t{1} << 32) - 1;
  if (count < kMost && largest < kMost - 1) {
    // Those that are left out have a key outside of the axis, which `drop` drops.
    Tensor wrapped = Tensor::empty({count}, DType::int64);
    std::transform(keys, keys + count, wrapped.data<int64_t>(),
                   [&](int64_t key) { return key < 0 ? largest + 1 : key; });
    const Index held = Index::hold(wrapped, largest + 1, Bounds::drop);
    const detail::IndexOrder& order = *held.order();
    groups.positions.assign(order.positions.begin(), order.positions.end());
    groups.begins.assign(order.begins.begin(), order.begins.end());
    for (size_t s = 0; s + 1 < order.begins.size(); ++s)
      groups.keys.push_back(order.keys[order.begins[s]]);
    return groups;
  }
  for (int64_t at = 0; at < count; ++at)
    if (keys[at] >= 0) groups.positions.push_back(at);
  std::stable_sort(groups.positions.begin(), groups.positions.end(),
                   [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  for (size_t at = 0; at < groups.positions.size(); ++at) {
    const int64_t key = keys[groups.positions[at]];
    if (!groups.keys.empty() && groups.keys.back() == key) continue;
    groups.keys.push_back(key);
    groups.begins.push_back(static_cast<int64_t>(at));
  }
  groups.begins.push_back(static_cast<int64_t>(groups.positions.size()));
  return groups;
}

bool has_expansion(Reduce reduce, DType dtype) {
  return (reduce == Reduce::add || reduce == Reduce::mean) &&
         (is_floating(dtype) || is_complex(dtype));
}

bool can_merge(Reduce reduce, DType dtype) {
  if (reduce == Reduce::mul) return false;
  return reduce != Reduce::mean || has_expansion(reduce, dtype);  // integers: sums in int64
}

namespace {

// A real type whose sums are exact, and how many of it an element has.
template <class F>
void with_real(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f(detail::TypeTag<float16>{}, 1);
    case DType::bfloat16:
      return f(detail::TypeTag<bfloat16>{}, 1);
    case DType::float32:
      return f(detail::TypeTag<float>{}, 1);
    case DType::float64:
      return f(detail::TypeTag<double>{}, 1);
    case DType::complex64:
      return f(detail::TypeTag<float>{}, 2);
    default:
      return f(detail::TypeTag<double>{}, 2);
  }
}

int64_t columns_of(const Tensor& rows) {
  int64_t columns = 1;
  for (int d = 1; d < rows.dim(); ++d) columns *= rows.size(d);
  return columns;
}

// Groups are shared out by this many values at least.
constexpr int64_t kGrainValues = 4096;
int64_t grain_of(const Groups& groups, int64_t columns) {
  const int64_t values = static_cast<int64_t>(groups.positions.size()) * columns;
  return kGrainValues * std::max<int64_t>(groups.count(), 1) / std::max<int64_t>(values, 1) + 1;
}

// One group's expansions, column by column, into at most as many rows as it has updates; a group
// that would not become shorter is copied. How many rows there are.
template <class T>
int64_t merge_sums(const T* source, int64_t columns, const int64_t* positions, int64_t items,
                   T* out) {
  const T zero = detail::bit_cast<T>(detail::FloatTraits<T>::kSign);  // -0 changes no sum
  int64_t length = items == 1 ? items + 1 : 1;
  if (items > 1) std::fill_n(out, items * columns, zero);
  for (int64_t c = 0; c < columns && length <= items; ++c) {
    const auto each = [&](auto&& f) {
      for (int64_t i = 0; i < items; ++i) f(source[positions[i] * columns + c]);
    };
    T* to = out + c;
    const int64_t parts = detail::Expansion<T>::of(each, items, [&](T part) {
      *to = part;
      to += columns;
    });
    length = std::max(length, parts);
  }
  if (length <= items) return length;
  for (int64_t i = 0; i < items; ++i)
    std::copy_n(source + positions[i] * columns, columns, out + i * columns);
  return items;
}

MergedRows merge_expansions(const Groups& groups, const Tensor& given) {
  const Tensor source = given.contiguous();
  const int64_t columns = columns_of(source), count = groups.count();
  const auto items = static_cast<int64_t>(groups.positions.size());
  Tensor rows = Tensor::empty(rows_like(source, items), source.dtype());
  std::vector<int64_t> lengths(static_cast<size_t>(count));
  int64_t used = 0;
  with_real(source.dtype(), [&](auto tag, int parts) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(source.data());
    T* to = static_cast<T*>(rows.data());
    const int64_t width = columns * parts;
    detail::parallel_for(0, count, grain_of(groups, width), [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) {
        lengths[g] = merge_sums(from, width, groups.positions.data() + groups.begins[g],
                                groups.items(g), to + groups.begins[g] * width);
      }
    });
    for (int64_t g = 0; g < count; ++g) {
      if (used != groups.begins[g] && width != 0)
        std::memmove(to + used * width, to + groups.begins[g] * width,
                     static_cast<size_t>(lengths[g] * width) * sizeof(T));
      used += lengths[g];
    }
  });
  return {rows.slice(0, 0, used), std::move(lengths)};
}

}  // namespace

MergedRows merge_groups(const Groups& groups, const Tensor& source, Reduce reduce) {
  const detail::FloatStateGuard guard;
  if (has_expansion(reduce, source.dtype())) return merge_expansions(groups, source);
  const int64_t count = groups.count();
  MergedRows merged{{}, std::vector<int64_t>(static_cast<size_t>(count), 1)};
  if (reduce == Reduce::assign) {
    std::vector<int64_t> last;
    for (int64_t g = 0; g < count; ++g) last.push_back(groups.positions[groups.begins[g + 1] - 1]);
    merged.rows =
        index_select(source, 0, Index(numbers(last).to(source.device()), Bounds::promise));
    return merged;
  }
  std::vector<int64_t> ranks(static_cast<size_t>(source.size(0)), -1 - count);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t k = groups.begins[g]; k < groups.begins[g + 1]; ++k)
      ranks[groups.positions[k]] = g;
  }
  merged.rows = Tensor::zeros(rows_like(source, count), source.dtype(), source.device());
  merged.rows.index_reduce_(0, Index(numbers(ranks).to(source.device()), Bounds::drop), source,
                            reduce, false);
  return merged;
}

Updates merge_updates(const Tensor& keys, const Tensor& source, ReduceName name) {
  const Tiles none({});
  const Reduce reduce = name.value();
  if (keys.dtype() != DType::int64 && keys.dtype() != DType::int32)
    fail(ErrorKind::type, "merge_updates: the keys are {}; they must be int32 or int64",
         keys.dtype());
  if (keys.dim() != 1 || source.dim() < 1 || source.size(0) != keys.numel())
    fail(ErrorKind::shape, "merge_updates: keys {} and source {}: one key for each row is needed",
         keys.shape(), source.shape());
  if (source.device().type != DeviceType::cpu)
    fail(ErrorKind::device, "merge_updates: the source is on {}; it must be on the CPU",
         to_string(source.device()));
  const Tensor plain = plain_keys(keys);
  const int64_t* first = plain.data<int64_t>();
  if (std::any_of(first, first + plain.numel(), [](int64_t key) { return key < 0; }))
    fail(ErrorKind::index, "merge_updates: a key is negative; places are counted from 0");
  const Groups groups = group_by_key(first, plain.numel());
  Updates updates;
  std::vector<int64_t> lengths;
  if (can_merge(reduce, source.dtype())) {
    MergedRows merged = merge_groups(groups, source, reduce);
    updates.rows = merged.rows;
    lengths = std::move(merged.lengths);
  } else {
    updates.rows = index_select(source, 0, Index(numbers(groups.positions), Bounds::promise));
    for (int64_t g = 0; g < groups.count(); ++g) lengths.push_back(groups.items(g));
  }
  const bool counted = reduce == Reduce::mean && can_merge(reduce, source.dtype());
  std::vector<int64_t> all_keys, counts;
  for (int64_t g = 0; g < groups.count(); ++g) {
    all_keys.insert(all_keys.end(), static_cast<size_t>(lengths[g]), groups.keys[g]);
    if (!counted) continue;
    counts.push_back(groups.items(g));
    counts.insert(counts.end(), static_cast<size_t>(lengths[g] - 1), 0);
  }
  updates.keys = numbers(all_keys);
  if (counted) updates.counts = numbers(counts);
  return updates;
}

Tensor index_mean_(const Tensor& x, const Updates& updates, bool include_self) {
  const Tiles none({});
  const detail::FloatStateGuard guard;
  if (!has_expansion(Reduce::mean, x.dtype()) || x.dtype() != updates.rows.dtype())
    fail(ErrorKind::type,
         "index_mean_: x is {} and the updates are {}; both must be one type of floats", x.dtype(),
         updates.rows.dtype());
  const int64_t count = updates.keys.numel();
  if (!updates.counts.defined() || updates.counts.numel() != count ||
      updates.rows.shape() != rows_like(x, count))
    fail(ErrorKind::shape,
         "index_mean_: keys {}, rows {}: a count for each key and a row of x's are needed",
         updates.keys.shape(), updates.rows.shape());
  const Tensor keys = plain_keys(updates.keys), counts = plain_keys(updates.counts);
  const Tensor rows = updates.rows.contiguous();
  const Groups groups = group_by_key(keys.data<int64_t>(), count);
  const Index places(numbers(groups.keys), Bounds::error);
  const Tensor old = include_self ? index_select(x, 0, places) : Tensor();
  const Tensor means = Tensor::empty(rows_like(x, groups.count()), x.dtype());
  const int64_t columns = columns_of(rows);
  with_real(x.dtype(), [&](auto tag, int parts) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(rows.data());
    const T* before = include_self ? static_cast<const T*>(old.data()) : nullptr;
    T* to = static_cast<T*>(means.data());
    const int64_t width = columns * parts;
    detail::parallel_for(
        0, groups.count(), grain_of(groups, width), [&](int64_t first, int64_t last) {
          for (int64_t g = first; g < last; ++g) {
            int64_t terms = include_self ? 1 : 0;
            for (int64_t k = groups.begins[g]; k < groups.begins[g + 1]; ++k)
              terms += counts.data<int64_t>()[groups.positions[k]];
            for (int64_t c = 0; c < width; ++c) {
              detail::LongAccumulator<T> sum;
              if (include_self) sum.add(before[g * width + c]);
              for (int64_t k = groups.begins[g]; k < groups.begins[g + 1]; ++k)
                sum.add(from[groups.positions[k] * width + c]);
              to[g * width + c] = static_cast<T>(sum.to_double() / static_cast<double>(terms));
            }
          }
        });
  });
  return x.index_copy_(0, places, means);
}

}  // namespace sow::distributed
