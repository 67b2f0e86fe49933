"""Compute registers: every address and field equals the kernel's headers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from drivers.base.errors import BadArgument
from queues.amd.registers import REGISTERS
from tests.support import check

EXPECTED = json.loads((Path(__file__).parents[1] / "data" / "amd_registers.json").read_text())
VERSIONS = {"gfx9": "gc_9_4_3", "gfx10": "gc_10_3_0", "gfx11": "gc_11_0_0", "gfx12": "gc_12_0_0"}


@pytest.mark.parametrize("family", VERSIONS)
def test_addresses_and_fields(family: str) -> None:
    registers, expected = REGISTERS[family], EXPECTED[VERSIONS[family]]
    addresses = {name: entry["address"] for name, entry in expected.items()}
    np.testing.assert_equal(dict(registers.addresses), addresses)
    check(len(addresses) > 50, "the table is there")
    for name, entry in expected.items():
        for field, (low, high) in entry["fields"].items():
            ones = (1 << high - low + 1) - 1
            np.testing.assert_equal(
                registers.encode(name, **{field.lower(): ones}), ones << low, f"{name}.{field}"
            )
            with pytest.raises(BadArgument):
                registers.encode(name, **{field.lower(): ones + 1})
        fields = [field.lower() for field in entry["fields"]]
        np.testing.assert_equal(sorted(registers.decode(name, 0)), sorted(fields), name)


def test_a_word_by_its_fields() -> None:
    word = REGISTERS["gfx11"].encode(
        "COMPUTE_DISPATCH_INITIATOR", compute_shader_en=1, force_start_at_000=1, cs_w32_en=1
    )
    np.testing.assert_equal(word, 0x8005, "as captured from gfx1100")
    with pytest.raises(BadArgument):
        REGISTERS["gfx9"].encode("COMPUTE_DISPATCH_INITIATOR", cs_w32_en=1)
    with pytest.raises(KeyError):
        REGISTERS["gfx9"].encode("COMPUTE_REQ_CTRL")
