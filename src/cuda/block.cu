// Small problems, and many small ones side by side: each outer position is sorted and folded by one
// block in shared memory.
#include <algorithm>

#include "cuda/block_fold.cuh"
#include "cuda/strategies.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

namespace {

// The last update wins.
template <int W>
struct LastFold {
  using Stored = WordOf<W>;
  using Acc = Stored;
  using Partial = Stored;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = false;
  using Overwrites = void;  // what was there is not looked at

  __device__ Acc start() const { return {}; }
  __device__ Partial start_partial() const { return {}; }
  __device__ Partial to_partial(const Acc& acc) const { return acc; }
  __device__ void add(Acc& acc, const Stored& value) const { acc = value; }
  __device__ void merge(Partial& all, const Partial& next) const { all = next; }
  __device__ bool finish(const Acc& acc, const Stored&, int64_t, Stored& out) const {
    out = acc;
    return true;
  }
  __device__ bool finish_partial(const Acc& acc, const Stored&, int64_t, Stored& out) const {
    out = acc;
    return true;
  }
};

bool is_alone(const Problem& p) { return p.outer_count == 1; }

bool supports(const Case& c) {
  const Problem& p = c.problem;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty()) return false;
  if (!fits_problem(c.transfer, c.canonical) || p.item_count > kMostBlockItems) return false;
  if (p.dtype >= DType::complex64 && (p.reduce == Reduce::add || p.reduce == Reduce::mean)) return false;
  const int64_t places = p.outer_count == 0 ? 0 : p.places / p.outer_count;
  const bool fits = p.width <= 8 || p.item_count <= kMostBlockItems / 2;  // 48 KB of shared memory
  return fits && places < (int64_t{1} << (62 - kItemBits)) && p.outer_count < (int64_t{1} << 31);
}

int padded(int64_t items) {
  int size = 32;
  while (size < items) size *= 2;
  return size;
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double elements = static_cast<double>(p.item_count) * p.columns();
  const double one = 3000 + elements * (p.reduce == Reduce::mul ? 5 : 2);
  const double checked = is_alone(p) ? 0 : kCheckedCallNs;
  return 2 * kLaunchNs + checked + std::max(one, static_cast<double>(p.outer_count) * elements * (p.columns() == 1 ? 0.03 : 0.078));
}

size_t workspace(const Case&) { return 0; }

// How many operands could be bad.
bool can_report(const Case& c) {
  return is_alone(c.problem) && c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
}

template <int W>
void assign_as(const Launch& launch, const BlockArgs& a) {
  run_block(launch, a, LastFold<W>{});
}

void assign(const Launch& launch, const BlockArgs& a) {
  with_width(a.p.width, [&](auto w) { assign_as<decltype(w)::value>(launch, a); });
}

void run(const Launch& launch) {
  BlockArgs a = {};
  a.p = launch.problem;
  a.size = padded(a.p.item_count);
  a.alone = launch.flag == nullptr && can_report(launch.problem_case);
  a.checked = a.alone && make_reporter(launch.context, launch.problem_case.transfer, a.reporter);
  a.flag = launch.flag;
  // Keys of every block are looked at before any block writes.
  if (launch.flag != nullptr) mark_bad_keys(launch.context, launch.problem_case.transfer, launch.flag);
  if (a.p.reduce == Reduce::assign) assign(launch, a);
  else fold_all(launch, {}, {}, &a);
}

}  // namespace

const Strategy kBlock = {"block", "each outer position sorted and folded by one block in shared memory",
                         supports, cost, workspace, run, can_report};

}  // namespace sow::detail::cuda
