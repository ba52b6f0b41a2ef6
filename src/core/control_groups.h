// SPDX-License-Identifier: Apache-2.0
// The control groups of this process: who they are, and how much processor time they give.
#pragma once

#include <climits>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sow::detail {

// Calls visit(folder, unified) for the group that rules `controller` for this process, and for each
// group around it up to the root: what an outer group limits is limited inside too. `unified` says
// version 2. Nothing is called where there are no groups. Tests put a folder before the paths.
using GroupVisitor = std::function<void(const std::string& folder, bool unified)>;
void for_each_control_group(const std::string& root, std::string_view controller,
                            const GroupVisitor& visit);

// As many processors as the groups give the time of, rounded up; INT_MAX where they set no quota.
int processor_quota(const std::string& root = "");

// Readers of such files. A number that is not there, or is "max", is kNoNumber.
inline constexpr int64_t kNoNumber = INT64_MAX;
std::string read_file(const std::string& path);
int64_t read_number(const std::string& path);
bool parse_number(std::string_view text, int64_t& value);
std::string_view next_part(std::string_view& rest, char end);
std::string_view next_word(std::string_view& rest);

}  // namespace sow::detail
