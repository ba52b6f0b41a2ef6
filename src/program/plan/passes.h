// SPDX-License-Identifier: Apache-2.0
// The passes that turn a recorded graph into steps to run: what each may rely on, in their order.
#pragma once

#include "program/plan/plan_program.h"

namespace sow::detail {

// Over the graph of known shapes: a call made twice is made once (repeats.cc).
void merge_repeats(Graph& graph);

// Over the lowered steps (passes.cc, overwritten.cc, orders.cc).
void fuse_gathers(PlannedProgram& program);
void drop_overwritten(PlannedProgram& program);
void hoist_checks(PlannedProgram& program);
void share_orders(PlannedProgram& program);
void choose_plans(PlannedProgram& program);
void place_blocks(PlannedProgram& program);

// The block a step writes; -1 if it is none of the program's.
int written_block(const PlannedProgram& program, const Step& step);
// Blocks a step touches, each maybe several times.
std::vector<int> touched_blocks(const PlannedProgram& program, const Step& step);
// Whether two operands read the very same keys for the same axis.
bool same_keys(const IndexOperand& a, const IndexOperand& b);

}  // namespace sow::detail
