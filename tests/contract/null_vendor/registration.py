"""The record that registers the made-up vendor; it imports nothing of it."""

from __future__ import annotations

from typing import Final

from drivers.kinds import Kind, Way

_HERE: Final = "tests.contract.null_vendor.opening"
KIND: Final = Kind(
    "NULL",
    "made-up GPU",
    "nothing",
    (Way("", f"{_HERE}:check_machine", "a GPU that every machine can make up"),),
    opens=f"{_HERE}:open_kind",
    written=("",),
)
"""As it would stand in `drivers.kinds.BEST_FIRST`."""
