"""Rules of libcuda, each broken on purpose: the made-up library reports it.

A driver that passes on it breaks none of them; so a rule that it did not notice would be worth
nothing. The names are the library's own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest

import boards.cuda
from boards.cuda.library import MadeUpCuda
from compilers.nv import nvrtc
from drivers.cuda import abi
from drivers.cuda.api import Words
from drivers.world.native import address_of
from tests.cuda.bench import BYTES, ONE, SOURCE, Bench, bench
from tests.cuda.made_up import Functions
from tests.nv_cubins import needs_nvrtc
from tests.support import check

Breaks: TypeAlias = Callable[[Bench], object]
RULES: Final = 40
"""As docs/cuda.md says."""
INTERNAL: Final = "error of the made-up library"
HANDLES: Final = {"no such handle", "handle after its end", "handle of another kind"}
"""Named in a variable."""


def _twice(call: str, name: str) -> Breaks:
    """Give something back twice."""

    def broken(b: Bench) -> None:
        handle = getattr(b, name)
        b.call(call, handle)
        b.call(call, handle)

    return broken


def _extra(*words: int) -> Breaks:
    def broken(b: Bench) -> None:
        given = Words(
            [address_of(b.args) if w == -1 else b.size.at if w == -2 else w for w in words]
        )
        b.launch(given.at)

    return broken


def _size(b: Bench) -> None:
    b.size.words[0] = 16
    b.launch()


def _both(b: Bench) -> None:
    b.launch(params=Words([b.a]).at)


def _sizes(**sizes: tuple[int, int, int]) -> Breaks:
    return lambda b: b.launch(**sizes)


def _many_lanes(b: Bench) -> None:
    name = bytearray(b"k\0")
    b.kernel = b.make("cuModuleGetFunction", b.module, address_of(name))
    b.launch(block=(129, 1, 1))


def _copy(dst: str, src: str, nbytes: int, off: int = 0) -> Breaks:
    def broken(b: Bench) -> None:
        ends = getattr(b, dst) + off, getattr(b, src)
        b.call("cuMemcpyDtoDAsync_v2", *ends, nbytes, b.stream)

    return broken


def _freed_in_use(b: Bench) -> None:
    b.launch()
    b.call("cuMemFree_v2", b.a)


def _unloaded_in_use(b: Bench) -> None:
    b.launch()
    b.call("cuModuleUnload", b.module)


def _stream_with_work(b: Bench) -> None:
    b.launch()
    b.call("cuStreamDestroy_v2", b.stream)


def _graph_in_use(b: Bench) -> None:
    b.add(b.graph)
    made = b.make("cuGraphInstantiateWithFlags", b.graph, 0)
    b.do("cuGraphLaunch", made, b.stream)
    b.call("cuGraphExecDestroy", made)


def _foreign_node(b: Bench) -> None:
    other = b.make("cuGraphCreate", 0)
    node, params, cell = b.add(other), b.node(), Words()
    before = Words([node])
    b.call("cuGraphAddKernelNode_v2", cell.at, b.graph, before.at, 1, address_of(params))


def _node_of_both(b: Bench) -> None:
    params, cell = b.node(kern=1), Words()
    b.call("cuGraphAddKernelNode_v2", cell.at, b.graph, 0, 0, address_of(params))


def _in_other(*names: str) -> Breaks:
    """A call while the other device's context is current."""

    def broken(b: Bench) -> None:
        b.do("cuCtxPushCurrent_v2", b.other)
        for name in names:
            if name == "launch":
                b.launch()
            elif name == "event":
                stream = b.make("cuStreamCreate", 0)
                b.call("cuEventRecord", b.event, stream)
            elif name == "copy":
                b.call("cuMemcpyDtoDAsync_v2", b.a, b.b, BYTES, b.stream)
            else:
                b.call("cuMemcpyHtoDAsync_v2", b.a, b.page, BYTES, b.stream)
        b.pop()

    return broken


def _opted_in(b: Bench) -> None:
    b.call("cuLaunchKernel", b.kernel, *ONE, *ONE, 49 << 10, b.stream, 0, b.extra.at)


def _too_much(b: Bench) -> None:
    which = abi.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES
    b.call("cuFuncSetAttribute", b.kernel, which, 100 << 10)


def _early_time(b: Bench) -> None:
    second = b.make("cuEventCreate", 0)
    for event in (b.event, second):
        b.do("cuEventRecord", event, b.stream)
    b.call("cuEventElapsedTime", Words().at, b.event, second)


def _registered(times: int, off: int = 0) -> Breaks:
    def broken(b: Bench) -> None:
        for _ in range(times):
            b.call("cuMemHostRegister_v2", b.page, len(b.pages), abi.HOST_DEVICEMAP)
        b.call("cuMemHostUnregister", b.page + off)

    return broken


def _released(times: int, *, pop: bool) -> Breaks:
    def broken(b: Bench) -> None:
        if pop:
            b.pop()
        for _ in range(times):
            b.call("cuDevicePrimaryCtxRelease_v2", 0)

    return broken


BROKEN: Final[dict[str, tuple[str, Breaks]]] = {
    "memory freed twice": ("no allocation", _twice("cuMemFree_v2", "a")),
    "a stream destroyed twice": ("handle after its end", _twice("cuStreamDestroy_v2", "stream")),
    "an event destroyed twice": ("handle after its end", _twice("cuEventDestroy_v2", "event")),
    "a module unloaded twice": ("handle after its end", _twice("cuModuleUnload", "module")),
    "a number as a stream": ("no such handle", lambda b: b.call("cuStreamQuery", 0x1234)),
    "an event as a stream": ("handle of another kind", lambda b: b.call("cuStreamQuery", b.event)),
    "a launch with a list that has no end": (
        "list of arguments without an end", _extra(1, -1, 2, -2, 3, 0)
    ),
    "a launch with a list without its size": (
        "list of arguments that is not whole", _extra(1, -1, 0)
    ),
    "a launch with fewer bytes": ("arguments of another size", _size),
    "a launch with both lists": ("arguments given twice or not at all", _both),
    "a launch with no arguments": ("arguments given twice or not at all", lambda b: b.launch(0)),
    "a grid of nothing": ("sizes of a launch", _sizes(grid=(0, 1, 1))),
    "a block too deep": ("sizes of a launch", _sizes(block=(1, 1, 65))),
    "more lanes than launch bounds": ("more lanes than the kernel allows", _many_lanes),
    "dynamic shared memory": ("shared memory by opting in", _opted_in),
    "more dynamic shared memory than there is": ("more shared memory than there is", _too_much),
    "a copy beyond the end": ("copy outside of memory", _copy("a", "b", BYTES + 1)),
    "a copy onto itself": ("copy onto itself", _copy("a", "a", 8, 4)),
    "a copy from no memory of the host": (
        "host memory that is not there",
        lambda b: b.call("cuMemcpyHtoDAsync_v2", b.a, 4096, 4, b.stream),
    ),
    "memory freed while a kernel uses it": ("memory freed in use", _freed_in_use),
    "a module unloaded while it runs": ("module unloaded in use", _unloaded_in_use),
    "a stream destroyed with work": ("stream destroyed with work", _stream_with_work),
    "a graph destroyed while it runs": ("graph destroyed in use", _graph_in_use),
    "a node after one of another graph": ("node of another graph", _foreign_node),
    "a node with two kernels": ("CUkernel beside a CUfunction", _node_of_both),
    "a launch in another context": ("function of another context", _in_other("launch")),
    "a copy on a stream of another context": ("stream of another context", _in_other("to device")),
    "a copy of memory of another context": ("copy in a context of other memory", _in_other("copy")),
    "an event recorded in another context": ("event of another context", _in_other("event")),
    "a wait for no record": (
        "event that was never recorded",
        lambda b: b.call("cuStreamWaitEvent", b.stream, b.event, 0),
    ),
    "a time that is not there yet": ("time of an event that is not done", _early_time),
    "pages registered twice": ("pages registered twice", _registered(2)),
    "other pages unregistered": ("pages that are not registered", _registered(1, 4096)),
    "an allocation of nothing": (
        "no bytes", lambda b: b.call("cuMemAlloc_v2", Words().at, 0)
    ),
    "a stream with other flags": (
        "flags", lambda b: b.call("cuStreamCreate", Words().at, 8)
    ),
    "an attribute that there is not": (
        "attribute", lambda b: b.call("cuDeviceGetAttribute", Words().at, 999, 0)
    ),
    "a device that there is not": (
        "no such device", lambda b: b.call("cuDeviceGetName", Words().at, 8, 2)
    ),
    "a call without a context": (
        "no current context", lambda b: (b.pop(), b.call("cuMemAlloc_v2", Words().at, 64))
    ),
    "a context released with memory in it": ("left in a context", _released(1, pop=True)),
    "a context released while it is current": (
        "context released while it is current", _released(1, pop=False)
    ),
    "a context released twice": ("context released more than retained", _released(2, pop=True)),
}  # fmt: skip
AT_THE_END: Final = {"leak", "context left current"}
BEFORE: Final = "call before cuInit"


def test_every_rule_of_the_library_is_broken() -> None:
    sources = sorted(Path(boards.cuda.__file__).parent.glob("*.py"))
    text = "\n".join(one.read_text() for one in sources)
    known = set(re.findall(r'(?:find|refuse)\(\s*(?:header\.\w+,\s*)?"([^"]+)"', text)) | HANDLES
    tested = {rule for rule, _ in BROKEN.values()} | AT_THE_END | {BEFORE, INTERNAL}
    check(known == tested, f"{sorted(known ^ tested)}")
    check(len(tested) - 1 == RULES, f"{len(tested) - 1} rules: correct docs/cuda.md, too")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_reported(name: str) -> None:
    rule, broken = BROKEN[name]
    with bench() as found:
        check(found.made.report() == [], "nothing is wrong yet")
        broken(found)
        lines = found.made.report()
    check(rule in [one for one, _ in lines], f"{rule}: {lines}")
    check(INTERNAL not in [one for one, _ in lines], f"{lines}")


def test_what_is_left_is_reported() -> None:
    with bench() as found:
        rules = {rule for rule, _ in found.made.leaks()}
    check(rules == AT_THE_END, f"{rules}")


def test_a_call_before_init_is_reported() -> None:
    made, cell = MadeUpCuda(), Words()
    name = "cuDeviceGetCount"
    code = Functions(made).function(name, abi.FUNCTIONS[name])(cell.at)
    check((code, made.report()) == (3, [(BEFORE, name)]), f"{code}")


@needs_nvrtc
def test_what_breaks_no_rule_is_not_reported() -> None:
    image = nvrtc.compile_object(SOURCE, "sm_86", frozenset())
    b = Bench(MadeUpCuda(), image, "<i4xQi")
    first = b.make("cuEventCreate", 0)
    b.do("cuEventRecord", first, b.stream)
    check(b.launch() == 0, "extra")
    cells = [
        bytearray(struct.pack(kind, value)) for kind, value in (("i", 5), ("Q", b.b), ("i", 6))
    ]
    places = Words([address_of(cell) for cell in cells])
    check(b.launch(0, params=places.at) == 0, "kernelParams")
    b.add(b.graph, b.add(b.graph))
    made = b.make("cuGraphInstantiateWithFlags", b.graph, 0)
    b.do("cuGraphLaunch", made, b.stream)
    b.do("cuEventRecord", b.event, b.stream)
    for place, src in enumerate((b.a, b.b)):
        b.do("cuMemcpyDtoHAsync_v2", b.page + 4 * place, src, 4, b.stream)
    check(b.pages[:8] == bytes(8), "a stream is not done early")
    b.settle()
    check(struct.unpack("<2i", b.pages[:8]) == (7, 11), "both launches ran")
    cell = Words()
    b.do("cuEventElapsedTime", cell.at, first, b.event)
    check(cell.float32 > 0, f"{cell.float32} ms")
    b.do("cuGraphExecDestroy", made)
    b.do("cuEventDestroy_v2", first)
    b.close()
    check(b.made.leaks() == [], f"{b.made.state.violations}")
