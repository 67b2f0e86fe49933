"""Runs the waves of a dispatch."""

from __future__ import annotations

from boards.qcom.wave.dispatch import Dispatch, Memory, Outcome


def execute(dispatch: Dispatch, memory: Memory, most: int) -> Outcome:
    """All workgroups, to their end."""
    raise NotImplementedError(dispatch, memory, most)
