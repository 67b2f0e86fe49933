"""Which device is used when nothing is chosen: the best one that a kernel driver offers.

A program that wants another sets CPU=1, AMD=1 or DEV=AMD:1 (`drivers.choice`), or names it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Device, Firmware, World
from drivers.base.errors import BadChoice, DeviceError
from drivers.base.offer import Offer, Passed
from drivers.choice import choose
from drivers.kinds import BEST_FIRST, named, ways
from drivers.registry import open_device, this_machine

OTHERS: Final = "CPU=1, AMD=1 or DEV=AMD:1 chooses another"
_SHOWN_REASONS: Final = 4


@dataclass(frozen=True, slots=True)
class Default:
    """The default device, and why it is that one."""

    name: str
    """"CPU", "AMD", "AMD:1"."""
    why: str
    passed: tuple[Passed, ...] = ()
    """What was passed over, in order."""

    @property
    def reasons(self) -> str:
        """Why nothing else was chosen; "" where nothing was passed over."""
        shown = "; ".join(str(one) for one in self.passed[:_SHOWN_REASONS])
        more = len(self.passed) - _SHOWN_REASONS
        return f"{shown}; and {more} more" if more > 0 else shown

    def warn(self) -> None:
        """One line where a device was opened and that failed: a broken GPU is not hidden."""
        failed = [one for one in self.passed if one.failed]
        if failed:
            warnings.warn(
                f"{'; '.join(map(str, failed))}; {self.name} is used instead. "
                f"DEV={failed[0].name} makes this an error, DEV={self.name} avoids this line",
                RuntimeWarning,
                stacklevel=3,
            )


def best_first(world: World, environ: Mapping[str, str]) -> Iterator[Offer | Passed]:
    """GPUs that could be the default, best first, and the reasons against better ones.

    Files are read, as far as the caller iterates; nothing is opened, claimed or changed.
    """
    for kind, way in ways():
        try:
            yield from named(way.offers)(world, environ) if way.offers else ()
        except DeviceError as error:
            yield Passed(f"{kind.name} {way.name}".strip(), error.message, error.hint)


def chosen(environ: Mapping[str, str]) -> Default | None:
    """The device that the environment chooses; None where it leaves that to the hardware.

    Raises: BadChoice.
    """
    choice = choose(environ)
    if choice.kind is None:
        return None
    return Default(Offer(choice.kind, choice.index, "").name, "the environment chooses it")


def settle(
    world: World,
    opens: Callable[[str], object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Default:
    """The first offer that `opens`; without it, the first offer. The last resort is the CPU,
    which is not opened here.

    Raises: BadChoice, and what is no DeviceError.
    """
    passed: list[Passed] = []
    for found in best_first(world, environ or {}):
        if isinstance(found, Passed):
            passed.append(found)
            continue
        try:
            if opens is not None:
                opens(found.name)
        except BadChoice:
            raise
        except DeviceError as error:
            what = f"cannot be opened: {error.message}"
            passed.append(Passed(found.name, what, error.hint, failed=True))
        else:
            return Default(found.name, found.title, tuple(passed))
    last = BEST_FIRST[-1]
    return Default(last.name, last.ways[0].why, tuple(passed))


def explain(world: World, environ: Mapping[str, str]) -> Default:
    """The default device as far as it can be known without opening one. Raises: BadChoice."""
    return chosen(environ) or settle(world, environ=environ)


def open_default(
    *,
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    firmware: Firmware | None = None,
) -> Device:
    """Open what the environment chooses, else the best device that can be opened.

    Raises: BadChoice, and what opening a chosen device, or the CPU, raises.
    """
    machine = this_machine() if world is None else world
    settings = os.environ if environ is None else environ
    opened: dict[str, Device] = {}

    def opens(name: str) -> None:
        opened[name] = open_device(name, world=machine, environ=settings, firmware=firmware)

    default = chosen(settings) or settle(machine, opens, settings)
    default.warn()
    if default.name not in opened:
        opens(default.name)
    return opened[default.name]
