# SPDX-License-Identifier: Apache-2.0
"""A graph network trained in PyTorch with sow: the same weights, bit for bit, every time.

Messages of neighbours meet in their nodes by sow.index_add and sow.index_reduce, which torch records
like its own operations. Sums are exact, so that no order of threads can change them; on a GPU torch's
own index_add gives other bits in every run.
"""

import sys

import torch

import sow


class Layer(torch.nn.Module):
    """The sum and the maximum of what the neighbours say, and what the node itself is."""

    def __init__(self, width, out):
        super().__init__()
        self.own = torch.nn.Linear(width, out)
        self.messages = torch.nn.Linear(width, out)

    def forward(self, nodes, sender, receiver):
        messages = sow.index_select(self.messages(nodes), 0, sender)
        nothing = messages.new_zeros(nodes.shape[0], messages.shape[1])
        total = sow.index_add(nothing, 0, receiver, messages)
        largest = sow.index_reduce(nothing, 0, receiver, messages, "amax", include_self=False)
        return self.own(nodes) + total + largest


class Network(torch.nn.Module):
    def __init__(self, width, hidden, classes):
        super().__init__()
        self.first, self.second = Layer(width, hidden), Layer(hidden, classes)

    def forward(self, nodes, sender, receiver):
        return self.second(torch.relu(self.first(nodes, sender, receiver)), sender, receiver)


def train(device, steps=40):
    """The losses and the weights after some steps on a graph of two communities."""
    generator = torch.Generator().manual_seed(1)
    count = 200
    group = torch.randint(0, 2, (count,), generator=generator)
    sender = torch.randint(0, count, (4000,), generator=generator)
    receiver = torch.randint(0, count, (4000,), generator=generator)
    inside = group[sender] == group[receiver]
    keep = inside | (torch.rand(4000, generator=generator) < 0.05)
    sender, receiver = sender[keep].to(device), receiver[keep].to(device)
    nodes = (torch.randn(count, 8, generator=generator) + group[:, None]).to(device)
    torch.manual_seed(2)
    network = Network(8, 16, 2).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.002)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(nodes, sender, receiver), group.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([p.detach().flatten() for p in network.parameters()]).cpu()


def main():
    device = "cuda" if torch.cuda.is_available() and sow.cuda.available() else "cpu"
    losses, weights = train(device)
    _, again = train(device)
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f} on {device}; "
          f"two runs have the same {weights.numel()} weights: {torch.equal(weights, again)}")
    return 0 if losses[-1] < losses[0] and torch.equal(weights, again) else 1


if __name__ == "__main__":
    sys.exit(main())
