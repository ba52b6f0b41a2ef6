// SPDX-License-Identifier: Apache-2.0
// What an input of program_fuzz is: the seed of its feeds, then a saved program without its frame.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sow::test {

struct ProgramInput {
  uint64_t seed = 0;
  std::string_view graph;
};

inline ProgramInput split_input(const uint8_t* data, size_t size) {
  ProgramInput input;
  const size_t head = size < 2 ? size : 2;
  if (head != 0) std::memcpy(&input.seed, data, head);
  input.graph = {reinterpret_cast<const char*>(data) + head, size - head};
  return input;
}

inline std::string join_input(uint16_t seed, const std::string& graph) {
  std::string out(2, '\0');
  std::memcpy(out.data(), &seed, 2);
  return out + graph;
}

}  // namespace sow::test
