// SPDX-License-Identifier: Apache-2.0
// Random Transfers: first the dimensions and what each one is for, then operands that fit them.
#include "transfer/random_transfer.h"

#include "core/text.h"
#include "random_values.h"

namespace sow::test {

using detail::IndexOperand;
using detail::MaskSide;
using detail::Operand;
using detail::Transfer;

namespace {

constexpr int64_t kGuard = 64;  // elements on each side of a destination

// A dimension of the Transfer: either it walks along the destination, or all its positions may
// meet in one place.
struct Dimension {
  int64_t size;
  bool item;
};

struct Outline {
  std::vector<Dimension> dims;
  std::vector<int64_t> extents;  // of the axes that dst_index addresses
  int index_on_outer = 0;        // percent: how often an index depends on an outer dimension
  int hot = 0;                   // percent: how often a key is the favourite one
};

// Elements reached from a data pointer.
struct Footprint {
  int64_t least = 0, most = 0;
  void extend(int64_t stride, int64_t size) {
    if (size < 2) return;
    (stride < 0 ? least : most) += stride * (size - 1);
  }
  int64_t count() const { return most - least + 1; }
};

Outline outline_small(Draw& draw) {
  Outline outline;
  const int64_t components = draw.pick({0, 0, 1, 1, 1, 1, 2, 3});
  const int items = components == 0 && draw.chance(60) ? 0 : 45;  // percent; 0: a plain copy
  const int64_t rank = draw.between(0, 5);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = draw.chance(2) ? 0 : draw.chance(25) ? 1 : draw.between(2, 5);
    outline.dims.push_back({size, draw.chance(items)});
  }
  for (int64_t c = 0; c < components; ++c) {
    outline.extents.push_back(draw.chance(2) ? 0 : draw.between(1, 6));
  }
  outline.index_on_outer = 35;
  return outline;
}

// Shapes of life, each of which some strategy was made for.
Outline outline_large(Draw& draw) {
  Outline outline;
  switch (draw.between(0, 7)) {
    case 0:  // rows
      outline.dims = {{draw.between(1, 150), true}, {draw.between(4, 200), false}};
      outline.extents = {draw.between(1, 60)};
      break;
    case 1:  // many updates of few places
      outline.dims = {{draw.between(500, 4000), true}, {draw.between(1, 3), false}};
      outline.extents = {draw.between(1, 8)};
      break;
    case 2:  // a destination much larger than its updates
      outline.dims = {{draw.between(200, 2500), true}};
      outline.extents = {draw.between(5000, 40000)};
      break;
    case 3:  // one hot place
      outline.dims = {{draw.between(500, 3000), true}, {draw.chance(50) ? 1 : 5, false}};
      outline.extents = {draw.between(50, 500)};
      outline.hot = 90;
      break;
    case 4:  // along an axis
      outline.dims = {
          {draw.between(1, 16), false}, {draw.between(1, 50), true}, {draw.between(1, 16), false}};
      outline.extents = {draw.between(1, 40)};
      outline.index_on_outer = 100;
      break;
    case 5:  // a sum over an axis, without an index
      outline.dims = {
          {draw.between(1, 40), false}, {draw.between(50, 700), true}, {draw.between(1, 4), false}};
      break;
    case 6:  // short rows
      outline.dims = {{draw.between(30, 1500), true}, {draw.between(2, 16), false}};
      outline.extents = {draw.between(1, 400)};
      outline.index_on_outer = 5;
      break;
    default:  // a strided copy
      outline.dims = {
          {draw.between(1, 40), false}, {draw.between(1, 40), false}, {draw.between(1, 8), false}};
  }
  return outline;
}

// Strides under which no two places of `sizes` meet: dense in some order of the axes, perhaps
// with gaps, perhaps backwards.
Dims injective_strides(Draw& draw, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order;
  for (size_t i = sizes.size(); i-- > 0;) order.push_back(i);
  if (draw.chance(40)) {
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[draw.between(0, i)]);
  }
  const int gaps = draw.chance(30) ? 40 : 0;
  const int backwards = draw.chance(20) ? 40 : 0;
  Dims strides(sizes.size(), 0);
  int64_t next = 1;
  for (const size_t axis : order) {
    if (draw.chance(gaps)) next += draw.between(1, 3);
    strides[axis] = draw.chance(backwards) ? -next : next;
    next *= std::max<int64_t>(sizes[axis], 1);
  }
  return strides;
}

// Strides of something that is only read: also stride 0, and windows that overlap.
Dims reading_strides(Draw& draw, const std::vector<int64_t>& sizes) {
  Dims strides = injective_strides(draw, sizes);
  if (draw.chance(25)) {
    for (auto& stride : strides) stride = draw.chance(40) ? 0 : stride;
  }
  if (draw.chance(5)) {
    for (auto& stride : strides) stride = draw.between(-2, 2);
  }
  return strides;
}

std::vector<int64_t> sizes_of(const Dims& shape) { return {shape.begin(), shape.end()}; }

class Builder {
 public:
  explicit Builder(Draw& draw) : draw_(draw) {}

  Problem build() {
    t().dtype = static_cast<DType>(draw_.between(0, kDTypeCount - 1));
    item_ = static_cast<int64_t>(size_of(t().dtype));
    kind_ = draw_kind(draw_);
    if (draw_.chance(20))
      build_masked();
    else
      build_indexed();
    return std::move(problem_);
  }

 private:
  Transfer& t() { return problem_.transfer; }

  void build_indexed() {
    Outline outline = draw_.chance(75) ? outline_small(draw_) : outline_large(draw_);
    t().op = "random";
    for (const auto& dim : outline.dims) t().shape.push_back(dim.size);
    t().bounds = draw_.pick({Bounds::error, Bounds::drop, Bounds::clip, Bounds::promise});
    if (t().bounds != Bounds::drop) {  // no key fits an axis of size 0
      for (auto& extent : outline.extents) extent = std::max<int64_t>(extent, 1);
    }
    draw_reduction();
    place_destination(outline);
    place_source();
  }

  void draw_reduction() {
    const DType dtype = t().dtype;
    do {
      t().reduce = draw_.chance(20) ? Reduce::assign
                                    : static_cast<Reduce>(draw_.between(0, kReduceCount - 1));
    } while ((is_bitwise(t().reduce) && is_differentiable(dtype)) ||
             (is_complex(dtype) && (t().reduce == Reduce::amax || t().reduce == Reduce::amin)) ||
             (dtype == DType::bool_ && t().reduce == Reduce::mean));
    t().include_self = draw_.chance(60);
    t().negate = t().reduce == Reduce::add && dtype != DType::bool_ && draw_.chance(25);
  }

  // One destination axis for each outer dimension (it may be longer than the dimension) and one for
  // each component of the index, so that different outer positions never meet.
  void place_destination(const Outline& outline) {
    std::vector<int64_t> axes;
    for (const auto& dim : outline.dims) {
      if (!dim.item) axes.push_back(dim.size + (draw_.chance(10) ? draw_.between(1, 3) : 0));
    }
    const size_t outer_axes = axes.size();
    axes.insert(axes.end(), outline.extents.begin(), outline.extents.end());
    const Dims strides = injective_strides(draw_, axes);
    size_t axis = 0;
    for (const auto& dim : outline.dims) {
      t().dst.strides.push_back(dim.item ? 0 : strides[axis++]);
    }
    for (size_t c = 0; c < outline.extents.size(); ++c) {
      const int component = outline.extents.size() == 1 ? -1 : static_cast<int>(c);
      t().dst_index.push_back(
          draw_index(outline, outline.extents[c], strides[outer_axes + c], component));
    }
    if (t().dst_index.size() == 1 && draw_.chance(30)) hold_index(t().dst_index[0]);
    Footprint print;
    for (size_t i = 0; i < axes.size(); ++i) print.extend(strides[i], axes[i]);
    allocate_destination(print);
  }

  // As a user holds it: copied, dense, with its order.
  void hold_index(IndexOperand& index) {
    Tensor::Foreign keys;
    keys.data = const_cast<char*>(index.data);
    keys.dtype = index.dtype;
    keys.shape = index.own_shape;
    keys.strides = index.own_strides;
    problem_.held.push_back(Index::hold(Tensor::wrap(keys), index.extent, t().bounds));
    const Index& held = problem_.held.back();
    index.data = static_cast<const char*>(held.keys().data());
    index.own_strides = held.keys().strides();
    for (size_t d = 0; d < index.strides.size(); ++d) {
      const bool expanded = index.own_shape[d] == 1 && t().shape[d] != 1;
      index.strides[d] = expanded ? 0 : index.own_strides[d];
    }
    t().order = held.order().get();
  }

  void allocate_destination(const Footprint& print) {
    const int64_t count = print.count() + 2 * kGuard;
    problem_.destination.resize(count * item_);
    fill_random(draw_, t().dtype, kind_, count, problem_.destination.data());
    t().dst.data = problem_.destination.data() + (kGuard - print.least) * item_;
  }

  IndexOperand draw_index(const Outline& outline, int64_t extent, int64_t scale, int component) {
    std::vector<int64_t> sizes;
    std::vector<bool> depends;
    for (const auto& dim : outline.dims) {
      depends.push_back(draw_.chance(dim.item ? 85 : outline.index_on_outer));
      sizes.push_back(depends.back() ? dim.size : 1);
    }
    IndexOperand index;
    index.dtype = draw_.chance(50) ? DType::int32 : DType::int64;
    index.strides = injective_strides(draw_, sizes);
    index.extent = extent;
    index.scale = scale;
    index.component = component;
    index.own_shape = Dims(sizes);
    index.own_strides = index.strides;
    Footprint print;
    for (size_t d = 0; d < sizes.size(); ++d) {
      print.extend(index.strides[d], sizes[d]);
      if (!depends[d]) index.strides[d] = 0;
    }
    index.data = keys(print, index, outline.hot);
    return index;
  }

  const char* keys(const Footprint& print, const IndexOperand& index, int hot) {
    const int64_t width = static_cast<int64_t>(size_of(index.dtype));
    Buffer& buffer = new_input(print.count() * width);
    const int64_t favourite = index.extent == 0 ? 0 : draw_.between(0, index.extent - 1);
    const int beyond = draw_.chance(50) ? 20 : 0;
    const int negative = draw_.chance(50) ? 30 : 0;
    for (int64_t i = 0; i < print.count(); ++i) {
      int64_t key = draw_.chance(hot) ? favourite : draw_key(index.extent, beyond, negative);
      const int32_t narrow = static_cast<int32_t>(key);
      if (key == INT32_MAX && width == 8) key = INT64_MAX;
      if (key == INT32_MIN && width == 8) key = INT64_MIN;
      if (width == 4)
        std::memcpy(buffer.data() + 4 * i, &narrow, 4);
      else
        std::memcpy(buffer.data() + 8 * i, &key, 8);
    }
    return buffer.data() - print.least * width;
  }

  int64_t draw_key(int64_t extent, int beyond, int negative) {
    const bool lenient = t().bounds == Bounds::drop || t().bounds == Bounds::clip;
    if (extent == 0 || (lenient && draw_.chance(beyond))) {
      return draw_.pick<int64_t>({extent, extent + 5, -extent - 1, INT32_MAX, INT32_MIN});
    }
    const int64_t key = draw_.between(0, extent - 1);
    return draw_.chance(negative) ? key - extent : key;
  }

  void place_source() {
    Footprint print;
    if (draw_.chance(15)) {
      fill_random(draw_, t().dtype, kind_, 1, t().scalar);
      t().src.strides = Dims(t().shape.size(), 0);
      return;
    }
    std::vector<int64_t> axes = sizes_of(t().shape);
    Outline outline;
    if (draw_.chance(25)) {
      for (const int64_t size : axes) outline.dims.push_back({size, draw_.chance(60)});
      outline.extents = {draw_.between(1, 50)};
      if (draw_.chance(20)) outline.extents.push_back(draw_.between(1, 4));
      outline.index_on_outer = 40;
      axes.insert(axes.end(), outline.extents.begin(), outline.extents.end());
    }
    const Dims strides = reading_strides(draw_, axes);
    const size_t rank = t().shape.size();
    t().src.strides = Dims(strides.data(), rank);
    for (size_t c = 0; c < outline.extents.size(); ++c) {
      const int component = outline.extents.size() == 1 ? -1 : static_cast<int>(c);
      t().src_index.push_back(
          draw_index(outline, outline.extents[c], strides[rank + c], component));
    }
    for (size_t i = 0; i < axes.size(); ++i) print.extend(strides[i], axes[i]);
    t().src.data = values(print);
  }

  char* values(const Footprint& print) {
    Buffer& buffer = new_input(print.count() * item_);
    fill_random(draw_, t().dtype, kind_, print.count(), buffer.data());
    return buffer.data() - print.least * item_;
  }

  void build_masked();
  void place_mask();
  int64_t count_true();
  void place_ranked(Operand& ranked, int64_t trues, bool is_destination);

  Operand strided(const std::vector<int64_t>& sizes) {
    Operand operand;
    operand.strides = reading_strides(draw_, sizes);
    Footprint print;
    for (size_t d = 0; d < sizes.size(); ++d) print.extend(operand.strides[d], sizes[d]);
    operand.data = values(print);
    return operand;
  }

  Buffer& new_input(int64_t bytes) {
    problem_.inputs.push_back(std::make_unique<Buffer>(bytes));
    return *problem_.inputs.back();
  }

  Draw& draw_;
  Problem problem_;
  ValueKind kind_ = ValueKind::bits;
  int64_t item_ = 1;
};

void Builder::place_mask() {
  const std::vector<int64_t> full = sizes_of(t().shape);
  std::vector<int64_t> sizes = full;
  const bool broadcast = draw_.chance(35);
  for (size_t d = sizes.size(); broadcast && d-- > 0;) {
    if (d + 1 == sizes.size() ? draw_.chance(70) : draw_.chance(25)) sizes[d] = 1;
  }
  t().mask.strides = injective_strides(draw_, sizes);
  Footprint print;
  for (size_t d = 0; d < sizes.size(); ++d) {
    print.extend(t().mask.strides[d], sizes[d]);
    if (sizes[d] != full[d]) t().mask.strides[d] = 0;
  }
  Buffer& buffer = new_input(print.count());
  const int density = draw_.pick({0, 2, 30, 50, 98, 100});
  const int turn = draw_.pick({100, 100, 5});  // percent: how often a run of equal bytes ends
  const bool odd = draw_.chance(20);           // trues that are not 1
  bool value = draw_.chance(density);
  for (auto& byte : buffer) {
    if (draw_.chance(turn)) value = draw_.chance(density);
    byte = static_cast<char>(!value ? 0 : odd ? draw_.between(1, 255) : 1);
  }
  t().mask.data = buffer.data() - print.least;
}

int64_t Builder::count_true() {
  int64_t total = 1;
  for (const int64_t size : t().shape) total *= size;
  int64_t trues = 0;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = t().shape.size(); d-- > 0; rest /= t().shape[d]) {
      offset += rest % t().shape[d] * t().mask.strides[d];
    }
    trues += t().mask.data[offset] != 0;
  }
  return trues;
}

void Builder::place_ranked(Operand& ranked, int64_t trues, bool is_destination) {
  t().rank_stride = draw_.pick({1, 1, 1, 1, 2, -1, 0});
  if (is_destination && t().rank_stride == 0) t().rank_stride = 1;
  t().rank_limit = trues + (draw_.chance(30) ? draw_.between(0, 20) : 0);
  if (!is_destination && trues > 0 && draw_.chance(10)) {
    t().rank_limit = draw_.between(0, trues - 1);
    problem_.too_few_values = true;
  }
  ranked.strides = Dims(t().shape.size(), 0);
  Footprint print;
  print.extend(t().rank_stride, t().rank_limit);
  if (is_destination)
    allocate_destination(print);
  else
    ranked.data = values(print);
}

void Builder::build_masked() {
  t().op = "random mask";
  const bool large = draw_.chance(30);
  const int64_t rank = draw_.between(large ? 1 : 0, large ? 2 : 4);
  for (int64_t d = 0; d < rank; ++d) {
    const bool last = d + 1 == rank;
    const int64_t most = !large ? 7 : last ? 400 : 20;
    t().shape.push_back(draw_.chance(3) ? 0 : draw_.between(1, most));
  }
  const std::vector<int64_t> sizes = sizes_of(t().shape);
  t().mask_side =
      draw_.pick({MaskSide::source, MaskSide::source, MaskSide::destination, MaskSide::skip});
  place_mask();
  const int64_t trues = count_true();
  if (t().mask_side == MaskSide::destination) {
    t().src = strided(sizes);
    place_ranked(t().dst, trues, true);
    return;
  }
  t().dst.strides = injective_strides(draw_, sizes);
  Footprint print;
  for (size_t d = 0; d < sizes.size(); ++d) print.extend(t().dst.strides[d], sizes[d]);
  allocate_destination(print);
  if (draw_.chance(50)) t().base = strided(sizes);
  if (t().mask_side == MaskSide::source) {
    place_ranked(t().src, trues, false);
  } else if (draw_.chance(50)) {
    t().src = strided(sizes);
  } else {
    t().src.strides = Dims(t().shape.size(), 0);
    fill_random(draw_, t().dtype, kind_, 1, t().scalar);
  }
}

std::string describe_index(const char* name, const IndexOperand& index) {
  return detail::text("\n  {}: {} strides {} extent {} scale {}", name, index.dtype, index.strides,
                      index.extent, index.scale);
}

}  // namespace

Problem draw_problem(Draw& draw) { return Builder(draw).build(); }

std::string describe(const Problem& problem) {
  const Transfer& t = problem.transfer;
  static const char* const kSides[] = {"none", "source", "destination", "skip"};
  static const char* const kBounds[] = {"error", "drop", "clip", "promise"};
  std::string text =
      detail::text("{} {} shape {} reduce {}{}{} bounds {}\n  dst strides {}\n  src {} strides {}",
                   t.op, t.dtype, t.shape, name_of(t.reduce), t.include_self ? "" : " without self",
                   t.negate ? " negated" : "", kBounds[static_cast<int>(t.bounds)], t.dst.strides,
                   t.src.data ? "tensor" : "scalar", t.src.strides);
  for (const auto& index : t.dst_index) text += describe_index("dst_index", index);
  for (const auto& index : t.src_index) text += describe_index("src_index", index);
  if (t.order != nullptr) text += "\n  dst_index is held";
  if (t.mask_side != MaskSide::none) {
    text += detail::text("\n  mask side {} strides {} rank limit {} stride {}{}",
                         kSides[static_cast<int>(t.mask_side)], t.mask.strides, t.rank_limit,
                         t.rank_stride, t.base.data ? " with a base" : "");
    if (t.base.data) text += detail::text(" strides {}", t.base.strides);
  }
  return text;
}

}  // namespace sow::test
