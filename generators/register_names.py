"""Names of registers that the board does not model, and which of Linux's functions access them.

A register is here when a C file of amdgpu names it (`regTHM_THERMAL_INT_ENA`), and the board's
register file of the block lacks it. A line is `name segment 0xoffset function ...`; a register of
SDMA0 stands for that of SDMA1, too, which Linux finds by arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from generators.command import run
from generators.source import AMD, Generator, Source, head
from generators.wanted import wanted
from unbound import terminal

NAME = "register_names"
FOLDER = "boards/amd/pci/register_names"
_GPU, _POWER = f"{AMD}/amdgpu", f"{AMD}/pm/swsmu"
_SMU13, _SMU14 = f"{_POWER}/smu13", f"{_POWER}/smu14"
_GFX11 = ("gfx_v11_0", "gfx_v11_0_3", "sdma_v6_0", "mes_v11_0", "gfxhub_v3_0", "imu_v11_0",
          "soc21", "amdgpu_amdkfd_gfx_v11")  # fmt: skip
_GFX12 = ("gfx_v12_0", "sdma_v7_0", "mes_v12_0", "gfxhub_v12_0", "imu_v12_0", "soc24",
          "amdgpu_amdkfd_gfx_v12")  # fmt: skip
_GFX9 = ("gfx_v9_4_3", "gfxhub_v1_2", "amdgpu_amdkfd_gc_9_4_3")
_READERS: dict[str, tuple[str, ...]] = {
    "gc/gc_11_0_0": _GFX11, "gc/gc_12_0_0": _GFX12, "gc/gc_9_4_3": _GFX9,
    "sdma/sdma_4_4_2": ("sdma_v4_4_2", "amdgpu_amdkfd_gc_9_4_3"),
    "athub/athub_3_0_0": ("athub_v3_0", "gmc_v11_0"),
    "athub/athub_4_1_0": ("athub_v4_1_0", "gmc_v12_0"),
    "athub/athub_1_8_0": ("athub_v1_0", "amdgpu_amdkfd_gc_9_4_3"),
    "df/df_4_3": ("df_v4_3",), "df/df_4_15": ("df_v4_15",),
    "hdp/hdp_6_0_0": ("hdp_v6_0", "sdma_v6_0"), "hdp/hdp_7_0_0": ("hdp_v7_0", "sdma_v7_0"),
    "hdp/hdp_4_4_2": ("hdp_v4_0",),
    "lsdma/lsdma_6_0_0": ("lsdma_v6_0",), "lsdma/lsdma_7_0_0": ("lsdma_v7_0",),
    "mmhub/mmhub_3_0_0": ("mmhub_v3_0",), "mmhub/mmhub_3_0_2": ("mmhub_v3_0_2",),
    "mmhub/mmhub_4_1_0": ("mmhub_v4_1_0",), "mmhub/mmhub_1_8_0": ("mmhub_v1_8",),
    "mp/mp_13_0_2": (
        "psp_v13_0", "soc21", f"{_SMU13}/smu_v13_0", f"{_SMU13}/smu_v13_0_0_ppt",
        f"{_SMU13}/smu_v13_0_7_ppt",
    ),
    "mp/mp_13_0_6": ("psp_v13_0", f"{_SMU13}/smu_v13_0", f"{_SMU13}/smu_v13_0_6_ppt"),
    "mp/mp_14_0_2": (
        "psp_v14_0", "soc24", f"{_SMU14}/smu_v14_0", f"{_SMU14}/smu_v14_0_2_ppt",
    ),
    "nbio/nbio_4_3_0": ("nbio_v4_3", f"{_SMU13}/smu_v13_0_0_ppt"),
    "nbif/nbif_6_3_1": ("nbif_v6_3_1",),
    "nbio/nbio_7_9_0": ("nbio_v7_9",),
    "oss/osssys_6_0_0": ("ih_v6_0", "amdgpu_amdkfd_gfx_v11"), "oss/osssys_7_0_0": ("ih_v7_0",),
    "oss/osssys_4_4_2": ("vega20_ih", "amdgpu_amdkfd_gc_9_4_3"),
    "smuio/smuio_13_0_6": ("smuio_v13_0_6", "gfx_v11_0"),
    "smuio/smuio_14_0_2": ("smuio_v14_0_2",), "smuio/smuio_13_0_3": ("smuio_v13_0_3",),
    "thm/thm_13_0_2": (f"{_SMU13}/smu_v13_0",), "thm/thm_14_0_2": (f"{_SMU14}/smu_v14_0",),
}  # fmt: skip
"""By header, the C files that Linux compiles for chips with such a block."""
OUTPUTS = {f"{FOLDER}/{headers.partition('/')[2]}.txt": headers for headers in _READERS}
_LISTS = {"nbif": "nbio", "oss": "osssys"}
_MODELLED = Path(__file__).parent / "wanted"
_NAMED = re.compile(r"\b(?:reg|mm)([A-Z]\w+)")
_DEFINE = re.compile(r"#define\s+(?:reg|mm)(\w+)\s+(0x[0-9a-fA-F]+|\d+)\s*$", re.MULTILINE)
_FUNCTION = re.compile(r"^(?=[a-zA-Z])[^;={}#]*?(\w+)\(")
_TABLE = re.compile(r"^(?:static |const |struct )[^;(]*?(\w+)\s*(?:\[[^\]]*\])?\s*=")


def _users(text: str) -> Iterator[tuple[str, str]]:
    """(register, the function or table that names it), in the order of the text."""
    inside = ""
    for line in text.splitlines():
        begun = _TABLE.match(line) or _FUNCTION.match(line)
        if begun is not None:
            inside = begun[1]
        elif line.startswith("}"):
            inside = ""
        if inside:
            for found in _NAMED.findall(line):
                yield found, inside


def _path(reader: str) -> str:
    return f"{reader}.c" if "/" in reader else f"{_GPU}/{reader}.c"


def make(source: Source, output: str) -> str:
    """The text of one file of names."""
    headers = OUTPUTS[output]
    folder = headers.partition("/")[0]
    macros = _DEFINE.findall(source.read(f"{AMD}/include/asic_reg/{headers}_offset.h"))
    offsets = {name: int(value, 0) for name, value in macros}
    users: dict[str, list[str]] = {}
    for reader in _READERS[headers]:
        for register, function in _users(source.read(_path(reader))):
            for name in {register, register.replace("SDMA0_", "SDMA1_", 1)}:
                if function not in users.setdefault(name, []):
                    users[name].append(function)
    listed = f"board_{_LISTS.get(folder, folder)}"
    has_list = (_MODELLED / f"{listed}.txt").exists()
    modelled = wanted(listed) if has_list else lambda name: False
    rows = sorted(
        (offsets[f"{name}_BASE_IDX"], offsets[name], name)
        for name in users
        if name in offsets and f"{name}_BASE_IDX" in offsets and not modelled(name)
    )
    text = head(NAME, output, source)
    text += "# name, segment, dword offset in it, functions and tables of Linux that name it\n"
    for segment, offset, name in rows:
        text += " ".join([name, str(segment), f"{offset:#x}", *users[name]]) + "\n"
    return text


GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
