# SPDX-License-Identifier: Apache-2.0
"""DTensor: operands sharded along columns stay where they are, and updates of sharded rows travel to them."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
import sow

mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
x, s = torch.randn(5, 4), torch.randn(7, 4)
index = torch.tensor([4, 0, 4, 1, 1, 3, 0])
grid = index[:, None].expand(7, 4).contiguous()
calls = {
    "index_add": lambda x, i, g, s: sow.index_add(x, 0, i, s),
    "index_reduce": lambda x, i, g, s: sow.index_reduce(x, 0, i, s, "amax"),
    "index_copy": lambda x, i, g, s: sow.index_copy(x, 0, i, s),
    "index_select": lambda x, i, g, s: sow.index_select(x, 0, i),
    "scatter_add": lambda x, i, g, s: sow.scatter_add(x, 0, g, s),
    "scatter_reduce": lambda x, i, g, s: sow.scatter_reduce(x, 0, g, s, "mean"),
}
for name, call in calls.items():
    one = [t.clone().requires_grad_() for t in (x, s)]
    expected = call(one[0], index, grid, one[1])
    expected.sum().backward()
    many = [distribute_tensor(t, mesh, [Shard(1)]).requires_grad_() for t in (x, s)]
    keys = distribute_tensor(index, mesh, [Replicate()]), distribute_tensor(grid, mesh, [Shard(1)])
    with CommDebugMode() as seen:
        found = call(many[0], *keys, many[1])
        found.backward(torch.ones_like(found))
    assert seen.get_total_counts() == 0, (name, seen.get_comm_counts())
    assert found.placements == (Shard(1),), (name, found.placements)
    assert torch.equal(found.full_tensor(), expected), name
    for a, b in zip(many, one):
        if b.grad is not None:
            assert torch.equal(a.grad.full_tensor(), b.grad), name
turned = [distribute_tensor(t.T.contiguous(), mesh, [Shard(0)]) for t in (x, s)]
found = sow.index_add(turned[0], 1, distribute_tensor(index, mesh, [Replicate()]), turned[1])
assert found.placements == (Shard(0),)
assert torch.equal(found.full_tensor(), sow.index_add(x, 0, index, s).T)
rows = distribute_tensor(x, mesh, [Shard(0)])
whole = sow.index_select(rows, 0, distribute_tensor(index, mesh, [Replicate()]))
assert torch.equal(whole.full_tensor(), x[index])
if dist.get_rank() == 0:
    print("all", len(calls), "operations", flush=True)
dist.barrier()
os._exit(0)  # threads of gloo may outlive their group, which ends the process with an error at its exit
"""


def run_ranks(program, size):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size),
                   "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, str(program)], env={**environment, "RANK": str(rank)},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(size)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert all(process.returncode == 0 for process in running), "\n".join(outputs)
    return outputs[0]


def test_columns_need_no_communication(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert "all 6 operations" in run_ranks(program, 2)


@pytest.mark.parametrize("size", [2, 4])
def test_rows_travel_to_where_they_belong(size):
    """Shard(0): more ranks than even shares, operands that are cut or not, gradients, in place, torch's own names."""
    assert "all 21 calls" in run_ranks(pathlib.Path(__file__).with_name("row_ranks.py"), size)
