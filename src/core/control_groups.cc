// SPDX-License-Identifier: Apache-2.0
// Reads /proc for the control groups, versions 1 and 2, that this process belongs to.
#include "core/control_groups.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <new>

namespace sow::detail {

// The whole file, or nothing where it cannot be read. By the system's calls: other libraries in the
// process may bring C++ streams of their own, which ours would be mixed up with.
std::string read_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  if (file < 0) return text;
  char block[4096];
  for (ssize_t got; (got = read(file, block, sizeof block)) > 0;)
    text.append(block, static_cast<size_t>(got));
  close(file);
  return text;
}

// Cuts what stands before the next `end` off the front.
std::string_view next_part(std::string_view& rest, char end) {
  const size_t length = std::min(rest.find(end), rest.size());
  const std::string_view part = rest.substr(0, length);
  rest.remove_prefix(std::min(length + 1, rest.size()));
  return part;
}

std::string_view next_word(std::string_view& rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return next_part(rest, ' ');
}

// Whether `text` begins with a number.
bool parse_number(std::string_view text, int64_t& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
}

// A number, or kNoNumber for "max" and for files that are not there.
int64_t read_number(const std::string& path) {
  int64_t value = 0;
  return parse_number(read_file(path), value) && value >= 0 ? value : kNoNumber;
}

namespace {

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    if (next_part(words, ',') == word) return true;
  }
  return false;
}

// Where a hierarchy is mounted, and which of its groups is seen there.
struct Mount {
  std::string folder, top;
  bool unified;
};

bool read_mount(std::string_view line, std::string_view controller, Mount& out) {
  for (int skipped = 0; skipped < 3; ++skipped) next_word(line);
  out.top = next_word(line);
  out.folder = next_word(line);
  while (!line.empty() && next_word(line) != "-") {
  }
  const std::string_view kind = next_word(line);
  next_word(line);  // the source
  const std::string_view options = next_word(line);
  out.unified = kind == "cgroup2";
  return out.unified || (kind == "cgroup" && has_word(options, controller));
}

// The process's group in a hierarchy, from "id:controllers:path"; empty where it has none.
std::string group_in(const std::string& root, std::string_view controller, bool unified) {
  const std::string text = read_file(root + "/proc/self/cgroup");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = next_part(rest, '\n');
    if (std::count(line.begin(), line.end(), ':') < 2) continue;
    next_part(line, ':');
    const std::string_view controllers = next_part(line, ':');
    if (unified ? controllers.empty() : has_word(controllers, controller)) return std::string(line);
  }
  return {};
}

// The group's path below the mount; a container may see only a part of the hierarchy.
std::string below(const Mount& mount, std::string group) {
  if (mount.top != "/") {
    const bool inside = group.compare(0, mount.top.size(), mount.top) == 0;
    group = inside ? group.substr(mount.top.size()) : "";
  }
  if (group.find("..") != std::string::npos) return "";
  while (!group.empty() && group.back() == '/') group.pop_back();
  return group;
}

int quota_of_group(const std::string& folder, bool unified) {
  int64_t quota = 0, period = 0;
  if (unified) {
    const std::string text = read_file(folder + "/cpu.max");  // "max 100000"
    std::string_view rest = text;
    if (!parse_number(next_word(rest), quota) || !parse_number(next_word(rest), period))
      return INT_MAX;
  } else {
    quota = read_number(folder + "/cpu.cfs_quota_us");  // -1 where there is none
    period = read_number(folder + "/cpu.cfs_period_us");
    if (quota == kNoNumber || period == kNoNumber) return INT_MAX;
  }
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::clamp<int64_t>(quota / period + (quota % period != 0), 1, INT_MAX));
}

}  // namespace

void for_each_control_group(const std::string& root, std::string_view controller,
                            const GroupVisitor& visit) {
  const std::string mounts = read_file(root + "/proc/self/mountinfo");
  for (std::string_view rest = mounts; !rest.empty();) {
    Mount mount;
    if (!read_mount(next_part(rest, '\n'), controller, mount)) continue;
    std::string group = below(mount, group_in(root, controller, mount.unified));
    for (;; group.erase(group.rfind('/'))) {
      visit(root + mount.folder + group, mount.unified);
      if (group.empty()) break;
    }
  }
}

int processor_quota(const std::string& root) {
  int processors = INT_MAX;
  for_each_control_group(root, "cpu", [&](const std::string& group, bool unified) {
    processors = std::min(processors, quota_of_group(group, unified));
  });
  return processors;
}

}  // namespace sow::detail
