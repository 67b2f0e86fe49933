"""What a dispatch, the command processor and UCHE have seen of each other's writes.

Dispatches run beside each other until something waits; shaders read and write through UCHE, the
command processor reads and writes DRAM. So what the processor wrote is read stale until UCHE is
invalidated, and what a shader wrote until UCHE is cleaned.

src: Mesa 25.0.7, src/freedreno/vulkan/tu_cmd_buffer.cc: tu_flush_for_access, tu6_emit_flushes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.memory import Find, Memory


@dataclass(slots=True)
class Caches:
    """Counters of one GPU: dispatches and writes are numbered from 1."""

    find: Find
    dispatch: int = 0
    """The last one begun."""
    idle: int = 0
    """The last one that is known to have ended."""
    cleaned: int = 0
    """The last one whose writes are in DRAM."""
    writes: int = 0
    """The command processor's writes."""
    landed: int = 0
    """Those that WAIT_MEM_WRITES has waited for."""
    invalidated: int = 0
    """Those that were made before UCHE was last invalidated."""
    fresh: bool = False
    """Whether UCHE was invalidated in this submission."""

    def begin(self) -> None:
        """A submission, which the kernel lets begin when the last one has ended."""
        self.fresh = False
        self.end()

    def end(self) -> None:
        """The kernel's own commands at the end: clean, and wait."""
        self.idle = self.cleaned = self.dispatch
        self.landed = self.writes

    def invalidate(self) -> None:
        """An event has invalidated UCHE."""
        self.invalidated, self.fresh = self.writes, True

    def clean(self) -> None:
        """An event has written UCHE back, after all work before it."""
        self.cleaned = self.dispatch

    def wait_idle(self) -> None:
        """Everything before has ended."""
        self.idle = self.dispatch

    # Accesses

    def processor_wrote(self, memory: Memory, lines: slice) -> None:
        """The command processor wrote lines."""
        self.writes += 1
        memory.lines()
        if self.running and (memory.shader_read[lines] > self.idle).any():
            self.find("missing wait", f"CP writes {memory.name}, which a running dispatch reads")
        memory.cp_wrote[lines] = memory.cp_wrote_last = self.writes

    def processor_reads(self, memory: Memory, lines: slice, what: str) -> None:
        """The command processor is about to read lines."""
        if len(memory.shader_wrote) and (memory.shader_wrote[lines] > self.cleaned).any():
            self.find("stale read", f"{what} reads {memory.name}, which UCHE has not written back")

    def shader_reads(self, memory: Memory, lines: Array) -> None:
        """A dispatch, or UCHE for it, reads lines."""
        memory.lines()
        if memory.cp_wrote_last > min(self.invalidated, self.landed):
            self._late_write(memory, memory.cp_wrote[lines])
        self._overlaps(memory, lines, "reads")
        memory.shader_read[lines] = self.dispatch

    def _late_write(self, memory: Memory, late: Array) -> None:
        if (late > self.invalidated).any():
            self.find("stale read", f"{memory.name}: UCHE was not invalidated after CP wrote it")
        elif (late > self.landed).any():
            self.find("stale read", f"{memory.name}: no WAIT_MEM_WRITES after CP wrote it")

    def shader_writes(self, memory: Memory, lines: Array) -> None:
        """A dispatch writes lines."""
        memory.lines()
        self._overlaps(memory, lines, "writes")
        if self._beside and self._others(memory.shader_read[lines]):
            what = f"a dispatch writes {memory.name} while one that reads it may run"
            self.find("missing wait", f"{what}: no WAIT_FOR_IDLE between them")
        memory.shader_wrote[lines] = self.dispatch

    def _overlaps(self, memory: Memory, lines: Array, does: str) -> None:
        if self._beside and self._others(memory.shader_wrote[lines]):
            what = f"a dispatch {does} {memory.name} while the one that wrote it may run"
            self.find("missing wait", f"{what}: no WAIT_FOR_IDLE between them")

    @property
    def _beside(self) -> bool:
        """Whether another dispatch than the last one may be running."""
        return self.idle < self.dispatch - 1

    def _others(self, by: Array) -> bool:
        return bool((np.greater(by, self.idle) & np.not_equal(by, self.dispatch)).any())

    @property
    def running(self) -> bool:
        """Whether a dispatch may be running."""
        return self.dispatch > self.idle

    @property
    def dirty(self) -> bool:
        """Whether UCHE may hold what is not in DRAM."""
        return self.dispatch > self.cleaned
