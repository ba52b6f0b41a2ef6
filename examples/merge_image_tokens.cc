// SPDX-License-Identifier: Apache-2.0
// A model that reads pictures: the vectors of image patches replace placeholder tokens in a text.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

int main() {
  constexpr int64_t kImage = 9;  // the placeholder's token id
  // Two sentences of five tokens; the first has two pictures of one patch, the second has one of
  // two.
  const Tensor tokens = Tensor::of<int64_t>({4, kImage, 7, kImage, 2,  //
                                             kImage, kImage, 5, 6, 2},
                                            {2, 5});
  // Each token's embedding has three numbers. Here they are just its id.
  const Tensor table =
      Tensor::arange(10, sow::DType::float32).reshape({10, 1}).broadcast_to({10, 3});
  const Tensor text = index_select(table, 0, tokens.flatten()).reshape({2, 5, 3});
  const Tensor patches = Tensor::of<float>({0.1f, 0.2f, 0.3f, 1.1f, 1.2f, 1.3f,  //
                                            2.1f, 2.2f, 2.3f, 3.1f, 3.2f, 3.3f},
                                           {4, 3});

  std::vector<bool> is_image;
  for (const int64_t token : tokens.to_vector<int64_t>()) is_image.push_back(token == kImage);
  const Tensor mask = Tensor::of(is_image, {2, 5, 1});
  std::cout << "tokens\n" << tokens << "\nwhere a picture goes\n" << mask.reshape({2, 5});
  std::cout << "\npatches\n" << patches << "\n\n";

  // The mask broadcasts over the embedding, so that each true takes a whole row of three.
  const Tensor merged = masked_scatter(text, mask, patches);
  std::cout << "text and pictures, merged\n" << merged << "\n\n";

  // What the library decided to do: whole rows under a row mask.
  std::cout << sow::explain([&] { (void)masked_scatter(text, mask, patches); });

  // Reading them back with the same mask gives the patches.
  const Tensor back = masked_select(merged, mask);
  return back.to_vector<float>() == patches.to_vector<float>() ? EXIT_SUCCESS : EXIT_FAILURE;
}
