// SPDX-License-Identifier: Apache-2.0
// Fuzzes the public operations: any call gives the reference's bits or an Error, and nothing else.
#include <cstdio>
#include <cstdlib>

#include "random_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sow::test;
  if (size < 1) return 0;
  const int threads = 1 + data[0] % 3;
  const RandomCall call(Draw(data + 1, size - 1));
  const Outcome planned = call.run(nullptr, threads);
  const Outcome expected = call.run("reference", 1);
  if (planned == expected) return 0;
  std::fprintf(stderr, "%s: \"%s\" %s\nis not what the reference gives: \"%s\" %s\n",
               call.name().c_str(), planned.error.c_str(), planned.shape.c_str(),
               expected.error.c_str(), expected.shape.c_str());
  std::abort();
}
