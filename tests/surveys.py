"""Surveys that do in a child what libraries of vendors do, for tests of `drivers.world.child`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import Denied


def survey(world: World, request: Request) -> Iterator[Step]:
    """Of each name in `names` that is not in `skip`: begun, done, and what came of it."""
    for name in request["names"]:
        if name in request["skip"]:
            continue
        yield Begun(name)
        _deed(name)
        yield Fact({"name": name, "lost": " ".join(request["lost"])})


def _deed(name: str) -> None:
    if name == "abort":
        os.abort()
    elif name == "exit":
        os._exit(3)
    elif name == "crash":
        signal.raise_signal(signal.SIGSEGV)
    elif name == "hang":
        threading.Event().wait()
    elif name == "print":
        os.write(1, b'{"fact": {"name": "printed"}}\n')
        os.write(2, b"Warning: noise\n")
    elif name == "flood":
        for _ in range(1000):
            os.write(2, b"x" * 10_000)
    elif name == "mute":
        os.closerange(0, 100)
        threading.Event().wait()
    elif name == "heir":  # a process that outlives its parent, with its output open
        if child := os.fork():
            os.write(2, f"heir {child}\n".encode())
            os._exit(4)
        threading.Event().wait()
    elif name == "ours":
        raise Denied("nothing is given", hint="ask again")


def wrong(world: World, request: Request) -> Iterator[Step]:
    """Raises what is no error of devices."""
    yield Begun("first")
    raise KeyError("a mistake")


def long(world: World, request: Request) -> Iterator[Step]:
    """Gives more than anybody wants."""
    yield Begun("long")
    for _ in range(100):
        yield Fact({"text": "x" * 100_000})
