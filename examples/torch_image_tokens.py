# SPDX-License-Identifier: Apache-2.0
"""Image tokens merged into text embeddings in PyTorch: by sow's name, compiled, and under torch's own.

Multimodal models write the embeddings of an image into the places of its tokens. The first model calls
sow.masked_scatter; the second is written with torch's functions and runs unchanged under sow.torch.patched().
"""

import sys

import torch

import sow
import sow.torch

IMAGE = 31


class Merging(torch.nn.Module):
    def __init__(self, merge):
        super().__init__()
        torch.manual_seed(0)
        self.merge = merge
        self.words = torch.nn.Embedding(32, 16)
        self.vision = torch.nn.Linear(8, 16)
        self.head = torch.nn.Linear(16, 32)

    def forward(self, tokens, image):
        embedded = self.words(tokens)
        places = (tokens == IMAGE)[..., None].expand_as(embedded)
        return self.head(self.merge(embedded, places, self.vision(image)))


def step(model, call, tokens, image):
    """The loss and all gradients as one vector."""
    loss = torch.nn.functional.cross_entropy(call(tokens, image).flatten(0, 1), tokens.flatten())
    return torch.cat([loss.reshape(1), *(g.flatten() for g in torch.autograd.grad(loss, list(model.parameters())))])


def main():
    torch.manual_seed(1)
    tokens = torch.randint(0, IMAGE, (2, 12))
    tokens[0, 2:5] = tokens[1, 6:8] = IMAGE
    image = torch.randn(5, 8)

    ours = Merging(sow.masked_scatter)
    eager = step(ours, ours, tokens, image)
    compiled = step(ours, torch.compile(ours, fullgraph=True, backend="aot_eager"), tokens, image)
    theirs = Merging(torch.masked_scatter)
    with sow.torch.patched():
        patched = step(theirs, theirs, tokens, image)
    same = torch.equal(eager, compiled)
    close = torch.allclose(eager, patched)
    print(f"loss {eager[0]:.4f}; compiled gives the same bits: {same}; torch's names under patched(): "
          f"the same within rounding: {close}")
    for name, calls in sow.torch.report().items():
        print(f"  {name}: {calls['sow']} by sow, {calls['torch']} left to torch")
    return 0 if same and close else 1


if __name__ == "__main__":
    sys.exit(main())
