# SPDX-License-Identifier: Apache-2.0
"""One rank: does its part of problems that every rank knows whole, and compares its rows with one call, bit for bit.

Started by test_processes.py over gloo, by mpirun over MPI, and by hand for long runs and on GPUs, where nccl wants a GPU
for each rank and ranks of gloo may share one:
    python tests/python/distributed/ranks.py --engine gloo --size 8 --problems 20
    python tests/python/distributed/ranks.py --engine gloo --size 2 --device cuda
    python tests/python/distributed/ranks.py --engine nccl --size 1 --device cuda
"""

import argparse
import os
import sys
import time
import traceback

import ml_dtypes
import numpy as np

import sow

REDUCTIONS = ("assign", "add", "mul", "amax", "amin", "mean")
TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def allowed(dtype, reduce):
    if reduce in ("amax", "amin"):
        return not dtype.startswith("complex")
    return reduce != "mean" or dtype != "bool"


def values(random, shape, dtype):
    """Wide exponents, ties and special values, so that any other order or rounding shows."""
    def real(kind):
        out = random.standard_normal(shape) * 2.0 ** random.integers(-9, 9, shape)
        out = np.where(random.random(shape) < 0.02, random.choice([np.inf, -np.inf, np.nan, -0.0, 1e-8], shape), out)
        return out.astype(kind)

    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith("complex"):
        half = "f4" if dtype == "complex64" else "f8"
        out = np.empty(shape, dtype)
        out.real, out.imag = real(half), real(half)
        return out
    if "float" in dtype:
        return real(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return random.integers(-100 if dtype != "uint8" else 0, 100, shape).astype(dtype)


def cut(random, count, size):
    return [0, *sorted(int(c) for c in random.integers(0, count + 1, size - 1)), count]


def same(a, b, what):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape)
    assert a.tobytes() == b.tobytes(), f"{what}:\n{a}\nis not\n{b}"


def compare(group, rank, size, seed, every, wrap=lambda array: array, unwrap=lambda array: array):
    random = np.random.default_rng(seed)  # the same on every rank
    d = sow.distributed
    for t, dtype in enumerate(TYPES):
        for r, reduce in enumerate(REDUCTIONS):
            if not allowed(dtype, reduce) or (not every and (t + r + size) % 3 != 0):
                continue
            rows, count = random.choice([1, 5, 60]), random.choice([0, 3, 300])
            tail = [(), (3,), (2, 2)][random.integers(3)]
            x, source = values(random, (rows, *tail), dtype), values(random, (count, *tail), dtype)
            index = random.integers(-rows, rows, count).astype(random.choice(["int32", "int64"]))
            if random.random() < 0.2:
                index[:] = rows - 1  # all updates to one rank
            include_self = bool(random.random() < 0.5)
            where, who = cut(random, rows, size), cut(random, count, size)
            here, mine = slice(where[rank], where[rank + 1]), slice(who[rank], who[rank + 1])
            what = f"{dtype} {reduce} on {size} ranks, seed {seed}"
            whole = sow.index_reduce(x, 0, index, source, reduce, include_self)
            part, keys, given = wrap(x[here].copy()), wrap(index[mine].copy()), wrap(source[mine].copy())
            out = d.index_reduce(part, 0, keys, given, reduce, include_self=include_self, group=group)
            same(unwrap(out), whole[here], what)
            same(unwrap(part), x[here], what)  # untouched
            held = d.Index(keys, len(part), group=group)
            for _ in range(2):
                again = wrap(x[here].copy())
                assert d.index_reduce_(again, 0, held, given, reduce, include_self=include_self) is again
                same(unwrap(again), whole[here], f"{what}, held")
            same(unwrap(d.index_select(part, 0, keys, group=group)), x[index][mine], f"{what}, select")
    for name in ("update", "add", "sub", "max", "min", "mul"):
        x, updates = values(random, (6, 4, 3), "float32"), values(random, (50, 3), "float32")
        indices = np.stack([random.integers(-6, 6, 50), random.integers(-4, 4, 50)], -1)
        where, who = cut(random, 6, size), cut(random, 50, size)
        here, mine = slice(where[rank], where[rank + 1]), slice(who[rank], who[rank + 1])
        whole = getattr(sow, f"tensor_scatter_nd_{name}")(x, indices, updates)
        part = wrap(x[here].copy())
        out = getattr(d, f"tensor_scatter_nd_{name}")(part, wrap(indices[mine]), wrap(updates[mine]), group=group)
        same(unwrap(out), whole[here], name)
        with sow.tiles(2, 2):  # of single calls: neither keys nor rows that travel have to fit them
            out = getattr(d, f"tensor_scatter_nd_{name}_")(part, wrap(indices[mine]), wrap(updates[mine]), group=group)
        assert out is part
        same(unwrap(part), whole[here], f"{name}_")
    even = d.cuts(6, group)
    whole = sow.scatter_nd(indices, updates, (6, 4, 3))
    same(unwrap(d.scatter_nd(wrap(indices[mine]), wrap(updates[mine]), (6, 4, 3), group=group)),
         whole[even[rank]:even[rank + 1]], "scatter_nd")


def expect(error, words, call):
    try:
        call()
    except error as raised:
        assert words in str(raised), raised
        return
    raise AssertionError(f"no {error.__name__}: {words}")


def refuse(group, rank, size):
    """What is wrong on one rank is the same error on all, and nothing is written."""
    d, last = sow.distributed, size - 1
    x, keys, source = np.zeros((2, 3), "f4"), np.array([0, 1]), np.ones((2, 3), "f4")
    bad = np.array([0, 2 * size]) if rank == last else keys
    words = f"index {2 * size} at position [1] is out of range for axis 0 of size {2 * size}"
    expect(IndexError, words, lambda: d.index_add_(x, 0, bad, source, group=group))
    expect(IndexError, f"on rank {last}", lambda: d.Index(bad, 2, group=group))
    expect(IndexError, f"on rank {last}", lambda: d.index_select(x, 0, bad, group=group))
    nd = np.array([[0, 0], [0, 3 if rank == last else 0]])
    expect(IndexError, "out of range for axis 1 of size 3",
           lambda: d.tensor_scatter_nd_add_(x, nd, np.ones(2, "f4"), group=group))
    expect(ValueError, "it must be [2, 3]",
           lambda: d.index_add_(x, 0, keys, source[:, :2] if rank == last else source, group=group))
    expect(TypeError, "an index must be int32 or int64",
           lambda: d.index_add_(x, 0, keys.astype("f4") if rank == last else keys, source, group=group))
    expect(ValueError, "axis 1", lambda: d.index_add_(x, 1 if rank == last else 0, keys, source, group=group))
    # What is no name, no array or no number on one rank is known before the others wait for it.
    expect(ValueError, "sideways", lambda: d.index_add_(x, 0, keys, source, bounds="sideways" if rank == last else "error", group=group))
    expect(ValueError, "median", lambda: d.index_reduce_(x, 0, keys, source, "median" if rank == last else "add", group=group))
    expect(ValueError, "median", lambda: d.index_reduce(x, 0, keys, source, "median" if rank == last else "add", group=group))
    expect(ValueError, "sideways", lambda: d.index_select(x, 0, keys, bounds="sideways" if rank == last else "error", group=group))
    expect(ValueError, "sideways", lambda: d.Index(keys, 2, bounds="sideways" if rank == last else "error", group=group))
    expect(TypeError, "interpreted as an integer", lambda: d.Index(keys, 2.5 if rank == last else 2, group=group))
    expect(TypeError, "x is a list", lambda: d.index_add(x.tolist() if rank == last else x, 0, keys, source, group=group))
    expect(ValueError, "it must have rows", lambda: d.index_add_(np.zeros((), "f4") if rank == last else x, 0, keys, source, group=group))
    frozen = x.copy()
    frozen.flags.writeable = rank != last
    expect(ValueError, "read-only", lambda: d.index_add_(frozen, 0, keys, source, group=group))
    if size > 1:
        other = "f8" if rank == last else "f4"
        expect(ValueError, f"float64 [rows, 3] on cpu by add, bounds error on rank {last}",
               lambda: d.index_add_(x.astype(other), 0, keys, source.astype(other), group=group))
        expect(ValueError, f"do not call it alike: index_add of its arguments on rank {last}" if size == 2 else "do not call it alike",
               lambda: (d.index_add if rank == last else d.index_select)(x, 0, keys, *([source] if rank == last else []), group=group))
        expect(ValueError, "do not call it alike", lambda: (d.index_add if rank == last else d.index_add_)(x, 0, keys, source, group=group))
        expect(ValueError, f"by mean, bounds error on rank {last}", lambda: d.index_reduce_(
            x, 0, keys, source, "mean" if rank == last else "amax", group=group))
        expect(ValueError, f"[rows, 2] on cpu by add, bounds error on rank {last}", lambda: d.index_add_(
            x[:, :2].copy() if rank == last else x, 0, keys, source[:, :2].copy() if rank == last else source, group=group))
    assert not x.any()


def refuse_graphs(group, rank, size):
    """Gradients that one rank alone wants, or cannot have."""
    import torch

    d, last = sow.distributed, size - 1
    x, keys, source = torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(2, 3)
    wanted = x.clone().requires_grad_(rank == last)
    expect(RuntimeError, "x requires a gradient; use the out-of-place index_add", lambda: d.index_add_(wanted, 0, keys, source, group=group))
    expect(RuntimeError, "x requires a gradient", lambda: d.tensor_scatter_nd_add_(wanted, keys[:, None], source, group=group))
    if size > 1:
        plain = wanted if rank == last else x.numpy()
        for call in (lambda: d.index_add(plain, 0, keys, source, group=group), lambda: d.index_select(plain, 0, keys, group=group),
                     lambda: d.tensor_scatter_nd_add(plain, keys[:, None], source, group=group)):
            expect(TypeError, "every rank must give torch tensors; here is a ndarray", call)
        mixed = d.index_add(x if rank == last else x.numpy(), 0, keys, source if rank == last else source.numpy(), group=group)
        assert type(mixed) is (torch.Tensor if rank == last else np.ndarray)
    assert not x.any()


def differentiate(group, rank, size, device="cpu"):
    import torch

    d = sow.distributed
    random = torch.Generator().manual_seed(5)
    x = torch.randn(7, 2, generator=random, dtype=torch.float64)
    index = torch.randint(-7, 7, (40,), generator=random)
    source = torch.randn(40, 2, generator=random, dtype=torch.float64)
    where, who = [7 * r // size for r in range(size + 1)], [40 * r // size for r in range(size + 1)]
    here, mine = slice(where[rank], where[rank + 1]), slice(who[rank], who[rank + 1])

    def second_order(result, inputs):
        first = torch.autograd.grad((result ** 3).sum(), inputs, create_graph=True)
        return [*first, *torch.autograd.grad(sum((g ** 2).sum() for g in first), inputs)]

    for reduce in REDUCTIONS:
        part, given = (rows.to(device, copy=True).requires_grad_() for rows in (x[here], source[mine]))
        got = second_order(d.index_reduce(part, 0, index[mine].to(device), given, reduce, group=group), (part, given))
        whole_x, whole_source = x.clone().requires_grad_(), source.clone().requires_grad_()
        want = second_order(sow.index_reduce(whole_x, 0, index, whole_source, reduce), (whole_x, whole_source))
        for k, (a, b) in enumerate(zip(got, want)):
            same(from_torch(a), from_torch(b[mine if k % 2 else here]), f"gradient {k} of {reduce}")
    part, whole_x = x[here].to(device, copy=True).requires_grad_(), x.clone().requires_grad_()
    # One rank alone wants a gradient: all take part.
    part = part if rank == 0 else part.detach()
    (d.index_select(part, 0, index[mine].to(device), group=group) ** 2).sum().backward()
    (sow.index_select(whole_x, 0, index) ** 2).sum().backward()
    if rank == 0:
        same(from_torch(part.grad), whole_x.grad[here].numpy(), "gradient of index_select")


def traffic(group, rank, size):
    """Bytes that all ranks send for a sum, by how the rows are drawn and how wide the exponents are: merged, what an
    exchange of every key and row would be, and what a ring's all-reduce of dense partial sums would be."""
    d, rows, count, width = sow.distributed, 4096 // size * size, 40000, 4
    found = {}
    for keys_are in ("zipf", "uniform"):
        for exponents in (0, 40):
            random = np.random.default_rng([rank, exponents])
            drawn = random.zipf(1.3, count) - 1 if keys_are == "zipf" else random.integers(0, rows, count)
            keys = np.minimum(drawn, rows - 1)
            source = random.standard_normal((count, width)) * 2.0 ** random.integers(-exponents, exponents + 1, (count, width))
            part = np.zeros((rows // size, width), "f4")
            before = d.bytes_sent(group)
            d.index_add_(part, 0, keys, source.astype("f4"), group=group)
            sent = d.bytes_sent(group) - before
            owner = keys // (rows // size)
            raw = int((owner != rank).sum()) * (8 + 4 * width)
            exchange = sow.distributed._engines.exchange_of(group)
            both = np.frombuffer(exchange.gather(np.array([sent, raw], "i8").tobytes()), "i8").reshape(size, 2).sum(0)
            found[f"{keys_are}, 2^+-{exponents}"] = (int(both[0]), int(both[1]), 2 * rows * width * 4 * (size - 1))
    return found


def to_torch(array):
    import torch

    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view("i2")).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_torch(tensor):
    import torch

    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if tensor.dtype is torch.bfloat16 else tensor.numpy()


def follow_streams(group, rank, size):
    """On a stream that is not torch's default, in the middle of work that has not ended yet."""
    import torch

    d, rows = sow.distributed, 1 << 16
    busy = torch.ones(4096, 4096, device="cuda")
    x, keys = torch.zeros(rows, 8, device="cuda"), torch.arange(rows, device="cuda") * size + rank
    for chosen in (torch.cuda.Stream(), torch.cuda.Stream()):
        chosen.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(chosen):
            for _ in range(20):
                busy = busy @ busy * 0
            source = torch.full((rows, 8), 2.0, device="cuda") + busy[0, 0]
            x.zero_()
            d.index_add_(x, 0, keys, source, group=group)
            got = d.index_select(x + busy[0, 0], 0, keys, group=group) * 3
        chosen.synchronize()
        assert (x == 2).all() and (got == 6).all(), "work of sow and of torch did not follow each other"


def with_torch(engine, rank, size, port, problems, sizes, device):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(engine, rank=rank, world_size=size)
    for ranks in sizes or [size]:
        group = dist.new_group(list(range(ranks)))
        if rank >= ranks:
            continue
        for seed in range(problems):
            compare(group, rank, ranks, seed, problems > 1, lambda array: to_torch(array).to(device), from_torch)
        refuse(group, rank, ranks)
        refuse_graphs(group, rank, ranks)
        differentiate(group, rank, ranks, device)
        if device == "cuda":
            follow_streams(group, rank, ranks)
        sent = traffic(group, rank, ranks)
        if rank == 0:
            print(f"{engine}, {ranks} ranks{'' if device == 'cpu' else ' on ' + device}: equal bits; "
                  f"bytes merged, raw, all-reduced {sent}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def with_mpi(problems, only_traffic):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    if not only_traffic:
        for seed in range(problems):
            compare(comm, rank, size, seed, problems > 1)
        refuse(comm, rank, size)
    sent = traffic(comm, rank, size)
    if rank == 0:
        print(f"mpi, {size} ranks:{'' if only_traffic else ' equal bits'}; bytes merged, raw, all-reduced {sent}", flush=True)


def start_ranks(engine, size, problems, port, sizes, device):
    """A process a rank; how each ended."""
    import subprocess

    commands = [[sys.executable, __file__, "--engine", engine, "--size", str(size), "--rank", str(rank), "--port", str(port),
                 "--device", device, "--problems", str(problems), *(f"--of={n}" for n in sizes)] for rank in range(size)]
    running = [subprocess.Popen(command) for command in commands]
    while any(process.poll() is None for process in running):
        if any(process.poll() not in (None, 0) for process in running):
            time.sleep(2)
            for process in running:
                process.kill()
        time.sleep(0.1)
    return [process.wait() for process in running]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("gloo", "nccl", "cpu:gloo,cuda:nccl", "mpi"), required=True)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int, default=29533)
    parser.add_argument("--of", type=int, action="append", default=[], help="groups of the first so many ranks")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--problems", type=int, default=1)
    parser.add_argument("--traffic", action="store_true", help="only count bytes")
    arguments = parser.parse_args()
    sow.set_num_threads(1)
    try:
        if arguments.engine == "mpi":
            with_mpi(arguments.problems, arguments.traffic)
        elif arguments.rank is None:
            return max(start_ranks(arguments.engine, arguments.size, arguments.problems, arguments.port, arguments.of,
                                   arguments.device))
        else:
            with_torch(arguments.engine, arguments.rank, arguments.size, arguments.port, arguments.problems, arguments.of,
                       arguments.device)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # whoever waits for us gets the engine's error
    return 0


if __name__ == "__main__":
    sys.exit(main())
