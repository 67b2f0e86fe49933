"""Small kernels of a graph in a row, as one kernel: a processor's work item calls them in order.

Handing a kernel to a processor's queue costs several microseconds, more than a small kernel takes.
So a run of small ones is compiled once more, as functions of one program that reads from a list
which to call, with which memory. One work item calls all: their order is the program's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.base.errors import MalformedInput
from drivers.base.undo import Undo
from drivers.cl import abi
from drivers.cl.api import Words
from drivers.cl.commands import Launch, start
from drivers.cl.memory import FINE, Block
from drivers.cl.owner import ClOwner
from drivers.cl.program import ClProgram, Kernel
from drivers.cl.ring import Ring
from queues.cl.kernel_code import ENTRY

LEAST: Final = 8
"""Kernels in a row that are worth a compilation."""
SMALL_BYTES: Final = 64 << 10
"""Of all buffers of a kernel that is small."""
SMALL_GRID: Final = 64
MAX_KERNELS: Final = 64
"""Different ones."""
LISTS: Final = 4
"""Lists that may be in use at once."""
NAME: Final = f"{ENTRY}chain"
_KERNEL: Final = "__kernel"
_WORD_BYTES: Final = 8
_FIXED_WORDS: Final = 2
"""Which kernel, and its grid; then its buffers."""


def suits(launch: object) -> bool:
    """Whether a command is a small kernel."""
    return (
        isinstance(launch, Launch)
        and not launch.program.scratch_bytes
        and launch.grid[0] <= SMALL_GRID
        and launch.grid[1:] == (1, 1)
        and sum(block.nbytes for block in launch.blocks) <= SMALL_BYTES
        and not any(block.handle for block in launch.blocks)
    )


def runs(device: ClOwner, ready: Sequence[object]) -> list[range]:
    """Places of small kernels in a row, as far as the device can chain them."""
    if not device.hidden_args or device.memory_kind != FINE:
        return []
    found: list[range] = []
    begin = 0
    for place in range(len(ready) + 1):
        if place < len(ready) and suits(ready[place]):
            continue
        if place - begin >= LEAST and _kinds(ready[begin:place]) <= MAX_KERNELS:
            found.append(range(begin, place))
        begin = place + 1
    return found


def _kinds(ready: Sequence[object]) -> int:
    return len({launch.program.source for launch in ready if isinstance(launch, Launch)})


def _split(source: str) -> tuple[list[str], list[str], str]:
    """(declarations, types of the arguments, body) of a kernel's source."""
    head, kernel, rest = source.partition(_KERNEL)
    _, opened, signature = rest.partition(f"void {ENTRY}")
    _, _, listed = signature.partition("(")
    params, closed, body = listed.partition(") {")
    if not (kernel and opened and closed):
        raise MalformedInput("a kernel's source is not its renderer's", hint="compile it anew")
    types = [param.rpartition("*")[0] + "*" for param in params.split(", ")[:-1]]
    return head.splitlines(), types, f"({params}) {{{body}"


def chain_source(programs: Sequence[ClProgram]) -> str:
    """One program of kernels of different sources."""
    declared: dict[str, None] = {}
    bodies: list[str] = []
    cases: list[str] = []
    for number, program in enumerate(programs):
        head, types, body = _split(program.source.decode())
        declared |= dict.fromkeys(head)
        bodies.append(f"void c{number}{body}")
        buffers = [f"({kind})w[{place}]" for place, kind in enumerate(types[:-1], _FIXED_WORDS)]
        args = ", ".join([*buffers, "0", "w[1]"])
        cases.append(f"case {number}: c{number}({args}); break;")
    return "\n".join([
        *declared,
        *bodies,
        f"{_KERNEL} __attribute__((reqd_work_group_size(1, 1, 1)))",
        f"void {NAME}(__global const ulong *list, ulong words, ulong count) {{",
        "for (ulong i = 0; i < count; i++) {",
        "__global const ulong *w = list + i * words;",
        "switch (w[0]) {",
        *cases,
        "} } }",
        "",
    ])  # fmt: skip


class Chain:
    """One run of a graph. It is a command: under the device's lock."""

    def __init__(self, device: ClOwner, ring: Ring, launches: Sequence[Launch]) -> None:
        self._device, self._ring = device, ring
        self._numbers: dict[bytes, int] = {}
        programs: list[ClProgram] = []
        for launch in launches:
            if launch.program.source not in self._numbers:
                self._numbers[launch.program.source] = len(programs)
                programs.append(launch.program)
        self._stride = _FIXED_WORDS + max(program.nargs for program in programs)
        self._count = len(launches)
        code = device.builder.build(chain_source(programs), 0)
        nbytes = self._stride * self._count * _WORD_BYTES
        self._lists = [device.take(nbytes) for _ in range(LISTS)]
        """Where another buffer had the memory, `view` waits for what still uses that."""
        self._used = [0] * LISTS
        """How many commands the ring had when each list was last used."""
        self._turn = 0
        self.program, handle = device.builder.kernel(code, NAME)
        self.kernel = Kernel(device.api, handle, 1)
        with Undo() as undo:
            undo.add(lambda: device.drop_program(self.program, handle))
            self._number(1, self._stride)
            self._number(2, self._count)
        self.kernel.sizes((1, 1, 1), (1, 1, 1))

    def _number(self, place: int, value: int) -> None:
        cell = Words([value])
        self._device.api.do("clSetKernelArg", self.kernel.handle, place, _WORD_BYTES, cell.at)

    def fill(self, launches: Sequence[Launch]) -> None:
        """Name other memory in a list that no work reads."""
        self._turn = (self._turn + 1) % LISTS
        if self._used[self._turn] > self._ring.done:
            self._device.finish(self._ring)
        taken = self._lists[self._turn]
        words = taken.view().cast("Q")
        blocks: dict[int, Block] = {}
        for number, launch in enumerate(launches):
            at = number * self._stride
            words[at], words[at + 1] = self._numbers[launch.program.source], launch.grid[0]
            for place, block in enumerate(launch.blocks, at + _FIXED_WORDS):
                if block.handle:
                    raise MalformedInput("a cl_mem has no address", hint="replay without a chain")
                words[place] = block.gpu_va
                blocks[block.gpu_va] = block
        self.kernel.arguments([taken.block])
        named = Words(list(blocks))
        self._device.api.do(
            "clSetKernelExecInfo", self.kernel.handle, abi.KERNEL_EXEC_INFO_SVM_PTRS,
            len(blocks) * _WORD_BYTES, named.at,
        )  # fmt: skip

    def drop(self) -> None:
        """Finalisers call this at any moment: release the program later."""
        self._device.drop_program(self.program, self.kernel.handle)

    def __call__(self) -> bool:
        start(self._ring, self.kernel)
        self._used[self._turn] = self._ring.enqueued
        return True
