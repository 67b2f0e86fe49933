"""What foreign code of this machine says when a diagnostic asks it, step by step.

A library of a vendor may abort, exit or never return when it is loaded or asked. So a survey, a
generator of steps, says what it is about to use before it does; who runs it in another process
(`drivers.world.child`) then knows what ended that process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

NUMBERS: Final = "_bytes"
PATIENCE_S: Final = 10.0
"""How long loading a library, or asking it, may take."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What comes next uses `name`, which may end the process."""

    name: str
    deed: str = "loaded"
    """What is done to it, in the past tense."""
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was found: texts by name, and numbers where the name ends in NUMBERS."""

    values: Mapping[str, Any]


Step: TypeAlias = Begun | Fact


@dataclass(frozen=True, slots=True)
class Lost:
    """What ended the process that used it, or kept it waiting."""

    name: str
    how: str

    def __str__(self) -> str:
        return f"{self.name} {self.how}".strip()


@dataclass(slots=True)
class Answers:
    """All that a survey found."""

    facts: list[Mapping[str, Any]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    noise: str = ""
    """The beginning of what libraries wrote to standard output and standard error."""


Request: TypeAlias = Mapping[str, Any]
"""What a survey is given. `skip`: names that are not to be used again; `lost`: those of them that
ended a process."""
Survey: TypeAlias = Callable[..., Iterator[Step]]
"""(World, Request) -> steps. Raises: DeviceError."""
Ask: TypeAlias = Callable[[str, Request], Answers]
"""("module:function" of a survey, what it is given) -> what it found. Raises: DeviceError."""


def gathered(steps: Iterator[Step]) -> Answers:
    """A survey run in this process: for worlds that are made up."""
    return Answers([step.values for step in steps if isinstance(step, Fact)])
