"""Resets that really forget, and what is not defined afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.pci import left_over
from boards.machine.pool import poison
from tests.boards.bare_function import MIB, NAMES, VRAM_BYTES, Bare, started
from tests.support import check

SECRET = b"what the last owner computed" * 8
# src: notes section 3.2: the debug mailbox, GfxDriverReset(1) on 13.0.6
DEBUG = ("gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201")


def ask_for_mode1(bare: Bare, command: bytes = b"\x02\x00") -> int:
    """The message, and its response as a driver that waits for it sees it."""
    bare.gpu.config.write(4, command)
    if bare.name not in DEBUG:
        return bare.smu(3, 1)[0]
    bare.write("MP1", "MP1_SMN_C2PMSG_54", 0)
    bare.write("MP1", "MP1_SMN_C2PMSG_53", 0)
    bare.write("MP1", "MP1_SMN_C2PMSG_75", 2)
    return bare.read("MP1", "MP1_SMN_C2PMSG_54")


@pytest.mark.parametrize("name", NAMES)
def test_mode1_forgets_everything_but_where_the_bars_are(name: str) -> None:
    bare = started(name)
    bare.gpu.config.write(0x10, (0x40_0000_000C).to_bytes(8, "little"))
    bare.write("GC", "SCRATCH_REG7", 0x1234)
    bare.put(40 * MIB, SECRET)
    check(ask_for_mode1(bare) == 1, "no answer")
    check(bare.read("GC", "SCRATCH_REG7") == 0x1234, "the answer could not be read")
    bare.gpu.clock.skip(0.5)
    bare.gpu.pump()
    check(bare.gpu.config.read(4, 1) == b"\x02", "memory stays")
    bars = bare.gpu.config.read(0x10, 8)
    check(bars == (0x40_0000_000C).to_bytes(8, "little"), "the BAR moved")
    check(bare.read("GC", "SCRATCH_REG7") == 0, "scratch registers")
    check(bare.read("MP0", bare.psp(81)) == 0, "SOS lives on")
    check(bare.gpu.board.loaded == set(), f"{bare.gpu.board.loaded}")
    check(bare.get(40 * MIB, len(SECRET)) == bytes(len(SECRET)), "VRAM can still be read")
    check(bare.get(VRAM_BYTES - (64 << 10), 4) == b"\x07\x14\x21\x28", "discovery is gone")
    bare.start_sos()
    check(bare.create_ring() == 0x8000_0000, "it does not boot again")
    bare.set_up_tmr()
    check(bare.found() == [], f"{bare.gpu.violations}")


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_a_reset_while_it_may_reach_the_host(name: str) -> None:
    """src: amdgpu_device_mode1_reset() switches bus mastering off first."""
    bare = started(name)
    check(ask_for_mode1(bare, b"\x06\x00") == 1, "no answer")
    bare.gpu.clock.skip(0.5)
    bare.gpu.pump()
    check(bare.gpu.config.read(4, 1) == b"\x02", "bus mastering goes, memory stays")
    check(bare.found() == ["mode-1 reset with bus mastering on"], f"{bare.gpu.violations}")


def test_a_reset_that_is_due_has_happened_to_config_space_too() -> None:
    bare = started("gfx1100", reset_keeps_config=False)
    check(ask_for_mode1(bare) == 1, "no answer")
    bare.gpu.clock.skip(0.5)
    check(bare.gpu.config.read(4, 1) == b"\0", "as before the reset")
    bare = started("gfx1100")
    check(ask_for_mode1(bare) == 1, "no answer")
    bare.gpu.clock.skip(0.5)
    bare.gpu.config.write(4, b"\x06\x00")
    bare.gpu.pump()
    check(bare.gpu.config.read(4, 1) == b"\x06", "written after the reset")
    check(bare.found() == [], f"{bare.gpu.violations}")


def test_a_bus_reset_forgets_config_space_too() -> None:
    bare = started("gfx1100", bar_bytes=64 * MIB)
    bare.gpu.config.write(0x10, (0x40_0000_000C).to_bytes(8, "little"))
    bare.gpu.reset()
    check(bare.gpu.config.read(4, 2) == b"\0\0", "COMMAND")
    check(bare.gpu.config.read(0x10, 8) == b"\x0c" + bytes(7), "BAR 0")
    check(bare.gpu.bars[0].nbytes == 64 * MIB, "its size")
    check(bare.gpu.board.loaded == set(), "firmware")


def test_reset_before_the_controller_lives_is_not_heard() -> None:
    bare = Bare("gfx1100")
    bare.write("GC", "SCRATCH_REG7", 5)
    check(ask_for_mode1(bare) == 0, "somebody answered")
    bare.gpu.clock.skip(1)
    check(bare.read("GC", "SCRATCH_REG7") == 5, "it was reset")


def test_fresh_memory_is_poison_for_the_gpu_where_nobody_wrote() -> None:
    bare = Bare("gfx1100")
    vram = bare.gpu.board.vram
    bare.put(0x5000, b"x" * 16)
    vram.prepare(0x4000, 0x4000)
    words = vram.words
    expected = poison(0x4000 // 4, 1024)
    check(np.array_equal(words[0x4000 // 4 : 0x5000 // 4], expected), "the page before")
    check(np.array_equal(words[0x6000 // 4 : 0x7000 // 4], poison(0x6000 // 4, 1024)), "the next")
    check(bare.get(0x5000, 17) == b"x" * 16 + b"\0", "what was written is poisoned")
    resident = vram.dirty_pages(0, vram.nbytes)
    check(resident < 32, f"{resident} pages are used")
    vram.lose()
    check(vram.dirty_pages(0, vram.nbytes) == 0, "it is still there")
    vram.prepare(0x5000, 0x1000)
    check(np.array_equal(words[0x5000 // 4 : 0x6000 // 4], poison(0x5000 // 4, 1024)), "again")


def test_poison_from_power_on_where_it_is_asked_for() -> None:
    bare = Bare("gfx1100", poison_bytes=4 * MIB)
    words = bare.gpu.board.vram.words
    check(np.array_equal(words[:MIB], poison(0, MIB)), "the host sees something else")
    check(not words[MIB : MIB + 1024].any(), "it goes on behind")
    check(bare.gpu.board.vram.may_be_undefined(0, MIB), "it is not accounted for")


def test_a_reset_takes_its_time_where_it_is_told_to() -> None:
    bare = started("gfx1100", reset_s=0.4)
    check(ask_for_mode1(bare) == 1, "no answer")
    bare.gpu.clock.skip(0.1)
    check(bare.read("MP0", bare.psp(35)) == 0xFFFF_FFFF, "it is back at once")
    check(bare.gpu.read(0, 0, 4) == 0xFFFF_FFFF, "VRAM too")
    bare.gpu.clock.skip(0.5)
    check(bare.read("MP0", bare.psp(35)) == 0x8000_0000, "it never comes back")
    check(bare.found() == [], f"{bare.gpu.violations}")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942"])
def test_what_amdgpu_leaves_behind_is_alive(name: str) -> None:
    bare = Bare(name)
    bare.put(40 * MIB, SECRET)
    left_over.leave_as_amdgpu(bare.gpu)
    check(bare.read("MP0", bare.psp(81)) != 0, "no SOS")
    check(bare.read("MP0", bare.psp(71)) != 0, "no ring")
    check(bare.smu(1, 1) == (1, 2), "no SMU")
    check(bare.get(40 * MIB, 8) == bytes(8), "it did not reset first")
    check(ask_for_mode1(bare) == 1, "no reset")
    bare.gpu.clock.skip(0.5)
    check(bare.read("MP0", bare.psp(81)) == 0, "SOS lives on")
    check(bare.found() == [], f"{bare.gpu.violations}")
