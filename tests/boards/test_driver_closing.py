"""A device that closes: it refuses work from the first step on, and closes once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drivers.base.errors import UseAfterFree
from tests.boards.driver_harness import QUEUES, device_on
from tests.support import check


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_what_a_closing_device_takes(
    chip: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that runs in the middle of close, as finalisers and other threads do."""
    with device_on(chip, queue) as (_, device):  # which looks for leaks at its end
        kept, dropped = device.alloc(4096), device.alloc(4096)
        refused: list[str] = []
        steps: list[str] = []
        attempts: dict[str, Callable[[], object]] = {
            "alloc": lambda: device.alloc(64),
            "signal": device.new_signal,
            "synchronize": device.synchronize,
            "copy_in": lambda: device.copy_in(kept, memoryview(b"abcd")),
        }
        plain = device.scratch.close
        freed = device.heap.close

        def middle() -> None:
            plain()
            for name, attempt in attempts.items():
                with pytest.raises(UseAfterFree):
                    attempt()
                refused.append(name)
            dropped.free()
            device.close()
            steps.append("scratch")

        def memory() -> None:
            steps.append("memory")
            freed()

        monkeypatch.setattr(device.scratch, "close", middle)
        monkeypatch.setattr(device.heap, "close", memory)
        device.close()
        check(refused == [*attempts], str(refused))
        check(steps == ["scratch", "memory"], f"the inner close did nothing: {steps}")
        kept.free()
        device.close()
        check(steps == ["scratch", "memory"], "nor did the second one free anything twice")
