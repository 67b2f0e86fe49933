"""The rows of Adreno chips against Mesa's freedreno_devices.py, which is run as it is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

import pytest

from compilers.qcom.compiler import compile_object
from compilers.qcom.targets import CHIPS as TARGETS
from drivers.base.contracts import Binary
from drivers.base.errors import CompileError, Unsupported
from drivers.qcom.program import _check
from queues.qcom import chips
from queues.qcom.chips import CHIPS, Chip, chip_named, chip_of
from queues.qcom.kernel_code import AdrenoCode
from queues.qcom.registers import GEN6
from tests.references import MESA, find
from tests.support import check

DEVICES: Final = "src/freedreno/common/freedreno_devices.py"
_SPEED_BINS: Final = 0xFFFFFFFF
STUBS: Final = """
from enum import Enum
class _Names(type):
    def __getattr__(cls, name):
        made = numbers.setdefault(name, len(numbers) + 1_000_000)
        return made
numbers = {}
class A6XXRegs(metaclass=_Names):
    pass
"""


@pytest.fixture(scope="module")
def mesa(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Mesa's module, with numbers of our own for registers, and without what it prints."""
    folder = find(MESA)
    if folder is None:
        pytest.skip("no Mesa source: make references")
    text = (folder / DEVICES).read_text()
    start, end = text.index("class CHIP("), text.rindex("print(Template")
    head = text[text.index("def max_bitfield_val") : text.index("parser = ")]
    path = tmp_path_factory.mktemp("mesa") / "freedreno_devices.py"
    Path(path).write_text(STUBS + head + text[start:end])
    spec = importlib.util.spec_from_file_location("freedreno_devices", path)
    if spec is None or spec.loader is None:
        raise AssertionError(f"{path} is no module")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(mesa: Any, chip_id: int) -> list[Any]:
    """Mesa's rows of a chip id, as dev_id_compare() finds them."""
    found = []
    for one, info in mesa.s.gpus.items():
        wanted = one.chip_id & _SPEED_BINS
        any_patch = wanted & 0xFF == 0xFF and wanted == chip_id | 0xFF
        found += [info] if wanted == chip_id or any_patch else []
    return found


def differences(mesa: Any, chip: Chip, info: Any) -> list[str]:
    names = {number: name for name, number in mesa.numbers.items()}
    magic = dict(vars(info.a6xx.magic))
    for number, value in getattr(info.a6xx, "magic_raw", []):
        magic[re.sub(r"^REG_A[67]XX_", "", names.get(number, ""))] = value
    lpac = getattr(info.a6xx, "has_lpac", False)
    seventh = chip.generation != GEN6
    pairs = {
        "generation": (chip.generation, info.chip),
        "sp_cores": (chip.sp_cores, info.num_ccu),
        "fibers": (chip.fibers_per_sp, info.fibers_per_sp),
        "instruction cache": (chip.icache_units, info.a6xx.instr_cache_size),
        "shared": (chip.shared_bytes, info.cs_shared_mem_size),
        "LPAC": (chip.has_lpac or seventh, lpac or seventh),
        "constants": (
            chip.most_constants,
            512 if seventh and not getattr(info.a7xx, "compute_constlen_quirk", False) else 256,
        ),
        "registers": (TARGETS[chip.name].register_file, info.a6xx.reg_size_vec4),
        "compiler's cores": (TARGETS[chip.name].units, info.num_ccu),
        "compiler's constants": (TARGETS[chip.name].constants, chip.most_constants),
        **{name: (value, magic[name]) for name, value in chip.magic.items() if name in magic},
    }
    wrong = {name: both for name, both in pairs.items() if both[0] != both[1]}
    return [f"{name}: {ours}, not {theirs}" for name, (ours, theirs) in wrong.items()]


@pytest.mark.parametrize("name", [chip.name for chip in CHIPS])
def test_a_row_is_mesas(mesa: Any, name: str) -> None:
    """For every id that has it."""
    chip = chip_named(name)
    for number in (chip.chip_id, *chip.more_ids):
        found = rows(mesa, number)
        check(bool(found), f"Mesa has no {number:#x}")
        wrong = [line for info in found for line in differences(mesa, chip, info)]
        check(not wrong, f"{number:#x}: {wrong}")


def test_chips_that_need_more_than_a_row(mesa: Any) -> None:
    """A725 and A32 run a shader before all else (cmdbuf_start_a725_quirk): they are refused."""
    quirky = {
        one.chip_id & _SPEED_BINS for one, info in mesa.s.gpus.items()
        if getattr(getattr(info, "a7xx", None), "cmdbuf_start_a725_quirk", False)
    }  # fmt: skip
    check(quirky == {0x07030002, 0x43050A00}, str(quirky))
    for number in quirky:
        with pytest.raises(Unsupported, match="chip id"):
            chip_of(number)


def test_names_and_ids_are_of_one_row_each() -> None:
    ids = [one for chip in CHIPS for one in (chip.chip_id, *chip.more_ids)]
    names = [one for chip in CHIPS for one in (chip.name, *chip.also)]
    check(len(set(ids)) == len(ids) and len(set(names)) == len(names))
    check(all(chip_of(one | 0x7 << 32) in CHIPS for one in ids), "a speed bin")
    check(chip_of(0x06030500).name == "a635" and chip_named("a643").name == "a635")
    check(chip_of(0x06010600).name == "a618" and chip_of(0x06060300).name == "a662")
    check(chip_of(0x43050B00).name == "a740" and set(TARGETS) == set(chips.BY_NAME))


@pytest.mark.parametrize("name", ["a618", "a630", "a690", "a740", "x1-85"])
def test_constants_of_a_kernel(name: str) -> None:
    """256 vec4 of compute on generation 6 and X1-85, 512 on others of generation 7.

    # src: Mesa 25.0.7, ir3_compiler.c ir3_compiler_create()
    """
    chip, most = chip_named(name), 512 if name == "a740" else 256
    for constlen in (most, most + 4):
        code = AdrenoCode(
            generation=chip.generation, instrlen=1, full_registers=1, half_registers=0,
            branch_stack=0, wave_lanes=64, constlen=constlen, param_vec4=0, literal_vec4=0,
            literal_words=0, grid_vec4=512, group_id_reg=252, local_id_reg=252, private_bytes=0,
        )  # fmt: skip
        binary = Binary(chip.name, "k", bytes(128), 0)
        if constlen <= most:
            _check(binary, code, chip)
        else:
            with pytest.raises(Unsupported, match=f"{most}"):
                _check(binary, code, chip)


@pytest.mark.parametrize(("name", "most"), [("a630", 256), ("a740", 512), ("x1-85", 256)])
def test_the_compiler_stops_there(name: str, most: int) -> None:
    """Literals behind one parameter: so many and one more vec4."""
    generation = chip_named(name).generation
    room = 4 * most - 4
    for count in (room, room + 8):
        lines = [f"ir3 {generation} 48 64 0 1", "base v1 c0", "mov v2 r0"]
        lines += [f"add.u v{3 + at} v{2 + at} k{at + 5000}" for at in range(count)]
        text = "\n".join([*lines, f"stga.u32 v1 v2 0 0 v{2 + count} 1", "end"])
        if count == room:
            compile_object(text, name, frozenset())
        else:
            with pytest.raises(CompileError, match=f"the chip has {most}|does not fit 11 bits"):
                compile_object(text, name, frozenset())
