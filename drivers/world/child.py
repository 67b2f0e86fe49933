"""Ask a vendor's library in a process of its own: it may abort, exit or hang there.

For command lines alone (`python -m drivers.probe`): this is the only module of the drivers that
starts a process, and what it starts is this interpreter with `drivers.world.asked`. An open device
has its library in the program's own process.

The child is started without a copy of this process: `subprocess` uses vfork and exec, runs no hook
of fork, and so is safe beside threads. It leads a session of its own, which is killed whole.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from drivers.base.answers import NUMBERS, PATIENCE_S, Answers, Begun, Lost, Request
from drivers.base.errors import DeviceError, MalformedInput, NotFound

MOST_LOST: Final = 8
"""Children after which a survey ends with what it has."""
MOST_ANSWER_BYTES: Final = 1 << 20
MOST_NOISE_CHARS: Final = 4096
LONGEST_S: Final = 3600.0
END_S: Final = 5.0
"""From the end of its output to the end of a process."""
_SHOWN_CHARS: Final = 120
_READ_BYTES: Final = 1 << 16
_PROGRAM: Final = (
    "import json, sys; request = json.loads(sys.argv[1]); sys.path[:] = request['path']; "
    "from drivers.world.asked import serve; serve(request)"
)


def ask(survey: str, request: Request, *, patience_s: float | None = None) -> Answers:
    """Run a survey, anew without what ended it; `patience_s` replaces every step's own.

    Raises: DeviceError as the survey does; NotFound where no interpreter can be started;
    MalformedInput for answers that are none.
    """
    answers = Answers()
    skip: list[str] = []
    for _ in range(MOST_LOST):
        given = {
            **request, "survey": survey, "skip": skip, "lost": [one.name for one in answers.lost],
            "path": [os.path.abspath(path) for path in sys.path],
        }  # fmt: skip
        how, begun = _one_child(given, answers, patience_s)
        if not how:
            return answers
        name = begun[-1] if begun else ""
        if name in skip:
            return answers
        answers.lost.append(Lost(name, how))
        if not name:
            return answers
        skip += begun
    return answers


def _one_child(
    given: Mapping[str, Any], answers: Answers, patience_s: float | None
) -> tuple[str, list[str]]:
    """("" or how it ended early, what it began) of one process."""
    command = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(given)]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise NotFound(
            f"{sys.executable or 'this interpreter'} cannot be started again: {error.strerror}",
            hint="run the command with a Python of its own",
        ) from error
    talk = _Conversation(answers, patience_s)
    try:
        how = talk.hear(process)
    finally:
        _end(process)
    return how, talk.begun


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session. A process that the kernel keeps is not waited for."""
    with suppress(ProcessLookupError, PermissionError):  # all are gone; macOS's word for that
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)


def _checked(fact: dict[str, Any]) -> dict[str, Any]:
    """A fact as surveys give it. Raises: ValueError, AttributeError."""
    for name, value in fact.items():
        counted = type(value) is int and 0 <= value < 1 << 64
        if not (counted if name.endswith(NUMBERS) else isinstance(value, str)):
            raise ValueError(f"{name} is {value!r:.40}")
    return fact


@dataclass
class _Conversation:
    """What one child says."""

    answers: Answers
    patience_s: float | None
    begun: list[str] = field(default_factory=list)
    deed: str = "started"
    done: bool = False
    _wait_s: float = PATIENCE_S
    _text: bytes = b""
    _nbytes: int = 0
    _said: str = ""
    """The end of its noise: a library's last words."""

    def hear(self, process: subprocess.Popen[bytes]) -> str:
        """ "" once it has said everything, else how it ended. Each answer gives it new time."""
        self._wait(PATIENCE_S)
        with selectors.DefaultSelector() as waiting:
            for pipe, take in ((process.stdout, self._answer), (process.stderr, self._noise)):
                if pipe is not None:
                    waiting.register(pipe, selectors.EVENT_READ, take)
            deadline_s = time.monotonic() + self._wait_s
            while time.monotonic() < deadline_s:
                for key, _ in waiting.select(max(deadline_s - time.monotonic(), 0)):
                    data = os.read(key.fd, _READ_BYTES)
                    if key.data(data):
                        deadline_s = time.monotonic() + self._wait_s
                    if self.done:
                        return ""
                    if not data and key.fileobj is process.stdout:
                        return self._ended(process)
                    if not data:
                        waiting.unregister(key.fileobj)
        return f"did not answer in {self._wait_s:g} s when it was {self.deed}"

    def _wait(self, patience_s: float) -> None:
        self._wait_s = patience_s if self.patience_s is None else self.patience_s

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        """How, of a process that closed its answers."""
        try:
            code = process.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"closed every descriptor of the process that {self.deed} it"
        try:
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        except ValueError:
            how = f"signal {-code}"
        *_, last = ["", *self._said.strip().split("\n")]
        printed = f": {last:.{_SHOWN_CHARS}}" if last else ""
        return f"ended the process that {self.deed} it ({how}{printed})"

    def _noise(self, data: bytes) -> bool:
        self._said = (self._said + data.decode(errors="replace"))[-MOST_NOISE_CHARS:]
        room = MOST_NOISE_CHARS - len(self.answers.noise)
        self.answers.noise += data.decode(errors="replace")[:room]
        return False

    def _answer(self, data: bytes) -> bool:
        """Whether a whole line was among it."""
        self._nbytes += len(data)
        if self._nbytes > MOST_ANSWER_BYTES:
            raise MalformedInput(f"a survey gives more than {MOST_ANSWER_BYTES} bytes")
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise MalformedInput(f"{line!r:.80} is not an answer of a survey") from error
        return bool(lines)

    def _take(self, said: dict[str, Any]) -> None:
        """One step."""
        if "failed" in said:
            raise DeviceError(str(said["failed"]), hint=str(said["hint"]))
        if "begun" in said:
            step = Begun(**said["begun"])
            if not 0 < step.patience_s <= LONGEST_S:
                raise ValueError(f"a patience of {step.patience_s} s")
            self.begun.append(str(step.name))
            self.deed = str(step.deed)
            self._wait(step.patience_s)
        elif "fact" in said:
            self.answers.facts.append(_checked(said["fact"]))
        else:
            self.done = bool(said["done"])
