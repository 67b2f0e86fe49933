"""Why a function may not be taken: each reason with its evidence and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from drivers.base.errors import Busy


class Reason(StrEnum):
    """What is in the way. No setting overrides one."""

    NOT_A_GPU = "not a GPU"
    UNKNOWN_CHIP = "unknown chip"
    BOOT_DISPLAY = "boot display"
    DISPLAY = "display in use"
    CONSOLE = "framebuffer console"
    FIRMWARE_FRAMEBUFFER = "framebuffer of the firmware"
    HELD = "held by a process"
    UNSEEN = "processes that cannot be seen"
    GROUP = "another function in use"
    VIRTUAL_FUNCTIONS = "virtual functions"
    IS_VIRTUAL = "a virtual function"
    PARTITIONED = "partitions"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason: what is so, the file that says it, and the next thing to do."""

    reason: Reason
    text: str
    evidence: str
    advice: str
    pid: int | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.text} ({self.evidence})"


class Refused(Busy):
    """The function stays with its driver; `refusals` are all reasons, the first in the message."""

    def __init__(self, address: str, refusals: Sequence[Refusal]) -> None:
        self.address, self.refusals = address, tuple(refusals)
        first = self.refusals[0]
        more = f", and {len(self.refusals) - 1} more" if len(self.refusals) > 1 else ""
        pid = next((one.pid for one in self.refusals if one.pid is not None), None)
        super().__init__(f"{address} is not taken: {first}{more}", pid=pid, hint=first.advice)
        for other in self.refusals[1:]:
            self.add_note(str(other))

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason, in the order of the rules."""
        return tuple(refusal.reason for refusal in self.refusals)
