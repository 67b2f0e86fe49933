"""Layout of AMD's firmware headers and numbers of firmware kinds, as the kernel declares them."""

from __future__ import annotations

import json
import re

from generators.c_types import Types
from generators.command import run
from generators.source import AMD, Generator, Source, Unreadable, json_head
from unbound import terminal

NAME = "firmware_headers"
_UCODE, _PSP = f"{AMD}/amdgpu/amdgpu_ucode.h", f"{AMD}/amdgpu/psp_gfx_if.h"
STRUCTS = (
    "common_firmware_header", "smc_firmware_header_v1_0", "smc_firmware_header_v2_0",
    "smc_firmware_header_v2_1", "smc_soft_pptable_entry", "psp_fw_legacy_bin_desc",
    "psp_firmware_header_v1_0", "psp_firmware_header_v1_1", "psp_firmware_header_v1_2",
    "psp_firmware_header_v1_3", "psp_fw_bin_desc", "psp_firmware_header_v2_0",
    "psp_firmware_header_v2_1", "gfx_firmware_header_v1_0", "gfx_firmware_header_v2_0",
    "rlc_firmware_header_v2_0", "rlc_firmware_header_v2_1", "rlc_firmware_header_v2_2",
    "rlc_firmware_header_v2_3", "rlc_firmware_header_v2_4", "sdma_firmware_header_v1_0",
    "sdma_firmware_header_v1_1", "sdma_firmware_header_v2_0", "sdma_firmware_header_v3_0",
    "imu_firmware_header_v1_0", "ta_firmware_header_v2_0", "mes_firmware_header_v1_0",
)  # fmt: skip
ENUMS = ("psp_fw_type", "psp_gfx_fw_type", "ta_fw_type")
OUTPUTS = {"boards/amd/pci/firmware_headers.json": STRUCTS}


def _most_pieces(text: str, types: Types) -> int:
    """UCODE_MAX_PSP_PACKAGING, whose definition is arithmetic with three sizes of types."""
    form = (
        r"#define UCODE_MAX_PSP_PACKAGING \(\(\(sizeof\((.+?)\) - sizeof\((.+?)\) - (\d+)\)"
        r" / sizeof\((.+?)\)\) \* (\d+)\)"
    )
    found = re.search(form, text)
    if found is None:
        raise Unreadable(f"{_UCODE} defines UCODE_MAX_PSP_PACKAGING in another way")
    whole, common, rest, piece, times = found.groups()
    left = types.size(whole) - types.size(common) - int(rest)
    return left // types.size(piece) * int(times)


def make(source: Source, output: str) -> str:
    """The text of the file: one struct a line."""
    ucode, psp = source.read(_UCODE), source.read(_PSP)
    types = Types(ucode, psp)
    structs = []
    for name in OUTPUTS[output]:
        fields = {
            path: [offset, nbytes * elements]
            for path, offset, nbytes, elements in types.members(f"struct {name}")
        }
        struct = {"size": types.size(f"struct {name}"), "fields": fields}
        structs.append(f"  {json.dumps(name)}: {json.dumps(struct)}")
    enums = {key: value for name in ENUMS for key, value in types.enum(f"enum {name}").items()}
    enums["UCODE_MAX_PSP_PACKAGING"] = _most_pieces(ucode, types)
    first = json.dumps(json_head(NAME, output, source), indent=1).removesuffix("\n}")
    listed = ",\n".join(structs)
    return f'{first},\n "structs": {{\n{listed}\n }},\n "enums": {json.dumps(enums)}\n}}\n'


GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
