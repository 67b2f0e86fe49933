"""Messages to the power management processor: every answer has a name, silence too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from drivers.amd.pci import discovery, smu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.mmio import MEMSIZE, Mmio
from drivers.bare.bus import RegisterBus
from drivers.base.errors import DeviceError, DeviceGone, DeviceTimeout, Unsupported
from tests import discovery_maker as maker
from tests.fake_registers import FakeClock, FakeRegisters, FakeVram
from tests.support import check

MESSAGE, ARGUMENT, ANSWER = 0x16282, 0x16292, 0x1629A
"""As a driver known to run finds them: the notes' traces of both generations."""
DEBUG_MESSAGE, DEBUG_ARGUMENT, DEBUG_ANSWER = 0x1628B, 0x16275, 0x16276


class Gpu(SimpleNamespace):
    """As much of a GPU as messages need."""

    def __init__(self, version: tuple[int, int, int]) -> None:
        self.registers = FakeRegisters({0xDE3: 1024})
        versions = {**maker.GFX1100, 1: version}
        made = maker.Binary(maker.ips_of(versions), gc_words=maker.gc_v1(6, 4, 4, 2))
        self.ips = discovery.parse(maker.build(made))
        self.mmio = Mmio(RegisterBus(self.registers, FakeClock(), MEMSIZE), self.ips)
        self.mmio.step = "power management"
        self.vram, self.mc_base = FakeVram(1 << 30), 0x80_0000_0000
        self.chip = SimpleNamespace(name="gfx1100")
        self.sent: list[tuple[int, int]] = []
        self.answers: dict[int, tuple[int, int]] = {}
        self.registers.writes[MESSAGE] = self._hear

    def _hear(self, number: int) -> None:
        words = self.registers.words
        check(words[ANSWER] == 0, "the answer of the message before is still there")
        self.sent.append((number, words[ARGUMENT]))
        words[ANSWER], words[ARGUMENT] = self.answers.get(number, (1, words[ARGUMENT]))

    def block(self, hw: HwId, instance: int = 0):
        return self.mmio.block(hw, instance)

    def mc_address(self, place) -> int:
        return self.mc_base + place.offset


@pytest.mark.parametrize("version", [(13, 0, 0), (14, 0, 3), (13, 0, 7), (13, 0, 10)])
def test_bringing_it_up(version: tuple[int, int, int]) -> None:
    gpu = Gpu(version)
    gpu.answers[2] = (1, 0x4E8100)
    check(smu.up(gpu) == 0x4E8100, "version")
    # src: smu_v13_0_0_ppsmc.h, smu_v14_0_2_ppsmc.h
    check(gpu.sent == [(2, 0), (0xE, 0x80), (0xF, 0x8000), (6, 0)], f"{gpu.sent}")


@pytest.mark.parametrize(("answer", "word"), [
    (0xFF, "failed"), (0xFE, "unknown message"), (0xFD, "not allowed now"), (0xFC, "busy"),
    (0xFB, "debugging"), (0x77, "answer 0x77"),
])  # fmt: skip
def test_every_answer_has_a_name(answer: int, word: str) -> None:
    gpu = Gpu((13, 0, 0))
    gpu.answers[0x33] = (answer, 0)
    message = rf"power management: SMU message GetPptLimit\(0x0\): {word}"
    with pytest.raises(DeviceError, match=message):
        smu.power_limit_w(gpu)


def test_silence() -> None:
    gpu = Gpu((13, 0, 0))
    gpu.answers[2] = (0, 0)
    with pytest.raises(DeviceTimeout, match="GetSmuVersion") as error:
        smu.up(gpu)
    check(error.value.register == "MP1.C2PMSG_90" in error.value.message, error.value.message)
    check(not smu.is_alive(gpu), "it does not answer")
    gpu.answers[2] = (0xFC, 0)
    check(smu.is_alive(gpu), "being busy is an answer")
    gpu.answers[2] = (1, 0)
    with pytest.raises(DeviceError, match="GetSmuVersion with 0x0"):
        smu.up(gpu)


def test_clocks_are_pinned_to_a_level() -> None:
    gpu = Gpu((13, 0, 0))
    gpu.answers[0x1F] = (1, 3)  # three levels, and the frequency of each is 3
    check(smu.set_clocks(gpu, -1) == [], "nothing was refused")
    check(gpu.sent[:2] == [(0x1F, 0xFF), (0x1F, 2)], f"{gpu.sent}")
    check(gpu.sent[8:10] == [(0x19, 3), (0x1A, 3)], f"limits after all questions: {gpu.sent}")
    gpu.answers[0x19] = (0xFD, 0)
    refused = smu.set_clocks(gpu, 0)
    check(len(refused) == 4 and "MEMORY at least 3 MHz" in refused[2], f"{refused}")


def test_resets_by_generation() -> None:
    gpu = Gpu((14, 0, 3))
    gpu.registers.writes[DEBUG_MESSAGE] = lambda number: gpu.registers.words.update(
        {DEBUG_ANSWER: 1}
    )
    smu.mode1_reset(gpu)
    last = gpu.registers.written[-3:]
    check(last == [(DEBUG_ANSWER, 0), (DEBUG_ARGUMENT, 0), (DEBUG_MESSAGE, 2)], f"{last}")
    old = Gpu((13, 0, 6))
    smu.mode1_reset(old)
    check(old.sent == [(3, 1)], "GfxDriverReset, mode 1")


def test_a_reset_that_takes_its_answer_with_it() -> None:
    """All ones in the mailbox: the order arrived, and registers answer no more."""
    for version in ((13, 0, 0), (13, 0, 6), (14, 0, 2)):
        gpu = Gpu(version)
        gpu.registers.writes[DEBUG_MESSAGE] = lambda _, words=gpu.registers.words: words.update(
            {DEBUG_ANSWER: 0xFFFFFFFF}
        )
        gpu.answers[3] = (0xFFFFFFFF, 0)
        before_s = gpu.mmio.bus.clock.monotonic_s()
        smu.mode1_reset(gpu)
        quiet_s = gpu.mmio.bus.clock.monotonic_s() - before_s
        # src: smu_v13_0.h SMU13_MODE1_RESET_WAIT_TIME_IN_MS; smu_v14_0_2_mode1_reset()
        least_s = 1.0 if version[0] == 14 else 0.5
        check(least_s <= quiet_s < 2.0, f"{version}: {quiet_s} s")
        gpu.registers.words[0xDE3] = 0xFFFFFFFF
        with pytest.raises(DeviceGone, match="did not come back"):
            smu.wait_returned(gpu)
        gpu.registers.words[0xDE3] = 512
        smu.wait_returned(gpu)


def test_an_order_to_reset_that_nobody_takes() -> None:
    for version, register in (((13, 0, 7), "MP1.C2PMSG_54"), ((13, 0, 6), "MP1.C2PMSG_90")):
        gpu = Gpu(version)
        gpu.answers[3] = (0xFD, 0)
        gpu.registers.words[gpu.block(HwId.MP0).dword("C2PMSG_81")] = 1  # sOS lives on
        with pytest.raises(DeviceTimeout, match="Power the machine off") as caught:
            smu.mode1_reset(gpu)
        check(caught.value.register == register, f"{caught.value.register}")


def test_what_a_generation_does_not_have() -> None:
    with pytest.raises(Unsupported, match="TransferTableSmu2Dram"):
        smu.send(Gpu((13, 0, 6)), "TransferTableSmu2Dram", 0)
    with pytest.raises(Unsupported, match=r"SMU 13\.0\.9"):
        smu.dialect(Gpu((13, 0, 9)))
