"""A board's timeline as Chrome trace events, which Perfetto (https://ui.perfetto.dev) opens.

Every GPU is a process of the trace. A queue is one of its threads: doorbells, packets, a dispatch
inside its packet; a second one has the waves that ran side by side. Mapped memory is drawn as spans
and as a counter, below the kernel driver. Times are the board's clock, which says nothing about
silicon.

src: "Trace Event Format", the catapult project's document of the JSON format
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TextIO, TypeAlias

from boards.machine.chassis import Facts, NameOf
from boards.vendors import Board, vendor_of

Event: TypeAlias = dict[str, object]
KERNEL_PID, FIRST_GPU_PID = 1, 2
_TICKS_PER_US = 100
_MEMORY_TID, _WAVES_TID = 1, 1000
_ENDS_PACKET = frozenset({"packet", "doorbell", "idle", "wait", "hang", "queue fault"})
_INSTANTS = frozenset({"doorbell", "violation", "interrupt", "wait", "hang", "queue fault"})
_NO_ARGS = frozenset({"queue", "gpu", "begin", "end"})
_ADDRESSES = frozenset({"va", "pc", "entry"})


def _shown(facts: Facts) -> dict[str, int | str]:
    """Facts as a viewer shows them: addresses in hex (JSON numbers have 53 bits)."""
    return {
        key: hex(int(value)) if key in _ADDRESSES else value
        for key, value in facts.items()
        if key not in _NO_ARGS
    }


class Recorder:
    """Listens to a board and keeps what it heard; `document` is the trace so far."""

    def __init__(self, board: Board, name_of: NameOf) -> None:
        self._clock, self._name_of = board.hardware.clock, name_of
        self._chips = [gpu.chip.name for gpu in board.gpus]
        self._kernel = vendor_of(self._chips[0]).kernel
        self._start = self._clock.ticks()
        self._events: list[Event] = []
        self._pids: dict[int, int] = {}
        """The process of the trace that a queue belongs to."""
        self._tracks: dict[tuple[int, int], str] = {}
        self._packet: Event | None = None
        self._mapped: dict[str, int] = {}

    def __call__(self, name: str, facts: Facts) -> None:
        """One event of the board."""
        now = self._clock.ticks()
        if name in _ENDS_PACKET:
            self._end_packet(now)
        if name == "create queue":
            self._create(now, facts)
        elif name == "destroy queue":
            self._span("e", f"queue {facts['queue']}", int(facts["queue"]), now, "queue", {})
        elif name in ("map", "unmap"):
            self._memory(now, name, facts)
        elif name == "packet":
            self._packet = self._event("X", str(facts["op"]), now, facts, cat="packet")
        elif name in ("dispatch", "fault"):
            self._dispatch(name, facts)
        elif name == "waves":
            self._waves(facts)
        elif name in _INSTANTS:
            self._event("i", name, now, facts, cat="queue", s="t")

    def _us(self, ticks: int) -> float:
        return (ticks - self._start) / _TICKS_PER_US

    def _event(self, ph: str, name: str, ticks: int, facts: Facts, **more: object) -> Event:
        """An event on a queue's track."""
        queue = int(facts["queue"])
        made: Event = {
            "name": name, "ph": ph, "ts": self._us(ticks), "pid": self._pids[queue], "tid": queue,
            "args": _shown(facts), **more,
        }  # fmt: skip
        self._events.append(made)
        return made

    def _end_packet(self, now: int) -> None:
        packet, self._packet = self._packet, None
        if packet is not None:
            packet["dur"] = self._us(now) - float(str(packet["ts"]))

    def _create(self, now: int, facts: Facts) -> None:
        queue, gpu = int(facts["queue"]), int(facts["gpu"])
        self._pids[queue] = FIRST_GPU_PID + gpu
        self._tracks[FIRST_GPU_PID + gpu, queue] = f"queue {queue} ({facts['kind']})"
        self._span("b", f"queue {queue}", queue, now, "queue", _shown(facts))

    def _span(
        self, ph: str, name: str, number: int, now: int, cat: str, args: dict[str, int | str]
    ) -> None:
        """One end of something that lives longer than its neighbours on the kernel's track."""
        self._events.append({
            "name": name, "ph": ph, "cat": cat, "id": hex(number), "ts": self._us(now),
            "pid": KERNEL_PID, "tid": _MEMORY_TID, "args": args,
        })  # fmt: skip

    def _memory(self, now: int, name: str, facts: Facts) -> None:
        gpu, kind, nbytes = facts["gpu"], str(facts["kind"]), int(facts["nbytes"])
        what = f"{kind} {nbytes} bytes on GPU {gpu}"
        number = int(facts["va"]) << 8 | int(gpu)
        ph, sign = ("b", 1) if name == "map" else ("e", -1)
        self._span(ph, what, number, now, "memory", _shown(facts))
        self._mapped[kind] = self._mapped.get(kind, 0) + sign * nbytes
        self._events.append({
            "name": "mapped bytes", "ph": "C", "ts": self._us(now), "pid": KERNEL_PID,
            "tid": _MEMORY_TID, "args": dict(self._mapped),
        })  # fmt: skip

    def _dispatch(self, name: str, facts: Facts) -> None:
        """A launch from its first wave to its last, inside its packet."""
        begin, end = int(facts["begin"]), int(facts["end"])
        kernel = " or ".join(self._name_of(int(facts["entry"]))) or hex(int(facts["entry"]))
        shown = kernel if name == "dispatch" else f"{kernel}: {facts['kind']}"
        span = self._us(end) - self._us(begin)
        self._event("X", shown, begin, facts, cat=name, dur=span)

    def _waves(self, facts: Facts) -> None:
        """Waves that ran side by side: on a track of their own, and as a counter."""
        begin, end = int(facts["begin"]), int(facts["end"])
        queue, first, count = int(facts["queue"]), int(facts["first"]), int(facts["waves"])
        pid, tid = self._pids[queue], _WAVES_TID + queue
        self._tracks[pid, tid] = f"waves of queue {queue}"
        self._events.append({
            "name": f"waves {first} to {first + count - 1}", "ph": "X", "ts": self._us(begin),
            "dur": self._us(end) - self._us(begin), "pid": pid, "tid": tid, "cat": "waves",
            "args": _shown(facts),
        })  # fmt: skip
        for at, running in ((begin, count), (end, 0)):
            self._events.append({
                "name": "waves", "ph": "C", "ts": self._us(at), "pid": pid, "tid": tid,
                "args": {f"queue {queue}": running},
            })  # fmt: skip

    def document(self) -> dict[str, object]:
        """The whole trace as one JSON object."""
        self._end_packet(self._clock.ticks())
        driver = f"kernel driver ({self._kernel})"
        names: list[Event] = [_named("process_name", KERNEL_PID, 0, driver)]
        names.append(_named("thread_name", KERNEL_PID, _MEMORY_TID, "memory and queues"))
        for number, chip in enumerate(self._chips):
            shown = f"GPU {number}: {chip}, software board"
            names.append(_named("process_name", FIRST_GPU_PID + number, 0, shown))
        for (pid, tid), name in self._tracks.items():
            names.append(_named("thread_name", pid, tid, name))
        return {
            "traceEvents": [*names, *self._events],
            "displayTimeUnit": "ns",
            "otherData": {"board": ", ".join(self._chips), "silicon": "never compared with it"},
        }

    def write(self, file: TextIO) -> int:
        """Write the trace; how many events it has."""
        document = self.document()
        events = document["traceEvents"]
        file.write(json.dumps(document) + "\n")
        return sum(1 for _ in events) if isinstance(events, Iterable) else 0


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    """What a viewer calls a process or a thread."""
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}
