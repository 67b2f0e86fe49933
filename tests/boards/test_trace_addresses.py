"""A register trace over PCI names no memory of the process: addresses are those of the GPU."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from boards.front import Setup, power_on
from drivers import replay
from tests.support import check

LOWEST, END = 1 << 32, 1 << 47
PAGE = 0x0000_FFFF_FFFF_F000
"""Of the address in an entry of a page table."""
SHIFTS = (0, 8, 12)
"""By which registers keep addresses of bytes, of 256 bytes and of pages."""


ELSEWHERE = """
import sys
from boards.front import Setup, power_on
power_on(Setup("gfx1100", iface="PCI", dma=sys.argv[1], trace=sys.argv[2])).open().close()
"""
"""The same in another process, whose memory is elsewhere: what both traces have is none of it."""


def addresses(lines: list[dict[str, Any]]) -> Iterator[int]:
    """Everything in a trace that could be an address of 64 bits."""
    for line in lines:
        data = b64decode(line.get("data", ""))
        for off in range(0, len(data) - 7, 4):
            word = struct.unpack_from("<Q", data, off)[0]
            yield from (word, word & PAGE)
    values = [line["value"] for line in lines if "value" in line]
    for one, other in pairwise(values):
        yield from ((one | other << 32) << shift for shift in SHIFTS)
        yield from ((other | one << 32) << shift for shift in SHIFTS)


def mapped() -> list[tuple[int, int]]:
    """Where this process has memory; not what the loader puts at a fixed place."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines]
    return [(int(first, 16), int(last, 16)) for first, last in spans if int(first, 16) >= LOWEST]


def addresses_in(file: Path) -> set[int]:
    """Everything in a trace that could be an address of a process."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {va for va in addresses(lines) if LOWEST <= va < END}


@pytest.mark.parametrize("dma", ["", "vram"], ids=["IOMMU", "VRAM"])
def test_a_trace_names_no_memory_of_the_process(dma: str, tmp_path: Path) -> None:
    file, other = tmp_path / "trace.jsonl", tmp_path / "other.jsonl"
    front = power_on(Setup("gfx1100", iface="PCI", dma=dma, trace=str(file)))
    device = front.open()
    spans = mapped()
    device.close()
    subprocess.run([sys.executable, "-c", ELSEWHERE, dma, str(other)], check=True)
    suspects, elsewhere = addresses_in(file), addresses_in(other)
    of_here = suspects - elsewhere
    found = [hex(va) for va in of_here if any(first <= va < last for first, last in spans)]
    check(
        min(len(suspects), len(elsewhere)) > 100 and not found,
        f"{len(suspects)} looked at, {found}",
    )
    check(replay.main([str(file), "--board", "gfx1100"]) == 0, "and it is played back")
