// SPDX-License-Identifier: Apache-2.0
// The file in which `sow tune` keeps the planner's costs as they were measured on a machine, one
// file for each instruction set. Costs choose among ways that give the same bits.
#pragma once

#include <span>
#include <string>

#include "core/isa.h"

namespace sow::detail {

struct TunedCost {
  const char* name;
  double* value;
};
// Those that a file may hold: nanoseconds.
std::span<const TunedCost> tuned_costs();

// The file named by SOW_TUNING, else the one below the user's configuration; empty where there is
// neither, or SOW_TUNING is.
std::string tuning_path(Isa isa);

std::string write_tuning(Isa isa, std::span<const double> values);
// Takes the values of such a text. An Error that names `path` and the line if anything of it is
// unknown, out of range or for another instruction set; no value is changed then.
void read_tuning(const std::string& text, const std::string& path, Isa isa);

// Reads the file, if there is one. A bad one is an Error where SOW_TUNING names it, else a line on
// standard error, and the built-in costs hold.
void load_tuning();

}  // namespace sow::detail
