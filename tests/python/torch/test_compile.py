# SPDX-License-Identifier: Apache-2.0
"""sow under torch.compile, torch.export, fake tensors and modes: eager's bits over changing shapes."""

import io

import pytest
import torch

import sow
from sow.torch import _library

from torch_operations import MASK, calls, sources, values, with_in_place_form

TYPES = [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool]
CASES = [(dtype, *c) for dtype in TYPES for c in calls(dtype)
         if dtype != torch.bool or c[1] not in ("fill_diagonal", "masked_fill", "index_fill")]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def registered(name, args, keywords):
    """The registered operation and the arguments its schema has."""
    from sow._frameworks import OPERATIONS

    operation = OPERATIONS[name]
    seen = []
    overload = _library._operator(operation)
    full = {p.name: p.default for p in operation.parameters}
    order = ["indices", "updates", "shape"] if name == "scatter_nd" else operation.names
    full.update(zip(order, args), **keywords)
    given = [full[p.name] for _, p in _library._parameters(operation)]
    scalars = tuple(p.name for (_, p), v in zip(_library._parameters(operation), given)
                    if p.role == "values" and not isinstance(v, torch.Tensor))
    kind = next(n for n, s in _library._overloads(operation) if s == scalars)
    del seen
    return getattr(overload, kind or "default"), tuple(list(g) if isinstance(g, tuple) else g for g in given)


@pytest.mark.parametrize("dtype, id, name, args, keywords", CASES,
                         ids=[f"{str(c[0])[6:]}-{c[1]}" for c in CASES])
def test_opcheck(dtype, id, name, args, keywords):
    op, given = registered(name, args, keywords)
    given = tuple(g.clone().requires_grad_() if dtype == torch.float32 and isinstance(g, torch.Tensor)
                  and g.is_floating_point() else g for g in given)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(op, given, test_utils=checks)


SOME = ["masked_scatter", "index_add", "scatter_reduce", "index_put", "scatter_nd", "masked_select",
        "slice_scatter", "put_along_axis", "gather_nd"]


@pytest.mark.parametrize("name", SOME)
def test_opcheck_of_traced_gradients(name):
    """The slow one of opcheck's tests, for one call of each kind."""
    _, _, args, keywords = next(c for c in calls(torch.float32) if c[1] == name)
    op, given = registered(name, args, keywords)
    given = tuple(g.clone().requires_grad_() if isinstance(g, torch.Tensor) and g.is_floating_point()
                  else g for g in given)
    torch.library.opcheck(op, given, test_utils=("test_aot_dispatch_dynamic",))


def grown(value, count):
    """A tensor with its first axis repeated: another shape for the same call."""
    return torch.cat([value] * count) if isinstance(value, torch.Tensor) and value.dim() else value


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_bits_are_eagers(backend):
    def step(x, index, s, mask, many):
        y = sow.index_add(x, 0, index, s)
        y = sow.scatter_reduce(y, 0, index[:, None].expand_as(s), s, "amax")
        y = sow.masked_scatter(y, mask, many)
        z = y * 2
        sow.index_reduce_(z, 0, index, s, "mean")
        z = sow.put_along_axis(z, index[:, None] % 4, 1.5, 1, "mul")
        w = sow.scatter_nd(index[:, None], s, list(x.shape))
        return sow.slice_scatter(z, w[:, :2], 1, 0, 2) + sow.index_select(z, 0, index)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for n in (3, 5, 6) if backend == "inductor" else (3, 4, 7, 12):
        x, s = values(n, 4, dtype=torch.float32, seed=n), values(n, 4, dtype=torch.float32, seed=n + 1)
        index = torch.arange(n).flip(0) // 2
        mask = grown(MASK, -(-n // 3))[:n]
        many = values(4 * n, dtype=torch.float32, seed=n + 2)
        inputs = [t.requires_grad_() for t in (x, s, many)]
        results, gradients = [], []
        weight = values(n, 4, dtype=torch.float32, seed=n + 3)
        for f in (step, compiled):
            y = f(x, index, s, mask, many)
            results.append(y)
            gradients.append(torch.autograd.grad(y, inputs, weight))
        assert torch.equal(*results)
        assert all(torch.equal(a, b) for a, b in zip(*gradients))


def every_operation(args_of):
    def run(*tensors):
        given = iter(tensors)
        return [getattr(sow, name)(*(next(given) if isinstance(a, torch.Tensor) else
                                     [next(given) if isinstance(i, torch.Tensor) else i for i in a] if isinstance(a, (tuple, list)) and
                                     any(isinstance(i, torch.Tensor) for i in a) else a for a in args),
                                   **keywords) for name, args, keywords in args_of]

    flat = []
    for _, args, _ in args_of:
        for a in args:
            items = a if isinstance(a, (tuple, list)) else (a,)
            flat += [i for i in items if isinstance(i, torch.Tensor)]
    return run, flat


@pytest.mark.parametrize("dynamic", [True, False])
def test_every_operation_compiles_into_one_graph(dynamic):
    picked = [c[1:] for c in calls(torch.float32) if c[1] not in ("nonzero", "masked_select")]
    run, tensors = every_operation(picked)
    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for a, b in zip(compiled(*tensors), run(*tensors)):
        assert torch.equal(a, b)


def test_every_in_place_form_compiles():
    names = with_in_place_form()
    picked = [next(c for c in calls(torch.float32) if c[1] == name)[1:] for name in names]
    run, tensors = every_operation([(name + "_", args, keywords) for name, args, keywords in picked])
    compiled = torch.compile(lambda *t: run(*(x.clone() for x in t)), fullgraph=True, dynamic=True,
                             backend="aot_eager")
    expected = run(*(x.clone() for x in tensors))
    for a, b in zip(compiled(*tensors), expected):
        assert torch.equal(a, b)


def test_in_place_writes_the_callers_tensor_when_compiled():
    compiled = torch.compile(lambda x, i, s: sow.index_add_(x, 0, i, s), fullgraph=True, backend="aot_eager")
    x = torch.zeros(3, 4)
    compiled(x, torch.tensor([0, 2, 2]), torch.ones(3, 4))
    assert x[:, 0].tolist() == [1.0, 0.0, 2.0]


def test_results_whose_shape_depends_on_data_compile():
    def picked(x, mask):
        return sow.masked_select(x, mask) * 2, sow.nonzero(x)

    compiled = torch.compile(picked, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for seed in (1, 2):
            x = values(3, 4, dtype=torch.float32, seed=seed)
            for a, b in zip(compiled(x, MASK), picked(x, MASK)):
                assert torch.equal(a, b)


def test_a_bad_index_is_an_error_and_writes_nothing():
    compiled = torch.compile(lambda x, i, s: sow.index_add_(x, 0, i, s), fullgraph=True, backend="aot_eager")
    x, s = torch.zeros(3, 4), torch.ones(3, 4)
    with pytest.raises(IndexError, match=r"index_add: index 7 at position \[1\] is out of range"):
        compiled(x, torch.tensor([0, 7, 1]), s)
    assert not x.any()


def test_a_bad_shape_is_an_error_while_it_is_compiled():
    compiled = torch.compile(lambda x, i, s: sow.index_add(x, 0, i, s), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="source"):
        compiled(torch.zeros(3, 4), torch.tensor([0, 1]), torch.ones(2, 5))


def test_a_held_index_is_refused_with_a_sentence():
    index = sow.Index(torch.tensor([0, 2, 2]), size=3)
    compiled = torch.compile(lambda x, s: sow.index_add(x, 0, index, s), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="Index"):
        compiled(torch.zeros(3, 4), torch.ones(3, 4))


class Model(torch.nn.Module):
    def forward(self, x, index, s):
        y = sow.index_reduce(x, 0, index, s, "amax")
        return sow.index_add(sow.gather(y, 0, index[:, None].expand_as(s)), 0, index, s)


def test_export_with_dynamic_extents_saved_and_loaded():
    n, m = torch.export.Dim("n", min=2), torch.export.Dim("m", min=2)
    x, s = values(3, 4, dtype=torch.float32), values(3, 4, dtype=torch.float32, seed=1)
    index = torch.tensor([2, 0, 2])
    program = torch.export.export(Model(), (x, index, s),
                                  dynamic_shapes=({0: n, 1: m}, {0: n}, {0: n, 1: m}))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for rows, columns in ((3, 4), (6, 5), (9, 2)):
        x, s = values(rows, columns, dtype=torch.float32), values(rows, columns, dtype=torch.float32, seed=1)
        index = torch.arange(rows) // 2
        assert torch.equal(loaded(x, index, s), Model()(x, index, s))


def test_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.zeros(3, 4)
        y = sow.index_add(x, 0, torch.zeros(2, dtype=torch.int64), torch.ones(2, 4))
        assert tuple(y.shape) == (3, 4)
    meta = sow.index_select(torch.zeros(3, 4, device="meta"), 0,
                            torch.zeros(2, dtype=torch.int64, device="meta"))
    assert meta.is_meta and tuple(meta.shape) == (2, 4)


def test_modes_see_every_call():
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x, i, s: sow.index_add(x, 0, i, s))(
        torch.zeros(3, 4), torch.tensor([0, 1]), torch.ones(2, 4))
    assert "sow.index_add" in graph.code
    assert sources((torch.zeros(1), 1)) == [0]


def test_torch_func_is_compiled():
    s = values(3, 4, dtype=torch.float32, seed=1)
    index = torch.tensor([2, 0, 2])

    def loss(x):
        return (sow.index_reduce(x, 0, index, s, "mul") ** 2).sum()

    compiled = torch.compile(lambda x: torch.func.grad(loss)(x), fullgraph=True, backend="aot_eager")
    x = values(3, 4, dtype=torch.float32)
    assert torch.equal(compiled(x), torch.func.grad(loss)(x))
