"""The doctor's rows about Adreno GPUs: nodes, SELinux, page faults, firmware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.machine.lines import OK, WARN, Line
from drivers.qcom.look import firmware_advice, look
from drivers.qcom.page_faults import kgsl_lines, msm_lines
from drivers.qcom.release import refusal

TOPIC: Final = "gpus"
FAULTS: Final = {"KGSL": kgsl_lines, "MSM": msm_lines}


def rows(world: World, environ: Mapping[str, str]) -> Iterator[Line]:
    """Rows of the Adrenos; none on a machine without one."""
    found = look(world)
    for node in found.nodes:
        old = refusal(world, node.way)
        if old is not None:
            yield Line(TOPIC, WARN, f"{node.title}: {old.message}", old.hint)
        if node.ok:
            yield Line(TOPIC, OK, f"{node.title}: {node.reason}")
            yield from FAULTS[node.way](world, TOPIC)
        else:
            yield Line(TOPIC, WARN, f"{node.title}: {node.reason}", node.advice)
    lacks = firmware_advice(found)
    if lacks:
        yield Line(TOPIC, WARN, lacks, "install linux-firmware, or copy the vendor's files")
