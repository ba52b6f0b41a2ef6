// SPDX-License-Identifier: Apache-2.0
// Uses the installed library as a stranger would: a scatter, foreign memory, an error, the version.
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "sow/sow.h"
#include "sow/version.h"

int main() {
  const sow::Tensor x = sow::Tensor::zeros({3, 5}, sow::DType::float32);
  const sow::Tensor index = sow::Tensor::of<int64_t>({1, 2, 0, 1}, {2, 2});
  sow::scatter_(x, 0, index, 2.0);
  const std::vector<float> want = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 2, 0, 0, 0};
  std::printf("sow %s\n%s\n", sow::version(), x.to_string().c_str());
  if (x.to_vector<float>() != want || std::strcmp(sow::version(), SOW_VERSION) != 0) return 1;

  std::vector<double> bins(2);
  const std::vector<double> weights = {1e100, 1, -1e100};
  const sow::ThreadLimit limit(1);
  sow::index_add_(sow::Tensor::wrap(std::span(bins)), 0, sow::Tensor::of<int64_t>({1, 1, 1}),
                  sow::Tensor::wrap(std::span(weights)));
  if (bins != std::vector<double>{0, 1} || sow::get_num_threads() != 1) return 1;

  // The library throws what the program catches: its error class crosses the boundary.
  try {
    sow::scatter_(x, 0, sow::Tensor::of<int64_t>({3, 0}, {1, 2}), 2.0);
  } catch (const sow::Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
