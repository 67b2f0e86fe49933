"""Copies of the copy queue: whole words, and no submission of many megabytes."""

from __future__ import annotations

import numpy as np
import pytest

from queues.qcom import words as qcom_words
from tests.boards.test_qcom_pieces import submissions_of
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

MIB = 1 << 20


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
@pytest.mark.parametrize("nbytes", [4, 4 * MIB, 4 * MIB + 4, 9 * MIB])
def test_a_submission_copies_4_mib(iface: str, nbytes: int) -> None:
    machine = QcomMachine({"KGSL": "a630", "MSM": "a660"}[iface], iface)
    with opened(machine, iface) as device:
        data = np.arange(nbytes // 4, dtype=np.uint32)
        src, dst = device.alloc(nbytes), device.alloc(nbytes)
        device.copy_in(src, memoryview(data))
        signal, found = device.new_signal(), submissions_of(device.copies)
        device.copy_queue().copy(dst, src, nbytes).signal(signal, 1).submit()
        signal.wait(1)
        out = np.zeros_like(data)
        device.copy_out(memoryview(out), dst)
        np.testing.assert_array_equal(out, data)
        check(len(found) == -(-nbytes // (4 * MIB)), str(found))
    check(not (wrong := machine.found()), str(wrong))


def test_small_copies_share_a_submission() -> None:
    """As far as they are 4 MiB together."""
    parts = [*qcom_words.copies(1 << 32, 2 << 32, 4096), *qcom_words.copies(3 << 32, 4 << 32, 64)]
    check([qcom_words.words_copied(part) for part in parts] == [1024, 16])
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "MSM") as device:
        src, dst = device.alloc(4096), device.alloc(4096)
        signal, found, queue = (
            device.new_signal(),
            submissions_of(device.copies),
            device.copy_queue(),
        )
        for _ in range(20):
            queue = queue.copy(dst, src, 4096)
        queue.signal(signal, 1).submit()
        signal.wait(1)
        check(len(found) == 1, str(found))
