# SPDX-License-Identifier: Apache-2.0
"""A model of transformers that merges image tokens, unchanged: trained with torch's kernels and with sow's.

A LLaVA of two small layers with random weights: nothing is downloaded. Its forward writes the features of the
image into the places of the image's tokens by masked_scatter, and the gradient of its embedding is a scatter too;
under sow.torch.patched() both are sow's. Needs `pip install transformers`.
"""

import sys

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

import sow.torch

IMAGE = 63


def model():
    torch.manual_seed(0)
    vision = CLIPVisionConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                              image_size=8, patch_size=4, projection_dim=16)
    text = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                       num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE,
                                                     image_token_index=IMAGE, vision_feature_layer=-1))


def trained(device, steps=4):
    """The losses of some steps, and all weights after them."""
    llava = model().to(device)
    torch.manual_seed(1)
    tokens = torch.randint(0, 60, (2, 12))
    tokens[:, 2:6] = IMAGE  # four patches an image
    tokens, pixels = tokens.to(device), torch.randn(2, 3, 8, 8).to(device)
    optimizer = torch.optim.SGD(llava.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = llava(input_ids=tokens, pixel_values=pixels, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().reshape(1))
    return torch.cat([*losses, *(p.detach().flatten() for p in llava.parameters())])


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain = trained(device)
    with sow.torch.patched():
        first, second = trained(device), trained(device)
    taken = sow.torch.report()
    close = torch.allclose(plain, first, rtol=1e-4, atol=1e-5)
    same = torch.equal(first, second)
    merged = taken["aten::masked_scatter_"]["sow"] > 0 and taken["aten::embedding_dense_backward"]["sow"] > 0
    print(f"loss {first[0]:.4f} to {first[3]:.4f} on {device}; merged by sow: {merged}; "
          f"weights as torch trains them, within rounding: {close}; two trainings bit-equal: {same}")
    for name, calls in taken.items():
        print(f"  {name}: {calls['sow']} by sow, {calls['torch']} left to torch")
    return 0 if close and same and merged else 1


if __name__ == "__main__":
    sys.exit(main())
