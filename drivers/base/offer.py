"""What a kind of device offers as the default: devices that may be opened, and the others' reasons.

Both are found by inspecting files; neither is opened, claimed or changed by that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """A device that its kernel driver offers to this user."""

    kind: str
    index: int
    title: str
    """Its description and interface, as text."""

    @property
    def name(self) -> str:
        """As `drivers.open` takes it: "CL", "CL:1"."""
        return f"{self.kind}:{self.index}" if self.index else self.kind


@dataclass(frozen=True, slots=True)
class Passed:
    """A device, or a whole interface, that is passed over as the default, and why."""

    name: str
    """A device's name or place, or a kind with its interface ("NV PCI")."""
    reason: str
    advice: str = ""
    failed: bool = False
    """Whether it was opened and that failed: everything that can be inspected was right."""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
