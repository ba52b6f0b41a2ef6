// SPDX-License-Identifier: Apache-2.0
// Agreeing before anything is done, and counting what travels.
#include <algorithm>
#include <cstring>
#include <map>

#include "core/fail.h"
#include "sow/distributed.h"

namespace sow::distributed {

using detail::fail;
using detail::text;

Exchange::~Exchange() = default;

void Exchange::all_gather(const void* mine, int64_t bytes, void* all) {
  gather(mine, bytes, all);
  bytes_sent_ += bytes * (size() - 1);
}

Tensor Exchange::all_to_all(const Tensor& rows, const std::vector<int64_t>& send,
                            const std::vector<int64_t>& receive) {
  int64_t total = 0;
  for (const int64_t count : receive) total += count;
  Dims shape = rows.shape();
  shape[0] = total;
  const Tensor from = rows.contiguous();
  const Tensor into = Tensor::empty(shape, rows.dtype(), rows.device());
  int64_t row_bytes = static_cast<int64_t>(size_of(rows.dtype()));
  for (int d = 1; d < rows.dim(); ++d) row_bytes *= rows.size(d);
  if (row_bytes != 0) exchange(from, send, into, receive);
  for (int r = 0; r < size(); ++r)
    if (r != rank()) bytes_sent_ += send[r] * row_bytes;
  return into;
}

namespace {

// What every rank tells before it goes on; the words follow only where something is wrong.
struct Report {
  uint64_t hash;
  int64_t rows;
  int64_t failed;
};

constexpr size_t kWords = 1024;

uint64_t hash_of(const std::string& words) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : words) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr size_t kShown = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) out += text(" and {} more", ranks.size() - kShown);
  return out;
}

// The error of the first rank that has one, or what the ranks say that do not agree.
[[noreturn]] void raise_for_all(Exchange& exchange, const std::string& op, const std::string& about,
                                const Error* problem, const std::vector<Report>& reports) {
  std::vector<char> mine(kWords, '\0'), all(kWords * reports.size());
  mine[0] = static_cast<char>(problem != nullptr ? static_cast<int>(problem->kind()) : 0);
  const std::string words = problem != nullptr ? problem->what() : about;
  std::memcpy(mine.data() + 1, words.data(), std::min(words.size(), kWords - 2));
  exchange.all_gather(mine.data(), static_cast<int64_t>(kWords), all.data());
  for (size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].failed == 0) continue;
    const char* said = all.data() + r * kWords;
    throw Error(static_cast<ErrorKind>(said[0]), text("{} (on rank {})", said + 1, r));
  }
  std::map<std::string, std::vector<int>> sides;
  for (size_t r = 0; r < reports.size(); ++r)
    sides[all.data() + r * kWords + 1].push_back(static_cast<int>(r));
  std::string said;
  for (const auto& side : sides)
    said += (said.empty() ? "" : "; ") + side.first + " on " + list_ranks(side.second);
  fail(ErrorKind::argument, "{}: the ranks do not call it alike: {}", op, said);
}

}  // namespace

std::vector<int64_t> agree(Exchange& exchange, const std::string& op, const std::string& about,
                           int64_t rows, const Error* problem) {
  const Report mine{hash_of(op + about), rows, problem != nullptr};
  std::vector<Report> reports(static_cast<size_t>(exchange.size()));
  exchange.all_gather(&mine, sizeof(Report), reports.data());
  const bool alike = std::all_of(reports.begin(), reports.end(), [&](const Report& report) {
    return report.failed == 0 && report.hash == reports[0].hash;
  });
  if (!alike) raise_for_all(exchange, op, op + " of " + about, problem, reports);
  std::vector<int64_t> out;
  for (const Report& report : reports) out.push_back(report.rows);
  return out;
}

}  // namespace sow::distributed
