"""The process of the other library that bench.py measures beside ours: it prints, or is silent."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks import peer
from benchmarks.measure import Skipped
from tests.support import check

STAND_IN = """
import os, sys, time
{first}
class Named(type):
    def __getitem__(self, name):
        return self
class Device(metaclass=Named):
    DEFAULT = "CL"
    synchronize = staticmethod(lambda: None)
class Tensor:
    @staticmethod
    def ones(_):
        return Tensor()
    contiguous = realize = lambda self: self
    __add__ = lambda self, other: self
TinyJit = lambda made: made
"""


def started(folder: Path, first: str) -> peer.Peer:
    """A peer whose library is a stand-in."""
    package = folder / "tinygrad"
    package.mkdir()
    (package / "__init__.py").write_text(STAND_IN.format(first=first))
    return peer.Peer(folder, partial(peer.opencl, "no library"))


def test_it_is_asked_for_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "2")
    one = started(tmp_path, "if 'DEBUG' in os.environ: print('opened device CL')")
    check(one.seconds("replay", 10, 3) > 0, "DEBUG is not passed on")
    check(one.seconds("replay", 10, 1) > 0)
    one.close()


def test_it_prints_something_else(tmp_path: Path) -> None:
    one = started(tmp_path, "print('opened device CL', flush=True)")
    for _ in range(2):
        with pytest.raises(Skipped, match=r"does not run on this device.*opened device CL"):
            one.seconds("replay", 10, 1)
    one.close()


def test_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "PATIENCE_S", 0.1)
    one = started(tmp_path, "time.sleep(600)")
    with pytest.raises(Skipped, match=r"nothing in 0\.1 s"):
        one.seconds("replay", 10, 1)
    one.close()


def test_it_ends(tmp_path: Path) -> None:
    one = started(tmp_path, "raise SystemExit('no OpenCL here')")
    with pytest.raises(Skipped, match="no OpenCL here"):
        one.seconds("replay", 10, 1)
    one.close()
