"""The doctor's rows about NVIDIA GPUs: version of the kernel driver, nodes, GPUs that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.choice import visible_lists
from drivers.machine.lines import OK, WARN, Line
from drivers.nv.nvk.abi import OLDEST_NAME
from drivers.nv.tools.look import UNHIDE, look

TOPIC: Final = "gpus"
_NEWER: Final = "see docs/nv.md for the releases that are known, and report how it went"


def rows(world: World, environ: Mapping[str, str]) -> Iterator[Line]:
    """Rows of the NVIDIA GPUs; none on a machine without one and without the kernel driver."""
    found = look(world, visible_lists(environ, "NV"))
    if found.version and found.problem is None and not found.note:
        oldest = f"the oldest is {OLDEST_NAME}"
        yield Line(TOPIC, OK, f"NVIDIA's kernel driver {found.version} is known; {oldest}")
    if found.problem is not None:
        yield Line(TOPIC, WARN, found.problem.message, found.problem.hint)
    if found.note:
        yield Line(TOPIC, WARN, found.note, _NEWER)
    for gpu in found.gpus:
        if not gpu.node.ok:
            text = f"{gpu.product or 'the NVIDIA GPU'} at {gpu.address}: {gpu.node.reason}"
            yield Line(TOPIC, WARN, text, gpu.node.advice)
        elif gpu.hidden:
            yield Line(TOPIC, WARN, f"the NVIDIA GPU at {gpu.address}: {gpu.hidden}", UNHIDE)
    for other in found.unmanaged:
        yield Line(TOPIC, WARN, other.reason, other.advice)
