"""What the board's power controllers know: their messages, and the layout of their metrics."""

from __future__ import annotations

import re
from typing import NamedTuple

from generators.c_types import Types
from generators.command import run
from generators.source import AMD, Generator, Source, head
from unbound import terminal

NAME = "smu"
FOLDER = "boards/amd/pci/smu_data"
_INTERFACES = f"{AMD}/pm/swsmu/inc/pmfw_if"
_MESSAGE = re.compile(r"^#define PPSMC_MSG_(\w+)\s+(0x[0-9A-Fa-f]+)", re.M)


class Metrics(NamedTuple):
    """The struct that a controller writes."""

    header: str
    struct: str
    inner: str = ""
    """The member whose own members are listed; the rest is padding."""


METRICS = {
    "13_0_0": Metrics("smu13_driver_if_v13_0_0.h", "SmuMetricsExternal_t", "SmuMetrics"),
    "13_0_6": Metrics("smu_v13_0_6_pmfw.h", "MetricsTableX_t"),
    "13_0_7": Metrics("smu13_driver_if_v13_0_7.h", "SmuMetricsExternal_t", "SmuMetrics"),
    "14_0_2": Metrics("smu14_driver_if_v14_0.h", "SmuMetricsExternal_t", "SmuMetrics"),
}
OUTPUTS = {
    f"{FOLDER}/{what}_{name}.txt": name for name in METRICS for what in ("messages", "metrics")
}


def _messages(source: Source, version: str) -> list[str]:
    text = source.read(f"{_INTERFACES}/smu_v{version}_ppsmc.h")
    found = {name: int(number, 0) for name, number in _MESSAGE.findall(text)}
    return [f"# messages of SMU {version.replace('_', '.')}"] + [
        f"{name} {number:#x}" for name, number in found.items()
    ]


def _metrics(source: Source, version: str) -> list[str]:
    of = METRICS[version]
    types = Types(source.read(f"{_INTERFACES}/{of.header}"))
    lines = [
        f"# {of.struct} of SMU {version.replace('_', '.')}: {types.size(of.struct)} bytes;"
        " name, byte offset, bytes of one element, elements"
    ]
    prefix = f"{of.inner}." if of.inner else ""
    for path, offset, nbytes, elements in types.members(of.struct):
        if path.startswith(prefix):
            lines.append(f"{path.removeprefix(prefix)} {offset:#x} {nbytes} {elements}")
    return lines


def make(source: Source, output: str) -> str:
    """The text of one file."""
    version = OUTPUTS[output]
    rows = (_messages if "/messages_" in output else _metrics)(source, version)
    return head(NAME, output, source) + "".join(f"{row}\n" for row in rows)


GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
