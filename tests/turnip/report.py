"""What a session of the witness leaves behind."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LAVAPIPE: Final = "lavapipe"
RESULTS: Final = "results.npz"
REPORT: Final = "report.json"
EXPLAINED: Final = {
    "0x2: [Errno 22] no property 0x2d": "KGSL of these chips has no RAYTRACING property",
    "0x4a: [Errno 22] a queue of flags 0x1": "ALLOW_PREEMPT, before Linux 6.17",
}
"""What a board refuses, rightly, by how the text begins."""


@dataclass
class Report:
    """Of one process."""

    device: str = ""
    error: str = ""
    missing: dict[str, str] = field(default_factory=dict)
    """By kernel: the feature that the driver does not offer."""
    violations: dict[str, list[str]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    """The board's kernel log."""

    def unexplained(self) -> list[str]:
        """What was refused, and should not have been."""
        return [text for text in self.refused if not text.startswith(tuple(EXPLAINED))]


def read(folder: Path) -> Report:
    """The report in a folder."""
    return Report(**json.loads((folder / REPORT).read_text()))
