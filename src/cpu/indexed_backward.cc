// Orders the updates by destination and hands each destination's to a kernel.
#include "cpu/indexed_backward.h"

#include "core/dtype_switch.h"
#include "core/float_state.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/backward_kernels.h"
#include "cpu/held_rows.h"
#include "cpu/row_order.h"

namespace sow::detail {

namespace {

constexpr int64_t kSerial = 1 << 14;  // updates below which one thread is enough

class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes), data_(static_cast<char*>(allocate(bytes))) {}
  ~Block() { deallocate(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_;
};

// The order of a held index, as RowOrder would have made it.
class HeldOrder {
 public:
  HeldOrder(const Transfer& t, const Canonical& c)
      : order_(*t.order), places_(item_places(t)), sources_(item_sources(t, c)) {}
  static bool fits(const Transfer& t, const Canonical& c) {
    return usable_order(t, c) != nullptr && c.outer.empty() && c.items.size() == 1;
  }

  const PlaceCode& places() const { return places_; }
  const PlaceCode& sources() const { return sources_; }
  const uint32_t* keys() const { return order_.keys.data(); }
  const uint32_t* codes() const { return order_.positions.data(); }
  const uint32_t* begins() const { return order_.begins.data(); }
  int64_t segments() const { return static_cast<int64_t>(order_.begins.size()) - 1; }
  int64_t items() const { return static_cast<int64_t>(order_.keys.size()); }

 private:
  const IndexOrder& order_;
  PlaceCode places_, sources_;
};

// Calls kernel(destination offset, source offsets) for segments [first, last) of an order.
template <class Order, class Kernel>
void walk(const Order& order, const OuterBase& base, int64_t first, int64_t last,
          const Kernel& kernel) {
  const uint32_t* begins = order.begins();
  const PlaceCode places = order.places(), sources = order.sources();
  for (int64_t s = first; s < last; ++s) {
    const PlaceUpdates updates{order.codes() + begins[s], begins[s + 1] - begins[s],
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

template <class Kernel>
void walk_shared(const Transfer& t, const Canonical& c, int threads, const Kernel& kernel) {
  Carver size(nullptr);
  RowOrder measure(t, c, threads, size);
  const Block memory(size.used());
  Carver carver(memory.data());
  RowOrder order(t, c, threads, carver);
  for (int64_t position = 0; position < c.outer_count; ++position) {
    const OuterBase base = outer_base(c, position);
    order.build(base);
    walk_on_threads(order, base, threads, kernel);
  }
}

template <class Kernel>
void walk_apart(const Transfer& t, const Canonical& c, int threads, const Kernel& kernel) {
  Carver size(nullptr);
  RowOrder measure(t, c, 1, size);
  const Block memory(size.used() * threads);
  parallel_run(threads, [&](int index, int count) {
    Carver carver(memory.data() + size.used() * index);
    RowOrder order(t, c, 1, carver);
    for (int64_t at = c.outer_count * index / count; at < c.outer_count * (index + 1) / count;
         ++at) {
      const OuterBase base = outer_base(c, at);
      order.build(base);
      walk(order, base, 0, order.segments(), kernel);
    }
  });
}

template <class Kernel>
void walk_all(const Transfer& t, const Canonical& c, Kernel kernel) {
  const int64_t updates = c.outer_count * c.item_count * c.row.size;
  const int64_t bytes = updates * static_cast<int64_t>(size_of(t.dtype));
  kernel.row.streams = bytes >= kStreamingBytes && can_stream();
  const int threads = updates < kSerial || !can_run_parallel() ? 1 : get_num_threads();
  if (HeldOrder::fits(t, c)) {
    walk_on_threads(HeldOrder(t, c), outer_base(c, 0), threads, kernel);
  } else if (c.outer_count >= threads) {
    walk_apart(t, c, threads, kernel);
  } else {
    walk_shared(t, c, threads, kernel);
  }
}

template <class T>
void run_typed(const IndexedBackward& work, const Canonical& c) {
  if (work.reduce == Reduce::mul) {
    return walk_all(work.places, c, ProductKernel<T>(work, c.row));
  }
  if (work.reduce == Reduce::mean) return walk_all(work.places, c, MeanKernel<T>(work, c.row));
  if constexpr (!is_complex_number<T>) walk_all(work.places, c, ExtremeKernel<T>(work, c.row));
}

void run_assign(const IndexedBackward& work, const Canonical& c) {
  switch (size_of(work.dtype)) {
    case 2:
      return walk_all(work.places, c, AssignKernel<uint16_t>(work, c.row));
    case 4:
      return walk_all(work.places, c, AssignKernel<uint32_t>(work, c.row));
    case 8:
      return walk_all(work.places, c, AssignKernel<uint64_t>(work, c.row));
    default:
      return walk_all(work.places, c, AssignKernel<std::complex<double>>(work, c.row));
  }
}

}  // namespace

bool can_run_indexed_backward(const Transfer& t) {
  const Canonical c = canonicalize(t);
  constexpr int64_t kMost = int64_t{1} << 32;
  return !c.empty && c.item_count < kMost - 1 && item_places(t).count() < kMost &&
         item_sources(t, c).count() < kMost;
}

void run_indexed_backward(const IndexedBackward& work) {
  const FloatStateGuard guard;
  const Canonical c = canonicalize(work.places);
  if (work.reduce == Reduce::assign) return run_assign(work, c);
  with_dtype(work.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) run_typed<T>(work, c);
  });
}

}  // namespace sow::detail
