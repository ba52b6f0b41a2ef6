// SPDX-License-Identifier: Apache-2.0
// Scatters and gathers on destinations that are cut by rows: keys to their owners, updates merged
// where that pays, one call on each part.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "core/fail.h"
#include "core/tensor/layout.h"
#include "core/text.h"
#include "distributed/groups.h"
#include "ops/op.h"
#include "sow/distributed.h"
#include "sow/limits.h"
#include "sow/math.h"
#include "sow/ops.h"
#include "transfer/transfer.h"

namespace sow::distributed {

using detail::fail;
using detail::text;

namespace {

using Counts = std::vector<int64_t>;

// From so many updates of a place on, over all ranks, they are merged before they travel.
// Expansions cost 40 ns a value and thread, which a link of 100 MB/s for each thread needs too (2
// cores of a Zen 4 class EPYC, 2026-11-16); the others are quicker.
constexpr double kMergeFrom = 1.5;
constexpr double kExpandFrom = 8;

int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

// Keys are held once each: how many updates a key has travels only where somebody needs it.
struct ShardedIndex::State {
  std::shared_ptr<Exchange> exchange;
  Counts cuts;        // where each rank's rows begin, and the end
  int64_t count = 0;  // keys given here
  Groups groups;      // of those that are kept, by global key
  Counts send_keys;   // how many keys go to each rank, and come from each
  Counts receive_keys;
  Counts send_updates;  // and how many updates
  Tensor keys;          // received, counted from this rank's first row
  double repeats = 1;   // updates for each key, over all ranks
  bool held = false;

  // Once somebody asked for them: how many updates come from each rank, and how many each key has.
  Counts receive_updates, key_repeats;
  std::optional<Index> all_keys;  // the key of each update, and
  std::optional<Index> each_key;  // of each key, as the local call wants them

  int rank() const { return exchange->rank(); }
  int64_t mine() const { return cuts[rank() + 1] - cuts[rank()]; }

  Index local(const Tensor& these) const {
    return held ? Index::hold(these, mine(), Bounds::promise) : Index(these, Bounds::promise);
  }
  const Index& unmerged_keys() {
    if (all_keys) return *all_keys;
    if (repeats == 1) {
      receive_updates = receive_keys;
      key_repeats.assign(static_cast<size_t>(keys.numel()), 1);
      all_keys = once_each();
      return *all_keys;
    }
    Counts lengths;
    for (int64_t g = 0; g < groups.count(); ++g) lengths.push_back(groups.items(g));
    Received repeated = receive(lengths);
    receive_updates = std::move(repeated.counts);
    key_repeats = std::move(repeated.lengths);
    all_keys = local(repeated.keys);
    return *all_keys;
  }
  const Index& once_each() {
    if (!each_key) each_key = local(keys);
    return *each_key;
  }

  // Tells every owner how many rows each of its keys has.
  struct Received {
    Counts counts, lengths;
    Tensor keys;
  };
  Received receive(const Counts& lengths) const {
    const Tensor short_lengths = Tensor::empty({groups.count()}, DType::int32);
    std::copy(lengths.begin(), lengths.end(), short_lengths.data<int32_t>());
    const Tensor theirs = exchange->all_to_all(short_lengths, send_keys, receive_keys);
    const auto* length = theirs.data<int32_t>();
    Received out;
    int64_t at = 0;
    Counts repeated;
    for (const int64_t from_rank : receive_keys) {
      int64_t sum = 0;
      for (int64_t i = 0; i < from_rank; ++i, ++at) {
        sum += length[at];
        out.lengths.push_back(length[at]);
        repeated.insert(repeated.end(), static_cast<size_t>(length[at]), keys.data<int64_t>()[at]);
      }
      out.counts.push_back(sum);
    }
    out.keys = numbers(repeated);
    return out;
  }
};

namespace {

using State = ShardedIndex::State;

// Wraps, checks, clips or marks (-1) each key. The first bad one is an error as of one process.
void resolve_keys(const char* op, Tensor& keys, int64_t size, Bounds bounds, const Dims& shape) {
  auto* key = keys.data<int64_t>();
  for (int64_t at = 0; at < keys.numel(); ++at) {
    const int64_t given = key[at];
    const int64_t wrapped = given < 0 ? given + size : given;
    if (wrapped >= 0 && wrapped < size) {
      key[at] = wrapped;
    } else if (bounds == Bounds::drop) {
      key[at] = -1;
    } else if (bounds == Bounds::clip && size > 0) {
      key[at] = wrapped < 0 ? 0 : size - 1;
    } else {
      Dims position(shape.size(), 0);
      int64_t rest = at;
      for (int d = shape.rank() - 1; d >= 0; rest /= shape[d--]) position[d] = rest % shape[d];
      const std::string valid = size == 0 ? std::string("none") : text("{} to {}", -size, size - 1);
      fail(ErrorKind::index,
           "{}: index {} at position {} is out of range for axis 0 of size {} (valid: {})", op,
           given, position, size, valid);
    }
  }
}

// The keys, which may fail here, to their owners. All ranks come here or none does.
std::shared_ptr<State> route(const char* op, const std::shared_ptr<Exchange>& exchange,
                             const Counts& rows,
                             const std::function<Tensor(int64_t size)>& keys_for) {
  auto state = std::make_shared<State>();
  state->exchange = exchange;
  state->cuts.assign(1, 0);
  for (const int64_t each : rows) state->cuts.push_back(state->cuts.back() + each);
  std::optional<Error> problem;
  Groups& groups = state->groups;
  try {
    const Tensor keys = keys_for(state->cuts.back());
    state->count = keys.numel();
    groups = group_by_key(keys.data<int64_t>(), keys.numel());
  } catch (const Error& error) {
    problem = error;
  }
  const auto updates = static_cast<int64_t>(groups.positions.size());
  const Counts all_updates = agree(*exchange, op, "keys", updates, problem ? &*problem : nullptr);
  state->send_keys.assign(rows.size(), 0);
  state->send_updates.assign(rows.size(), 0);
  size_t owner = 0;
  for (int64_t g = 0; g < groups.count(); ++g) {
    while (groups.keys[g] >= state->cuts[owner + 1]) ++owner;
    ++state->send_keys[owner];
    state->send_updates[owner] += groups.items(g);
  }
  // The number of keys of all ranks comes with the counts.
  Counts told;
  for (const int64_t each : state->send_keys) {
    told.push_back(each);
    told.push_back(groups.count());
  }
  const Counts twos(rows.size(), 2);
  const Counts heard = exchange->all_to_all(numbers(told), twos, twos).to_vector<int64_t>();
  int64_t all_keys = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    state->receive_keys.push_back(heard[2 * r]);
    all_keys += heard[2 * r + 1];
  }
  if (all_keys > 0)
    state->repeats = static_cast<double>(total(all_updates)) / static_cast<double>(all_keys);
  state->keys = exchange->all_to_all(numbers(groups.keys), state->send_keys, state->receive_keys);
  auto* key = state->keys.data<int64_t>();
  for (int64_t at = 0; at < state->keys.numel(); ++at) key[at] -= state->cuts[exchange->rank()];
  return state;
}

std::shared_ptr<State> route_index(const char* op, const std::shared_ptr<Exchange>& exchange,
                                   const Counts& rows, const Tensor& keys, Bounds bounds) {
  return route(op, exchange, rows, [&](int64_t size) {
    Tensor plain = plain_keys(keys).clone();
    resolve_keys(op, plain, size, bounds, keys.shape());
    return plain;
  });
}

void expect_keys(const char* op, const Tensor& keys) {
  if (keys.dtype() != DType::int32 && keys.dtype() != DType::int64)
    fail(ErrorKind::type, "{}: the index is {}; an index must be int32 or int64", op, keys.dtype());
  if (keys.dim() > 1)
    fail(ErrorKind::shape, "{}: the index has shape {}; it must be 1-D", op, keys.shape());
}

void expect_part(const char* op, const Tensor& x, bool written) {
  if (x.dim() == 0) fail(ErrorKind::shape, "{}: x is 0-d; it must have rows", op);
  if (!written) return;
  if (x.read_only()) fail(ErrorKind::overlap, "{}: the destination is read-only", op);
  if (detail::self_overlap(x.shape(), x.strides()) != detail::SelfOverlap::no)
    fail(ErrorKind::overlap, "{}: the destination of shape {} overlaps itself; write into a copy",
         op, x.shape());
}

void expect_source(const char* op, const Tensor& x, int64_t keys, const Tensor& source,
                   Reduce reduce) {
  if (x.dtype() != source.dtype())
    fail(ErrorKind::type, "{}: x is {} but source is {}; they must have the same type", op,
         x.dtype(), source.dtype());
  if (x.device() != source.device())
    fail(ErrorKind::device, "{}: operands are on {} and {}; they must be on one device", op,
         to_string(x.device()), to_string(source.device()));
  if (source.dim() != x.dim() || source.shape() != rows_like(x, keys))
    fail(ErrorKind::shape, "{}: source has shape {}; for {} keys and x {} it must be {}", op,
         source.shape(), keys, x.shape(), rows_like(x, keys));
  detail::expect_reducible(op, reduce, x.dtype());
}

// What must be the same on every rank.
std::string about(const Tensor& x, std::optional<Reduce> reduce, bool include_self, Bounds bounds) {
  std::string row = to_string(rows_like(x, 0));
  row = "[rows" + row.substr(2);
  std::string out =
      text("{} {} on {}", x.dtype(), row, x.device().type == DeviceType::cpu ? "cpu" : "cuda");
  if (reduce) out += text(" by {}{}", name_of(*reduce), include_self ? "" : " without self");
  static constexpr const char* kBounds[] = {"error", "drop", "clip", "promise"};
  return out + ", bounds " + kBounds[static_cast<int>(bounds)];
}

// Runs what looks at this rank's arguments alone, and agrees.
template <class F>
Counts checked(Exchange& exchange, const char* op, const Tensor& x, std::optional<Reduce> reduce,
               bool include_self, Bounds bounds, F&& check) {
  std::optional<Error> problem;
  std::string words;
  try {
    check();
    words = about(x, reduce, include_self, bounds);
  } catch (const Error& error) {
    problem = error;
  }
  return agree(exchange, op, words, x.dim() > 0 ? x.size(0) : 0, problem ? &*problem : nullptr);
}

void expect_cuts(const char* op, const State& state, const Tensor& x) {
  if (x.dim() > 0 && x.size(0) != state.mine())
    fail(ErrorKind::shape, "{}: x has {} rows; the index was made for {}", op, x.size(0),
         state.mine());
}

Index on(const Tensor& x, const Index& keys) {
  if (x.device().type == DeviceType::cpu) return keys;
  return Index(keys.keys().to(x.device()), Bounds::promise);
}

Tensor send_unmerged(State& state, const Tensor& source) {
  state.unmerged_keys();
  const Tensor sorted = index_select(
      source, 0, Index(numbers(state.groups.positions).to(source.device()), Bounds::promise));
  return state.exchange->all_to_all(sorted, state.send_updates, state.receive_updates);
}

Tensor send_merged_sums(State& state, const Tensor& x, const MergedRows& merged, Reduce reduce,
                        bool include_self) {
  const State::Received told = state.receive(merged.lengths);
  Counts send(state.send_keys.size(), 0);
  int64_t group = 0;
  for (size_t r = 0; r < send.size(); ++r) {
    for (int64_t i = 0; i < state.send_keys[r]; ++i) send[r] += merged.lengths[group++];
  }
  const Tensor rows = state.exchange->all_to_all(merged.rows, send, told.counts);
  if (reduce == Reduce::add)
    return x.index_reduce_(0, Index(told.keys, Bounds::promise), rows, reduce, include_self);
  state.unmerged_keys();  // how many updates each key has, exchanged once
  const Updates updates{told.keys, rows, Tensor::zeros({told.keys.numel()}, DType::int64)};
  int64_t at = 0;
  for (size_t key = 0; key < told.lengths.size(); ++key) {
    updates.counts.data<int64_t>()[at] = state.key_repeats[key];
    at += told.lengths[key];
  }
  return index_mean_(x, updates, include_self);
}

Tensor run_reduce(State& state, const Tensor& x, const Tensor& source, Reduce reduce,
                  bool include_self) {
  const bool here = x.device().type == DeviceType::cpu;
  const bool merges =
      state.repeats > 1 && can_merge(reduce, x.dtype()) &&
      (reduce == Reduce::assign ||
       (here && state.repeats >= (has_expansion(reduce, x.dtype()) ? kExpandFrom : kMergeFrom)));
  if (!merges) {
    const Tensor rows = send_unmerged(state, source);
    return x.index_reduce_(0, on(x, *state.all_keys), rows, reduce, include_self);
  }
  const MergedRows merged = merge_groups(state.groups, source, reduce);
  if (has_expansion(reduce, x.dtype()))
    return send_merged_sums(state, x, merged, reduce, include_self);
  const Tensor rows = state.exchange->all_to_all(merged.rows, state.send_keys, state.receive_keys);
  return x.index_reduce_(0, on(x, state.once_each()), rows, reduce, include_self);
}

Tensor run_select(State& state, const Tensor& x) {
  const Tensor theirs = index_select(x, 0, on(x, state.once_each()));
  const Tensor found = state.exchange->all_to_all(theirs, state.receive_keys, state.send_keys);
  const int64_t keys = state.groups.count();
  Counts ranks(static_cast<size_t>(state.count), keys);  // one past the end: zeros
  for (int64_t g = 0; g < keys; ++g) {
    for (int64_t k = state.groups.begins[g]; k < state.groups.begins[g + 1]; ++k)
      ranks[state.groups.positions[k]] = g;
  }
  return index_select(found, 0, Index(numbers(ranks).to(x.device()), Bounds::drop));
}

Tensor reduce_held(const char* op, const Tensor& x, const ShardedIndex& index, const Tensor& source,
                   Reduce reduce, bool include_self) {
  const Tiles none({});  // of the caller's: what travels is no destination of theirs
  State& state = index.state();
  checked(*state.exchange, op, x, reduce, include_self, Bounds::error, [&] {
    expect_part(op, x, true);
    expect_cuts(op, state, x);
    expect_source(op, x, state.count, source, reduce);
  });
  return run_reduce(state, x, source, reduce, include_self);
}

Tensor reduce_once(const char* op, const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                   const Index& index, const Tensor& source, Reduce reduce, bool include_self) {
  const Tiles none({});
  const Counts rows = checked(*exchange, op, x, reduce, include_self, index.bounds(), [&] {
    expect_part(op, x, true);
    expect_keys(op, index.keys());
    expect_source(op, x, index.keys().numel(), source, reduce);
  });
  const auto state = route_index(op, exchange, rows, index.keys(), index.bounds());
  return run_reduce(*state, x, source, reduce, include_self);
}

}  // namespace

ShardedIndex::ShardedIndex(std::shared_ptr<Exchange> exchange, const Tensor& keys, int64_t rows,
                           Bounds bounds) {
  const Tiles none({});
  std::optional<Error> problem;
  try {
    expect_keys("ShardedIndex", keys);
    if (rows < 0)
      fail(ErrorKind::argument, "ShardedIndex: rows is {}; it must not be negative", rows);
  } catch (const Error& error) {
    problem = error;
  }
  const Counts all = agree(*exchange, "ShardedIndex", "keys", rows, problem ? &*problem : nullptr);
  state_ = route_index("ShardedIndex", exchange, all, keys, bounds);
  state_->held = true;
}

int64_t ShardedIndex::size() const { return state_->cuts.back(); }
int64_t ShardedIndex::count() const { return state_->count; }
Tensor ShardedIndex::local_keys() const { return state_->unmerged_keys().keys(); }
Tensor ShardedIndex::send(const Tensor& source) const {
  const Tiles none({});
  return send_unmerged(*state_, source);
}

Tensor ShardedIndex::send_back(const Tensor& rows) const {
  const Tiles none({});
  State& state = *state_;
  state.unmerged_keys();
  const Tensor sorted = state.exchange->all_to_all(rows, state.receive_updates, state.send_updates);
  const Tensor out = Tensor::zeros(rows_like(rows, state.count), rows.dtype(), rows.device());
  const Tensor positions = numbers(state.groups.positions).to(rows.device());
  return out.index_copy_(0, Index(positions, Bounds::promise), sorted);
}

Tensor index_add_(const Tensor& x, const ShardedIndex& index, const Tensor& source) {
  return reduce_held("index_add_", x, index, source, Reduce::add, true);
}
Tensor index_copy_(const Tensor& x, const ShardedIndex& index, const Tensor& source) {
  return reduce_held("index_copy_", x, index, source, Reduce::assign, true);
}
Tensor index_reduce_(const Tensor& x, const ShardedIndex& index, const Tensor& source,
                     ReduceName reduce, bool include_self) {
  return reduce_held("index_reduce_", x, index, source, reduce.value(), include_self);
}
Tensor index_select(const Tensor& x, const ShardedIndex& index) {
  const Tiles none({});
  State& state = index.state();
  checked(*state.exchange, "index_select", x, {}, true, Bounds::error, [&] {
    expect_part("index_select", x, false);
    expect_cuts("index_select", state, x);
  });
  return run_select(state, x);
}

Tensor index_add_(const std::shared_ptr<Exchange>& exchange, const Tensor& x, const Index& index,
                  const Tensor& source) {
  return reduce_once("index_add_", exchange, x, index, source, Reduce::add, true);
}
Tensor index_copy_(const std::shared_ptr<Exchange>& exchange, const Tensor& x, const Index& index,
                   const Tensor& source) {
  return reduce_once("index_copy_", exchange, x, index, source, Reduce::assign, true);
}
Tensor index_reduce_(const std::shared_ptr<Exchange>& exchange, const Tensor& x, const Index& index,
                     const Tensor& source, ReduceName reduce, bool include_self) {
  return reduce_once("index_reduce_", exchange, x, index, source, reduce.value(), include_self);
}
Tensor index_select(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                    const Index& index) {
  const Tiles none({});
  const Counts rows = checked(*exchange, "index_select", x, {}, true, index.bounds(), [&] {
    expect_part("index_select", x, false);
    expect_keys("index_select", index.keys());
  });
  return run_select(*route_index("index_select", exchange, rows, index.keys(), index.bounds()), x);
}

namespace {

// Coordinates as keys of the flattened leading axes. The components are checked as the rows are,
// each against its axis.
Tensor linear_keys(const char* op, const Tensor& indices, int64_t rows, const Tensor& x,
                   Bounds bounds) {
  const int64_t depth = indices.size(-1), count = depth == 0 ? 0 : indices.numel() / depth;
  const Tensor coordinates = plain_keys(indices);
  const Tensor keys = Tensor::empty({count}, DType::int64);
  const auto* given = coordinates.data<int64_t>();
  for (int64_t at = 0; at < count; ++at) {
    int64_t key = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t size = d == 0 ? rows : x.size(d);
      int64_t place = given[at * depth + d];
      if (place < 0) place += size;
      if (bounds == Bounds::clip && size > 0) place = std::clamp<int64_t>(place, 0, size - 1);
      if (place < 0 || place >= size) {
        if (bounds == Bounds::drop) {
          key = -1;
          break;
        }
        const std::string valid =
            size == 0 ? std::string("none") : text("{} to {}", -size, size - 1);
        fail(ErrorKind::index,
             "{}: index {} at position [{}, {}] is out of range for axis {} of size {} (valid: {})",
             op, given[at * depth + d], at, d, d, size, valid);
      }
      key = key * size + place;
    }
    keys.data<int64_t>()[at] = key;
  }
  return keys;
}

}  // namespace

namespace {

void expect_coordinates(const char* op, const Tensor& indices, const Tensor& x) {
  if (indices.dtype() != DType::int32 && indices.dtype() != DType::int64)
    fail(ErrorKind::type, "{}: the index is {}; an index must be int32 or int64", op,
         indices.dtype());
  if (indices.dim() == 0 || indices.size(-1) == 0 || indices.size(-1) > x.dim())
    fail(ErrorKind::shape, "{}: indices have shape {}; the last extent must be 1 to {}", op,
         indices.shape(), x.dim());
}

std::shared_ptr<State> route_coordinates(const char* op, const std::shared_ptr<Exchange>& exchange,
                                         Counts rows, const Index& indices, const Tensor& x) {
  int64_t inner = 1;
  for (int64_t d = 1; d < indices.keys().size(-1); ++d) inner *= x.size(d);
  for (int64_t& each : rows) each *= inner;
  return route(op, exchange, rows, [&](int64_t size) {
    return linear_keys(op, indices.keys(), inner == 0 ? 0 : size / inner, x, indices.bounds());
  });
}

}  // namespace

ShardedIndex ShardedIndex::of_coordinates(std::shared_ptr<Exchange> exchange, const Index& indices,
                                          const Tensor& x) {
  const char* op = "ShardedIndex";
  const Tiles none({});
  const Counts rows = checked(*exchange, op, x, {}, true, indices.bounds(), [&] {
    expect_part(op, x, false);
    expect_coordinates(op, indices.keys(), x);
  });
  auto state = route_coordinates(op, exchange, rows, indices, x);
  state->held = true;
  return ShardedIndex(std::move(state));
}

Tensor tensor_scatter_nd_(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                          const Index& indices, const Tensor& updates, ReduceName reduce,
                          bool negate) {
  const Tiles none({});
  const char* op = "tensor_scatter_nd_";
  const Tensor& given = indices.keys();
  Tensor flat, rows_of;
  const Counts rows = checked(*exchange, op, x, reduce.value(), true, indices.bounds(), [&] {
    expect_part(op, x, true);
    expect_coordinates(op, given, x);
    if (!x.is_contiguous()) fail(ErrorKind::argument, "{}: x must be row-major", op);
    Dims expected, flat_shape{1}, rows_shape{1};
    for (int d = 0; d + 1 < given.dim(); ++d) {
      expected.push_back(given.size(d));
      rows_shape[0] *= given.size(d);
    }
    for (int d = 0; d < x.dim(); ++d) {
      if (d < given.size(-1)) {
        flat_shape[0] *= x.size(d);
        continue;
      }
      for (Dims* shape : {&expected, &flat_shape, &rows_shape}) shape->push_back(x.size(d));
    }
    if (updates.shape() != expected)
      fail(ErrorKind::shape, "{}: updates have shape {}; for indices {} and x {} it must be {}", op,
           updates.shape(), given.shape(), x.shape(), expected);
    flat = x.reshape(flat_shape);
    rows_of = updates.reshape(rows_shape);
    expect_source(op, flat, rows_shape[0], rows_of, reduce.value());
    if (negate) rows_of = neg(rows_of);
  });
  const auto state = route_coordinates(op, exchange, rows, indices, x);
  run_reduce(*state, flat, rows_of, reduce.value(), true);
  return x;
}

}  // namespace sow::distributed
