"""Copies of the copy queue: large ones by a kernel, and no submission of many megabytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compilers.qcom.copying import made
from drivers.qcom import copier
from queues.qcom import copy_code
from queues.qcom import words as qcom_words
from queues.qcom.kernel_code import INSTR_UNIT_BYTES
from queues.qcom.pm4 import Op
from tests.boards.test_qcom_pieces import submissions_of
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

KIB, MIB = 1 << 10, 1 << 20
CHIPS = [("a630", "KGSL"), ("a660", "MSM"), ("a740", "KGSL"), ("x1-85", "MSM")]


def copied(chip: str, iface: str, nbytes: int) -> int:
    """Copy random bytes by a queue, and compare them; how many submissions that took."""
    machine = QcomMachine(chip, iface)
    with opened(machine, iface) as device:
        data = np.random.default_rng(nbytes).integers(0, 1 << 32, nbytes // 4, np.uint32)
        src, dst = device.alloc(nbytes), device.alloc(nbytes + 64)
        device.copy_in(src, memoryview(data))
        device.copy_in(dst, memoryview(np.full(nbytes // 4 + 16, 7, np.uint32)))
        signal, found = device.new_signal(), submissions_of(device.copies)
        device.copy_queue().copy(dst, src, nbytes).signal(signal, 1).submit()
        signal.wait(1)
        out = np.zeros(nbytes // 4 + 16, np.uint32)
        device.copy_out(memoryview(out), dst)
        np.testing.assert_array_equal(out, [*data, *[7] * 16])
    check(not (wrong := machine.found()), str(wrong))
    return len(found)


@pytest.mark.parametrize(("chip", "iface"), CHIPS)
@pytest.mark.parametrize(
    ("nbytes", "most"), [(4, 1), (64 * KIB - 4, 1), (64 * KIB, 1), (64 * KIB + 4, 2), (MIB + 12, 2)]
)
def test_a_large_copy_is_a_kernels(
    chip: str, iface: str, nbytes: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of 16 bytes is copied by words, in a submission after the kernel's."""
    by_words: list[int] = []
    plain = qcom_words.copies

    def spied(dst: int, src: int, count: int) -> Any:
        by_words.append(count)
        return plain(dst, src, count)

    monkeypatch.setattr(copier.qcom_words, "copies", spied)
    check(copied(chip, iface, nbytes) == most)
    left = nbytes if nbytes < 64 * KIB else nbytes % 16
    check(by_words == [left] * bool(left), str(by_words))


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_a_submission_copies_so_many_bytes(iface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By words 4 MiB, by a kernel as many groups as it may have."""
    chip = {"KGSL": "a630", "MSM": "a660"}[iface]
    monkeypatch.setattr(copier, "MOST_GROUPS", 1 << 10)
    check(copied(chip, iface, 2 * MIB + 64 * KIB) == 3)
    monkeypatch.setattr(copier, "LEAST_BYTES", 1 << 40)
    check([copied(chip, iface, size * MIB + 4) for size in (1, 4, 8)] == [1, 2, 3])


def test_small_copies_share_a_submission() -> None:
    parts = [*qcom_words.copies(1 << 32, 2 << 32, 4096), *qcom_words.copies(3 << 32, 4 << 32, 64)]
    check([qcom_words.words_copied(part) for part in parts] == [1024, 16])
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "MSM") as device:
        src, dst = device.alloc(4096), device.alloc(4096)
        signal, queue = device.new_signal(), device.copy_queue()
        found = submissions_of(device.copies)
        for _ in range(20):
            queue = queue.copy(dst, src, 4096)
        queue.signal(signal, 1).submit()
        signal.wait(1)
        check(len(found) == 1, str(found))


@pytest.mark.parametrize(
    ("dst", "src"),
    [(1 << 32, (1 << 32) + 4096), ((1 << 32) + 4096, 1 << 32), (4 + (2 << 32), 1 << 32)],
)
def test_what_overlaps_or_lies_oddly_is_copied_by_words(dst: int, src: int) -> None:
    with opened(QcomMachine("a630")) as device:
        parts = [*device.copier.parts(dst, src, MIB)]
        check([part[0] >> 16 & 0x7F for part in parts] == [Op.MEMCPY], str(parts)[:200])


@pytest.mark.parametrize("generation", [6, 7])
def test_the_code_is_the_compilers(generation: int) -> None:
    """`python -m compilers.qcom.copying` makes the data again."""
    words, code = made(generation)
    image = copy_code.image(generation)
    check(np.frombuffer(image, np.uint64).tolist() == list(words))
    check(len(image) == code.instrlen * INSTR_UNIT_BYTES)
    check(replace(code, lane_slots=0) == copy_code.code(generation), str(code))
