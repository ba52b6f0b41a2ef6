// SPDX-License-Identifier: Apache-2.0
// The order of a held index, made by the sort that the row strategies use.
#include "cpu/sort/row_order.h"
#include "transfer/index/index_order.h"

namespace sow::detail {

namespace {

int workers_for(const Transfer& transfer, int threads) {
  return transfer.shape[0] > (1 << 15) ? threads : 1;
}

}  // namespace

size_t order_workspace(const Transfer& transfer, int threads) {
  Carver measure(nullptr);
  RowOrder(transfer, canonicalize(transfer), workers_for(transfer, threads), measure);
  return measure.used();
}

void order_keys(const Transfer& transfer, int threads, char* workspace, IndexOrder& order) {
  const Canonical canonical = canonicalize(transfer);
  Carver carver(workspace);
  RowOrder rows(transfer, canonical, workers_for(transfer, threads), carver);
  rows.build(outer_base(canonical, 0));
  order.keys.assign(rows.keys(), rows.keys() + rows.items());
  order.positions.assign(rows.ids(), rows.ids() + rows.items());
  order.begins.assign(rows.begins(), rows.begins() + rows.segments() + 1);
}

}  // namespace sow::detail
