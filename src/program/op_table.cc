// SPDX-License-Identifier: Apache-2.0
// The table of operations that programs can be saved with.
#include "program/op_table.h"

namespace sow::detail {

namespace {

using Source = SavedOp::Source;

constexpr SavedOp kTable[] = {
    {"put_along_axis", 2, Source::either, Reduce::assign, true},
    {"scatter", 2, Source::either, Reduce::assign, true},
    {"scatter_add", 2, Source::either, Reduce::add},
    {"scatter_reduce", 2, Source::either, Reduce::assign, true},
    {"take_along_axis", 2},
    {"gather", 2},
    {"masked_scatter", 3},
    {"masked_fill", 2, Source::either},
    {"masked_select", 2},
    {"nonzero", 1},
    {"index_add", 2, Source::either, Reduce::add},
    {"index_copy", 2, Source::either},
    {"index_fill", 2, Source::either},
    {"index_reduce", 2, Source::either, Reduce::assign, true},
    {"index_select", 2},
    {"scatter_nd", 2, Source::none, Reduce::add},
    {"tensor_scatter_nd_update", 2, Source::either},
    {"tensor_scatter_nd_add", 2, Source::either, Reduce::add},
    {"tensor_scatter_nd_sub", 2, Source::either, Reduce::add},
    {"tensor_scatter_nd_max", 2, Source::either, Reduce::amax},
    {"tensor_scatter_nd_min", 2, Source::either, Reduce::amin},
    {"tensor_scatter_nd_mul", 2, Source::either, Reduce::mul},
    {"gather_nd", 2},
    {"index_get", 1, Source::indices},
    {"index_put", 1, Source::index_put, Reduce::assign, true},
    {"diagonal_scatter", 2},
    {"select_scatter", 2},
    {"slice_scatter", 2},
    {"fill_diagonal", 1, Source::either},
    {"diagonal", 1},
    {"select", 1},
    {"slice", 1},
    {"broadcast_to", 1},
    {"unsqueeze", 1},
    {"flatten", 1},
    {"reshape", 1},
    {"reshape_like", 2},
    {"positions_like", 1},
    {"transpose", 1},
    {"permute", 1},
    {"flip", 1},
    {"clone", 1},
    {"copy", 2},
    {"fill", 1, Source::scalar},
    {"add", 1, Source::either},
    {"sub", 1, Source::either},
    {"mul", 1, Source::either},
    {"div", 1, Source::either},
    {"eq", 1, Source::either},
    {"ne", 1, Source::either},
    {"lt", 1, Source::either},
    {"le", 1, Source::either},
    {"gt", 1, Source::either},
    {"ge", 1, Source::either},
    {"neg", 1},
    {"conj", 1},
    {"pow", 1, Source::scalar},
    {"where", 2, Source::either},
    {"to", 1},
    {"abs", 1},
    {"exp", 1},
    {"log", 1},
    {"remainder", 1, Source::either},
    {"bitwise_and", 1, Source::either},
    {"bitwise_or", 1, Source::either},
    {"bitwise_xor", 1, Source::either},
    {"group_reduce", 2, Source::maybe, Reduce::assign, true},
    {"group_softmax", 2},
    {"group_log_softmax", 2},
    {"segment_reduce", 2, Source::maybe, Reduce::assign, true},
    {"gather_csr", 2},
    {"segment_cumsum", 2},
    {"bincount", 1, Source::maybe},
    {"bin_index", 2},
    {"send_u_recv", 3, Source::none, Reduce::assign, true},
    {"send_ue_recv", 4, Source::none, Reduce::assign, true},
    {"send_uv", 4},
    {"sum", 1, Source::none, Reduce::add},
    {"mean", 1, Source::none, Reduce::mean},
};

[[noreturn]] void refuse(const SavedOp& op, const char* why) {
  fail(ErrorKind::argument, "load: the file is damaged: {} {}", op.name, why);
}

}  // namespace

const SavedOp* find_saved_op(std::string_view name) {
  for (const SavedOp& op : kTable) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

void expect_well_formed(const SavedOp& op, const Attrs& attrs, size_t tensors, bool in_place,
                        const OpDef& def) {
  const size_t least = static_cast<size_t>(op.tensors);
  bool fits = false;
  switch (op.source) {
    case Source::none:
      fits = tensors == least && !attrs.scalar;
      break;
    case Source::either:
      fits = tensors == least + (attrs.scalar ? 0 : 1);
      break;
    case Source::maybe:
      fits = (tensors == least || tensors == least + 1) && !attrs.scalar;
      break;
    case Source::scalar:
      fits = tensors == least && attrs.scalar;
      break;
    case Source::indices:
      fits = tensors == least + attrs.shape.size() && !attrs.scalar;
      break;
    case Source::index_put:
      // One held size for each index.
      fits = tensors == least + attrs.shape.size() + (attrs.scalar ? 0 : 1);
      break;
  }
  if (!fits) refuse(op, "has the wrong number of operands");
  if (in_place && def.in_place_name == nullptr) refuse(op, "has no in-place form");
  if (op.source == Source::index_put) {
    if (attrs.accumulate != (attrs.reduce == Reduce::add)) {
      refuse(op, "has a reduction it does not take");
    }
  } else if (!op.any_reduce && attrs.reduce != op.reduce) {
    refuse(op, "has a reduction it does not take");
  }
  if (attrs.reduce == Reduce::assign && !attrs.include_self) {
    refuse(op, "assigns without the old value");
  }
}

}  // namespace sow::detail
