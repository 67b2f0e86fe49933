"""The child of a diagnostic: it runs one survey, and writes each step as a line of JSON.

Libraries print to standard output, too. So the answers go to a descriptor of their own, and
descriptor 1 becomes another standard error.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, NoReturn

from drivers.base.answers import PATIENCE_S, Begun, Step
from drivers.base.errors import DeviceError
from drivers.kinds import named
from drivers.world.linux import LinuxWorld

_SPARE_S: Final = 30
"""After its patience a parent kills this process; one that was killed itself does not."""


def serve(request: Mapping[str, Any]) -> NoReturn:
    """Run the survey and leave, without the libraries' own ends, which may hang as well."""
    answers = os.dup(1)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _alarm(PATIENCE_S)
    try:
        for step in named(request["survey"])(LinuxWorld(), request):
            if isinstance(step, Begun):
                _alarm(step.patience_s)
            _write(answers, _spelled(step))
        _write(answers, {"done": True})
    except DeviceError as error:
        _write(answers, {"failed": error.message, "hint": error.hint})
    os._exit(0)


def _alarm(patience_s: float) -> None:
    """The kernel ends this process some time later, whatever the library does meanwhile."""
    signal.alarm(int(patience_s) + _SPARE_S)


def _spelled(step: Step) -> Mapping[str, Any]:
    return {"begun": asdict(step)} if isinstance(step, Begun) else {"fact": dict(step.values)}


def _write(fd: int, line: Mapping[str, Any]) -> None:
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(line).encode() + b"\n")
