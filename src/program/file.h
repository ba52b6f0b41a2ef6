// SPDX-License-Identifier: Apache-2.0
// Whole files: replaced at once or not at all, and read no further than they say they go.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sow::detail {

// Writes beside the file, and renames when everything is on the disk: whatever fails, the file that
// was there is there still. What is no regular file (a pipe, a device) is written to as it is.
void replace_file(const std::string& path, std::string_view bytes);

// The file's bytes: a header of `header` bytes, and as many in all as size_of(header) says. One
// more is read if there is one, so that the caller sees that something follows. A shorter file is
// returned as it is.
std::string read_file(const std::string& path, size_t header,
                      const std::function<uint64_t(std::string_view)>& size_of);

}  // namespace sow::detail
