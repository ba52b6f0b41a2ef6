// SPDX-License-Identifier: Apache-2.0
// Orders the updates by destination and hands each destination's to a kernel.
#include "transfer/indexed_backward.h"

#include "core/dtype_switch.h"
#include "core/threads/float_state.h"
#include "core/threads/parallel.h"
#include "cpu/backward/backward_kernels.h"
#include "cpu/sort/held_order.h"
#include "cpu/sort/row_order.h"

namespace sow::detail {

namespace {

constexpr int64_t kSerial = 1 << 14;  // updates below which one thread is enough

// The order of a held index, as RowOrder would have made it.
class HeldOrder {
 public:
  HeldOrder(const Transfer& t, const Canonical& c)
      : order_(*t.order), places_(item_places(t)), sources_(item_sources(t, c)) {}
  static bool fits(const Transfer& t, const Canonical& c) {
    return usable_order(t, c) != nullptr && c.outer.empty() && c.items.size() == 1;
  }

  const OffsetIds& places() const { return places_; }
  const OffsetIds& sources() const { return sources_; }
  const uint32_t* keys() const { return order_.keys.data(); }
  const uint32_t* ids() const { return order_.positions.data(); }
  const uint32_t* begins() const { return order_.begins.data(); }
  int64_t segments() const { return static_cast<int64_t>(order_.begins.size()) - 1; }
  int64_t items() const { return static_cast<int64_t>(order_.keys.size()); }

 private:
  const IndexOrder& order_;
  OffsetIds places_, sources_;
};

// Calls kernel(destination offset, source offsets) for segments [first, last) of an order.
template <class Order, class Kernel>
void walk(const Order& order, const OuterBase& base, int64_t first, int64_t last, Kernel kernel) {
  const uint32_t* begins = order.begins();
  const OffsetIds places = order.places(), sources = order.sources();
  constexpr int64_t kPrefetchAhead = 2;
  for (int64_t s = first; s < last; ++s) {
    if (s + kPrefetchAhead < last)
      kernel.prefetch_place(base.dst + places.offset_of(order.keys()[begins[s + kPrefetchAhead]]));
    const PlaceUpdates updates{order.ids() + begins[s], begins[s + 1] - begins[s],
                               order.items() - begins[s], base.src + sources.lowest(),
                               sources.step()};
    kernel(base.dst + places.offset_of(order.keys()[begins[s]]), updates);
  }
  if (kernel.row.streams) finish_streams();
}

// Which segment the share of a worker begins with: items are divided, not destinations.
template <class Order>
int64_t first_segment(const Order& order, int64_t item) {
  const uint32_t* begins = order.begins();
  return std::lower_bound(begins, begins + order.segments(), static_cast<uint32_t>(item)) - begins;
}

template <class Order, class Kernel>
void walk_on_threads(const Order& order, const OuterBase& base, int threads, const Kernel& kernel) {
  parallel_run(threads, [&](int index, int count) {
    walk(order, base, first_segment(order, order.items() * index / count),
         index + 1 == count ? order.segments()
                            : first_segment(order, order.items() * (index + 1) / count),
         kernel);
  });
}

// How the walk is shared out.
struct Sharing {
  int threads;
  bool held;   // somebody has ordered the keys
  bool apart;  // every worker takes outer positions of its own
};

Sharing sharing_of(const Transfer& t, const Canonical& c, int threads) {
  const int64_t updates = c.outer_count * c.item_count * c.row.size;
  if (updates < kSerial) threads = 1;
  return {threads, HeldOrder::fits(t, c), c.outer_count >= threads};
}

size_t order_bytes(const Transfer& t, const Canonical& c, int workers) {
  Carver size(nullptr);
  RowOrder measure(t, c, workers, size);
  return size.used();
}

template <class Kernel>
void walk_shared(const Transfer& t, const Canonical& c, int threads, char* memory,
                 const Kernel& kernel) {
  Carver carver(memory);
  RowOrder order(t, c, threads, carver);
  for (int64_t position = 0; position < c.outer_count; ++position) {
    const OuterBase base = outer_base(c, position);
    order.build(base);
    walk_on_threads(order, base, threads, kernel);
  }
}

template <class Kernel>
void walk_apart(const Transfer& t, const Canonical& c, int threads, char* memory,
                const Kernel& kernel) {
  const size_t bytes = order_bytes(t, c, 1);
  parallel_run(threads, [&](int index, int count) {
    Carver carver(memory + bytes * static_cast<size_t>(index));
    RowOrder order(t, c, 1, carver);
    for (int64_t at = c.outer_count * index / count; at < c.outer_count * (index + 1) / count;
         ++at) {
      const OuterBase base = outer_base(c, at);
      order.build(base);
      walk(order, base, 0, order.segments(), kernel);
    }
  });
}

// What every walk needs but its kernel.
struct Place {
  const Transfer& transfer;
  const Canonical& canonical;
  int threads;
  char* memory;

  template <class Kernel>
  void walk_all(Kernel kernel) const {
    const Transfer& t = transfer;
    const Canonical& c = canonical;
    const int64_t updates = c.outer_count * c.item_count * c.row.size;
    const int64_t bytes = updates * static_cast<int64_t>(size_of(t.dtype));
    kernel.row.streams = bytes >= kStreamingBytes && can_stream();
    const Sharing sharing = sharing_of(t, c, threads);
    if (sharing.held) {
      walk_on_threads(HeldOrder(t, c), outer_base(c, 0), sharing.threads, kernel);
    } else if (sharing.apart) {
      walk_apart(t, c, sharing.threads, memory, kernel);
    } else {
      walk_shared(t, c, sharing.threads, memory, kernel);
    }
  }
};

template <class T>
void run_typed(const IndexedBackward& work, const Place& place) {
  const Axis& row = place.canonical.row;
  if (work.reduce == Reduce::mul) return place.walk_all(ProductKernel<T>(work, row));
  if (work.reduce == Reduce::mean) return place.walk_all(MeanKernel<T>(work, row));
  if constexpr (!is_complex_number<T>) place.walk_all(ExtremeKernel<T>(work, row));
}

void run_assign(const IndexedBackward& work, const Place& place) {
  const Axis& row = place.canonical.row;
  switch (size_of(work.dtype)) {
    case 2:
      return place.walk_all(AssignKernel<uint16_t>(work, row));
    case 4:
      return place.walk_all(AssignKernel<uint32_t>(work, row));
    case 8:
      return place.walk_all(AssignKernel<uint64_t>(work, row));
    default:
      return place.walk_all(AssignKernel<std::complex<double>>(work, row));
  }
}

}  // namespace

bool can_run_indexed_backward(const Transfer& t) {
  const Canonical c = canonicalize(t);
  constexpr int64_t kMost = int64_t{1} << 32;
  return !c.empty && c.item_count < kMost - 1 && item_places(t).count() < kMost &&
         item_sources(t, c).count() < kMost;
}

size_t indexed_backward_workspace(const Transfer& t, const Canonical& c, int threads) {
  const Sharing sharing = sharing_of(t, c, threads);
  if (sharing.held) return 0;
  return sharing.apart ? order_bytes(t, c, 1) * static_cast<size_t>(sharing.threads)
                       : order_bytes(t, c, sharing.threads);
}

void run_indexed_backward(const IndexedBackward& work, const Transfer& places, const Canonical& c,
                          int threads, char* workspace) {
  const FloatStateGuard guard;
  const Place place{places, c, threads, workspace};
  if (work.reduce == Reduce::assign) return run_assign(work, place);
  with_dtype(work.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) run_typed<T>(work, place);
  });
}

}  // namespace sow::detail
