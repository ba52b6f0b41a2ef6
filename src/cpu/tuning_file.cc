// SPDX-License-Identifier: Apache-2.0
// Lines of "name value" after one that says what they are.
#include "transfer/plan/tuning_file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <locale>
#include <sstream>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "cpu/tuning.h"

namespace sow::detail {

namespace {

constexpr const char* kFirstWords = "sow tuning 1";
constexpr double kMostNs = 1e6;

const TunedCost kCosts[] = {
    {"call", &tuning::kCallNs},
    {"region", &tuning::kRegionNs},
    {"direct", &tuning::kDirectNs},
    {"row_column", &tuning::kRowColumnNs},
    {"move_byte", &tuning::kMoveByteNs},
    {"sum_column", &tuning::kSumColumn.item},
    {"merge", &tuning::kMergeNs},
    {"partition_update", &tuning::kPartitionUpdateNs},
    {"sort", &tuning::kSortNs},
    {"row", &tuning::kTiledRows.row},
    {"row_item", &tuning::kTiledRows.item},
    {"row_byte", &tuning::kTiledRows.byte},
    {"fixed_point_update", &tuning::kFixedPointBlock.update},
    {"fixed_point_cell", &tuning::kFixedPointBlock.cell},
    {"two_word_update", &tuning::kTwoWordBlock.update},
    {"two_word_cell", &tuning::kTwoWordBlock.cell},
    {"plain_update", &tuning::kPlainBlock.update},
    {"plain_cell", &tuning::kPlainBlock.cell},
    {"plain_pair_update", &tuning::kPlainPairBlock.update},
    {"plain_pair_cell", &tuning::kPlainPairBlock.cell},
    {"number_update", &tuning::kNumberBlock.update},
    {"number_cell", &tuning::kNumberBlock.cell},
};

[[noreturn]] void refuse(const std::string& path, int line, const std::string& why) {
  fail(ErrorKind::argument, "[sow tune] {}, line {}: {}; `sow tune` writes it anew", path, line,
       why);
}

// A program that runs with rights its caller has not (setuid) reads no file that the caller names.
const char* safe_getenv(const char* name) {
#if defined(__GLIBC__)
  return secure_getenv(name);
#else
  return std::getenv(name);
#endif
}

}  // namespace

std::span<const TunedCost> tuned_costs() { return kCosts; }

std::string tuning_path(Isa isa) {
  if (const char* given = safe_getenv("SOW_TUNING"); given != nullptr) return given;
  const std::string file = std::string("sow/tuning-") + isa_name(isa) + ".txt";
  if (const char* folder = safe_getenv("XDG_CONFIG_HOME"); folder != nullptr && *folder == '/')
    return std::string(folder) + "/" + file;
  const char* home = safe_getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.config/" + file : "";
}

std::string write_tuning(Isa isa, std::span<const double> values) {
  std::string words = std::string(kFirstWords) + " " + isa_name(isa) + "\n";
  for (size_t i = 0; i < values.size(); ++i) {
    std::ostringstream number;
    number.imbue(std::locale::classic());
    number << std::fixed << std::setprecision(4) << std::max(values[i], 1e-4);
    words += std::string(kCosts[i].name) + " " + number.str() + "\n";
  }
  return words;
}

void read_tuning(const std::string& lines_of, const std::string& path, Isa isa) {
  std::istringstream lines(lines_of);
  lines.imbue(std::locale::classic());
  std::string line;
  const std::string expected = std::string(kFirstWords) + " " + isa_name(isa);
  if (!std::getline(lines, line) || line != expected) {
    refuse(path, 1, text("'{}' where '{}' was expected", line.substr(0, 60), expected));
  }
  std::vector<std::pair<double*, double>> found;
  for (int number = 2; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    words.imbue(std::locale::classic());
    std::string name, rest;
    double value = 0;
    if (!(words >> name >> value) || words >> rest)
      refuse(path, number, text("'{}' is no name and number", line.substr(0, 60)));
    const TunedCost* cost = nullptr;
    for (const TunedCost& each : kCosts) {
      if (name == each.name) cost = &each;
    }
    if (cost == nullptr) refuse(path, number, text("there is no cost '{}'", name.substr(0, 60)));
    if (!(value > 0 && value <= kMostNs))
      refuse(path, number, text("'{}' must be above 0 and at most 1000000 nanoseconds", name));
    found.emplace_back(cost->value, value);
  }
  for (const auto& [to, value] : found) *to = value;
}

void load_tuning() {
  const Isa isa = current_isa();
  const std::string path = tuning_path(isa);
  if (path.empty()) return;
  std::ifstream file(path, std::ios::binary);
  const bool named = safe_getenv("SOW_TUNING") != nullptr;
  if (!file) {
    if (named) fail(ErrorKind::argument, "[SOW_TUNING] {} cannot be read", path);
    return;
  }
  constexpr size_t kMostBytes = 65536;
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  try {
    read_tuning(text, path, isa);
  } catch (const Error& error) {
    if (named) throw;
    std::fprintf(stderr, "sow: %s (the built-in costs hold)\n", error.what());
  }
}

}  // namespace sow::detail
