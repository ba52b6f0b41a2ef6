# SPDX-License-Identifier: Apache-2.0
"""One rank of a mesh: DTensors cut along the axis of a scatter have the bits of one process and stay where they are.

Started by test_dtensor.py with as many processes as WORLD_SIZE says.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import sow

INDEX = torch.tensor([4, 0, -1, 1, 1, 3, 0])


def wide(*shape):
    return torch.randn(*shape) * 2.0 ** torch.randint(-12, 12, shape)


def calls():
    """Each with x [5, 4], the rows, the places along axis 0, coordinates, and updates [7, 4]."""
    found = {
        "index_add": lambda x, i, g, n, s: sow.index_add(x, 0, i, s),
        "index_copy": lambda x, i, g, n, s: sow.index_copy(x, 0, i, s),
        "index_select": lambda x, i, g, n, s: sow.index_select(x, 0, i),
        "scatter_add": lambda x, i, g, n, s: sow.scatter_add(x, 0, g, s),
        "scatter": lambda x, i, g, n, s: sow.scatter(x, 0, g, s),
        "scatter of a number": lambda x, i, g, n, s: sow.scatter(x, 0, g, 2.5),
        "gather": lambda x, i, g, n, s: sow.gather(x, 0, g),
        "put_along_axis": lambda x, i, g, n, s: sow.put_along_axis(x, g, s, 0, "add"),
        "take_along_axis": lambda x, i, g, n, s: sow.take_along_axis(x, g, 0),
        "tensor_scatter_nd_add": lambda x, i, g, n, s: sow.tensor_scatter_nd_add(x, n, s[:, 0]),
        "tensor_scatter_nd_update": lambda x, i, g, n, s: sow.tensor_scatter_nd_update(x, n, s[:, 0]),
    }
    for reduce in ("add", "mul", "amax", "amin", "mean"):
        found[f"index_reduce {reduce}"] = lambda x, i, g, n, s, r=reduce: sow.index_reduce(x, 0, i, s, r, False)
        found[f"scatter_reduce {reduce}"] = lambda x, i, g, n, s, r=reduce: sow.scatter_reduce(x, 0, g, s, r)
    return found


def compare(mesh, x, s, grid, coordinates):
    for name, call in calls().items():
        one = [t.clone().requires_grad_() for t in (x, s)]
        expected = call(one[0], INDEX, grid, coordinates, one[1])
        (expected ** 2).sum().backward()
        for place in (Shard(0), Replicate()):
            many = [distribute_tensor(x, mesh, [Shard(0)]).requires_grad_(), distribute_tensor(s, mesh, [place]).requires_grad_()]
            keys = [distribute_tensor(t, mesh, [place]) for t in (INDEX, grid, coordinates)]
            found = call(many[0], *keys, many[1])
            assert found.placements == (Shard(0),), (name, found.placements)
            assert torch.equal(found.full_tensor(), expected), name
            (found ** 2).sum().backward()
            for a, b in zip(many, one):
                if b.grad is not None:
                    assert torch.equal(a.grad.full_tensor(), b.grad), f"gradient of {name}"


def write_in_place(mesh, x, s, grid):
    part, keys, source = (distribute_tensor(t, mesh, [Shard(0)]) for t in (x, INDEX, s))
    before = part.to_local().data_ptr()
    with CommDebugMode() as seen:
        assert sow.index_add_(part, 0, keys, source) is part
    assert not any("reduce" in str(op) for op in seen.get_comm_counts()), seen.get_comm_counts()
    assert part.to_local().data_ptr() == before
    expected = sow.index_add(x, 0, INDEX, s)
    assert torch.equal(part.full_tensor(), expected)
    assert sow.scatter_reduce_(part, 0, distribute_tensor(grid, mesh, [Shard(0)]), source, "amax") is part
    assert torch.equal(part.full_tensor(), sow.scatter_reduce(expected, 0, grid, s, "amax"))
    turned = [distribute_tensor(t.T.contiguous(), mesh, [Shard(1)]) for t in (x, s)]
    found = sow.index_add(turned[0], 1, distribute_tensor(INDEX, mesh, [Replicate()]), turned[1])
    assert found.placements == (Shard(1),) and torch.equal(found.full_tensor(), expected.T)
    wrong, ones = distribute_tensor(torch.tensor([0, 9]), mesh, [Replicate()]), distribute_tensor(torch.ones(2, 4), mesh, [Replicate()])
    try:
        sow.index_add_(part, 0, wrong, ones)
    except IndexError as error:
        assert "index 9" in str(error) and "on rank 1" in str(error), error
    else:
        raise AssertionError("a bad index went through")


def use_torchs_names(mesh, x, s):
    rows = INDEX.abs()
    names = {
        "index_add": lambda x, i, s: x.index_add(0, i, s),
        "index_add_": lambda x, i, s: x.clone().index_add_(0, i, s),
        "index_add of twice": lambda x, i, s: x.index_add(0, i, s, alpha=2),
        "index_copy": lambda x, i, s: torch.index_copy(x, 0, i, s),
        "scatter_add": lambda x, i, s: torch.scatter_add(x, 0, i[:, None].expand(7, 4), s),
        "scatter_reduce": lambda x, i, s: torch.scatter_reduce(x, 0, i[:, None].expand(7, 4), s, "amax"),
    }
    before = dict(torch.distributed.tensor.DTensor._op_dispatcher._custom_op_handlers)
    with sow.torch.patched():
        for name, call in names.items():
            one = [t.clone().requires_grad_() for t in (x, s)]
            expected = call(one[0], rows, one[1])
            (expected ** 2).sum().backward()
            for place in (Shard(0), Shard(1), Replicate()):
                if place != Shard(0) and name.startswith("scatter"):
                    continue  # torch has no rule of its own for scatter_reduce, nor for an index that lies otherwise
                many = [distribute_tensor(t, mesh, [place]).requires_grad_() for t in (x, s)]
                found = call(many[0], distribute_tensor(rows, mesh, [Replicate()]), many[1])
                assert torch.equal(found.full_tensor(), expected), name
                assert found.placements == (place,) or name.endswith("twice"), (name, place, found.placements)
                (found ** 2).sum().backward()
                for a, b in zip(many, one):
                    assert torch.equal(a.grad.full_tensor(), b.grad), f"gradient of {name}"
    assert torch.distributed.tensor.DTensor._op_dispatcher._custom_op_handlers == before


def cut_twice(x, s, grid):
    """A mesh of two dimensions: rows over one, columns over the other; rows over both are gathered, by torch."""
    mesh = init_device_mesh("cpu", (2, 2))
    parts = distribute_tensor(x, mesh, [Shard(0), Shard(1)])
    source = distribute_tensor(s, mesh, [Replicate(), Shard(1)])
    keys = distribute_tensor(INDEX, mesh, [Replicate(), Replicate()])
    expected = sow.index_add(x, 0, INDEX, s)
    found = sow.index_add(parts, 0, keys, source)
    assert found.placements == parts.placements and torch.equal(found.full_tensor(), expected)
    found = sow.scatter_add(parts, 0, distribute_tensor(grid, mesh, [Shard(0), Replicate()]), source)
    assert found.placements == parts.placements and torch.equal(found.full_tensor(), sow.scatter_add(x, 0, grid, s))
    found = sow.index_add(distribute_tensor(x, mesh, [Shard(0), Shard(0)]), 0, keys, source)
    assert torch.equal(found.full_tensor(), expected)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    x, s = wide(5, 4), wide(7, 4)
    grid = torch.randint(-5, 5, (7, 4))
    compare(mesh, x, s, grid, torch.stack([INDEX, torch.randint(0, 4, (7,))], -1))
    write_in_place(mesh, x, s, grid)
    use_torchs_names(mesh, x, s)
    if size == 4:
        cut_twice(x, s, grid)
    if dist.get_rank() == 0:
        print("all", len(calls()), "calls", flush=True)
    dist.barrier()
    os._exit(0)  # threads of gloo may outlive their group, which ends the process with an error at its exit
