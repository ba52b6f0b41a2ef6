# SPDX-License-Identifier: Apache-2.0
"""What outlives what: a process that ends, forks or is signalled in the middle of calls, objects half made, classes."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import sow

import peers

CALLS = {
    "eager": "sow.scatter_add_(x, 0, index, source)",
    "out of place": "sow.scatter_add(x, 0, index, source)",
    "gather": "sow.index_select(source, 0, index)",
    "Index": "sow.Index(index, size=1000)",
    "program": "compiled.run({'x': x, 'index': index, 'source': source})",
    "jit": "traced(x, index, source)",
    "gradient": "sow.vjp(sow.scatter_add, x, 0, index, source)",
}
SETUP = """
import os, signal, sys, threading, time
import numpy as np, sow
index, source, x = np.arange(1_000_000) % 1000, np.ones(1_000_000, "f4"), np.zeros(1000, "f4")
program = sow.Program()
program.output("y", sow.scatter_add(program.input("x", [1000], "float32"), 0,
                                    program.input("index", ["n"], "int64"), program.input("source", ["n"], "float32")))
compiled = program.compile()
traced = sow.jit(lambda x, index, source: sow.scatter_add(x, 0, index, source))
"""


def run_in_child(code, timeout=240):
    done = subprocess.run([sys.executable, "-c", SETUP + code], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@pytest.mark.parametrize("call", CALLS)
def test_the_process_may_end_while_a_daemon_thread_is_in_a_call(call):
    code = f"""
started = threading.Barrier(3)
def work():
    {CALLS[call]}
    started.wait()
    while True:
        {CALLS[call]}
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.01)
print("done")
"""
    for _ in range(3):
        assert run_in_child(code) == "done"


@pytest.mark.parametrize("call", CALLS)
def test_a_child_that_is_forked_in_the_middle_of_calls_works(call):
    code = f"""
stop = threading.Event()
def work():
    while not stop.is_set():
        {CALLS[call]}
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(3):
    child = os.fork()
    if child == 0:
        {CALLS[call]}
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
"""
    assert run_in_child(code).split() == ["7"] * 3


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_in_the_middle_of_a_call_is_raised_after_it(call):
    # The handler makes a call of its own: it runs between two calls, never inside of one. The next signal is asked
    # for when one was handled, so that handlers do not interrupt one another where calls are slower than the timer.
    code = f"""
seen = 0
def handle(number, frame):
    global seen
    seen += 1
    sow.scatter_add(x, 0, index[:5000], source[:5000])
    if seen >= 20:
        raise KeyboardInterrupt
    signal.setitimer(signal.ITIMER_REAL, 0.002)
signal.signal(signal.SIGALRM, handle)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    while True:
        {CALLS[call]}
except KeyboardInterrupt:
    assert seen == 20
# Every call was made whole.
assert (x % 1000 == 0).all() and len(set(x.tolist())) == 1
print("interrupted")
"""
    assert run_in_child(code) == "interrupted"


interrupts = []


def interrupt(*arguments, **keywords):
    interrupts.append(arguments)
    raise KeyboardInterrupt


def interrupting_objects():
    """Objects in whose attributes and methods the interrupt comes, one at a time."""
    for name in ("name", "__name__", "__dlpack__", "__dlpack_device__", "__array_namespace__", "dtype", "shape", "device"):
        yield type("Plain", (), {name: property(interrupt)})()
        yield type("Meta", (type,), {name: property(interrupt)})("OfMeta", (), {})()
    for name in ("__str__", "__repr__", "__hash__", "__eq__", "__len__", "__getitem__", "__iter__", "__index__",
                 "__float__", "__bool__", "__dlpack__", "__dlpack_device__", "__array__", "__buffer__"):
        yield type("Method", (), {"__len__": lambda self: 1, "__getitem__": lambda self, key: [0][key],
                                  "__dlpack__": lambda self, **keywords: None, name: interrupt})()
        yield type("Derived", (np.ndarray,), {name: interrupt})(3)

    class EveryName(type):
        def __getattribute__(cls, name):
            interrupt()

    yield EveryName("Every", (), {})()


def calls_with(thing, x):
    return [
        lambda: sow.asarray(thing), lambda: sow.scatter_(x, 0, thing, 1.0), lambda: sow.zeros([2], thing),
        lambda: sow.scatter_(x, 0, [[0]], thing), lambda: sow.reshape(x, thing), lambda: sow.tensor([thing]),
        lambda: sow.scatter(thing, 0, [0], 1.0), lambda: sow.index_select(thing, 0, [0]), lambda: sow.full([2], thing),
        lambda: sow.ones([2])[thing], lambda: sow.Index(thing, 2), lambda: sow.Index([0], thing),
        lambda: sow.index_put_(x, (thing,), 1.0), lambda: sow.from_dlpack(thing), lambda: sow.grad(thing, thing),
        lambda: sow.jit(lambda a: sow.ones([1]))(thing), lambda: sow.masked_fill_(x, thing, 1.0),
        lambda: sow.scatter_(x, 0, [[0]], 1.0, bounds=thing), lambda: sow.scatter_(x, 0, [[0]], 1.0, stream=thing),
        lambda: sow.put_along_axis_(x, [[0]], 1.0, 0, name=thing), lambda: sow.add(thing, 1.0), lambda: sow.seed(thing),
        lambda: sow.Program().input("x", [1], thing),
    ]


def test_an_interrupt_while_an_argument_is_looked_at_is_never_lost():
    x, known = np.zeros((2, 2), "f4"), 0
    for thing in interrupting_objects():
        for number, call in enumerate(calls_with(thing, x)):
            interrupts.clear()
            try:
                call()
                came = False
            except KeyboardInterrupt:
                came = True
            except (TypeError, ValueError, AttributeError, RuntimeError, IndexError):
                came = False
            assert came == bool(interrupts), (type(thing), number)
            known += came
    assert known > 50


def test_an_interrupt_while_a_package_is_imported_is_never_lost():
    code = """
class Finder:
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "ml_dtypes":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
try:
    sow.zeros([2], "bfloat16").numpy()
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_in_child(code) == "interrupted"


CLASSES = [sow.Tensor, sow.Index, sow.Program, sow.CompiledProgram, sow.DType]


@pytest.mark.filterwarnings("ignore:nanobind")
@pytest.mark.parametrize("base", CLASSES, ids=lambda base: base.__name__)
@pytest.mark.parametrize("how", ["__new__", "subclass"])
def test_objects_that_were_never_initialised_are_refused(base, how):
    class Forgetful(base):
        def __init__(self):
            pass

    thing = base.__new__(base) if how == "__new__" else Forgetful()
    x = np.zeros((2, 2), "f4")
    calls = [
        lambda: sow.asarray(thing), lambda: sow.scatter_(thing, 0, [0], 1.0), lambda: sow.scatter(x, 0, thing, 1.0),
        lambda: sow.scatter(x, 0, [[0]], thing), lambda: sow.index_select(x, 0, thing), lambda: sow.zeros([2], thing),
        lambda: sow.index_put(x, (thing, thing), 1.0), lambda: sow.tensor([thing]), lambda: sow.zeros(thing),
        lambda: sow.ones([2])[thing], lambda: sow.ones([2]).__setitem__(thing, 1.0),
        lambda: sow.ones([2]).__setitem__(0, thing), lambda: sow.Index(thing, 3), lambda: sow.CompiledProgram(thing),
        lambda: sow.jit(lambda a: a)(thing), lambda: sow.grad(thing, thing), lambda: sow.add(thing, thing),
        lambda: sow.where(thing, thing, thing), lambda: thing + 1, lambda: thing.shape, lambda: thing.numpy(),
        lambda: thing.requires_grad_(), lambda: thing.__dlpack__(), lambda: thing[0], lambda: len(thing),
        lambda: thing.name, lambda: thing.keys, lambda: thing.run({}), lambda: thing.output("y", sow.ones([1])),
        lambda: thing.input("x", [1], "float32"), lambda: thing.__setstate__(()), lambda: thing.fill_(1.0),
        lambda: thing.copy_(x), lambda: thing.scatter_(0, [0], 1.0), lambda: memoryview(thing),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError, IndexError, BufferError)):
            call()
    for harmless in (repr, str, hash, lambda value: value == value, lambda value: sow.float32 == value):
        try:
            harmless(thing)
        except TypeError:
            pass
    assert not x.any()


def test_classes_derived_from_arrays_are_let_go():
    bases = [np.ndarray, sow.Tensor, *([peers.torch.Tensor] if peers.torch else [])]
    for base in bases:
        def use(base=base):
            derived = type("Derived", (base,), {})
            if base is sow.Tensor:
                with pytest.raises((TypeError, ValueError)):
                    sow.asarray(derived.__new__(derived))
            else:
                x = np.zeros(3).view(derived) if base is np.ndarray else peers.torch.zeros(3).as_subclass(derived)
                for _ in range(3):
                    sow.scatter(x, 0, [0], 1.0)
            return weakref.ref(derived)

        met = [use() for _ in range(100)]
        gc.collect()
        assert sum(reference() is not None for reference in met) <= 1


def test_a_class_in_the_place_of_one_that_died_is_looked_at_anew():
    for number in range(300):
        derived = type("Derived", (np.ndarray,), {}) if number % 2 else type("Derived", (), {"__len__": lambda self: 1})
        if number % 2:
            assert sow.asarray(np.zeros(3).view(derived)).shape == (3,)
        else:
            with pytest.raises(TypeError):
                sow.asarray(derived())
        del derived
        gc.collect(0)


@pytest.mark.parametrize("method", ["__len__", "__getitem__", "__index__", "__float__", "__iter__", "__dlpack__"])
def test_what_a_method_of_an_argument_raises_is_what_is_raised(method):
    def fail(self, *arguments, **keywords):
        raise LookupError("mine")

    thing = type("Broken", (), {"__len__": lambda self: 1, "__getitem__": lambda self, key: [0][key], method: fail})()
    x = np.zeros((2, 2), "f4")
    for call in (lambda: sow.zeros(thing), lambda: sow.asarray(thing), lambda: sow.scatter_(x, 0, thing, 1.0),
                 lambda: sow.scatter_(x, 0, [[0]], thing), lambda: sow.reshape(x, thing), lambda: sow.tensor([thing]),
                 lambda: sow.ones([2])[thing], lambda: sow.ones([2]).__setitem__(thing, 1.0), lambda: sow.Index(thing, 2),
                 lambda: sow.Index([0], thing), lambda: sow.sum(x, thing), lambda: sow.index_put_(x, thing, 1.0),
                 lambda: sow.index_put_(x, (thing,), 1.0), lambda: sow.slice(x, 0, thing), lambda: sow.grad(thing, thing),
                 lambda: sow.vjp(sow.scatter, x, 0, thing, 1.0), lambda: sow.jit(lambda a: a)(thing),
                 lambda: sow.masked_fill_(x, thing, 1.0), lambda: sow.set_num_threads(thing), lambda: sow.seed(thing),
                 lambda: sow.Program().input("x", thing), lambda: sow.ones([2]).__dlpack__(max_version=thing),
                 lambda: sow.ones([2]).__dlpack__(max_version=()), lambda: sow.ones([2]).__dlpack__(dl_device=(1,))):
        try:
            call()  # some never ask for this method
        except (LookupError, TypeError, ValueError):
            pass
    assert not x.any()
    if method in ("__len__", "__getitem__"):
        for call in (lambda: sow.zeros(thing), lambda: sow.reshape(x, thing), lambda: sow.Program().input("x", thing)):
            with pytest.raises(LookupError, match="mine"):
                call()


def test_an_interpreter_without_its_lock_is_refused():
    code = "import sys; sys._is_gil_enabled = lambda: False\ntry:\n import sow\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "global interpreter lock" in done.stdout and done.returncode == 0
