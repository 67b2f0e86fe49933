"""The console scripts of an installation: `unbound-probe` is `python -m drivers.probe`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from unbound import terminal

COMMANDS: Final = {
    "bench": "benchmarks.command:main",
    "boards": "boards.__main__:main",
    "decode": "queues.decode:run",
    "disasm": "compilers.disasm:main",
    "doctor": "drivers.doctor.__main__:command",
    "firmware": "drivers.firmware.__main__:command",
    "probe": "drivers.probe.__main__:command",
    "record": "drivers.record:main",
    "regs": "drivers.amd.regs:command",
    "replay": "drivers.replay:main",
    "report": "compilers.report.__main__:main",
    "settings": "drivers.settings:main",
}
"""Name behind "unbound-" -> "module:function" from arguments to an exit status."""
SMI: Final = "smi"
"""The one command of several modules, one for each vendor."""
_PREFIX: Final = "unbound-"


def main() -> NoReturn:
    """The command that this process was started as, such as unbound-probe."""
    terminal.end_interrupts_in_one_line()
    wanted = Path(sys.argv[0]).stem.removeprefix(_PREFIX)
    if wanted == SMI:
        terminal.run(smi)
    module, _, function = COMMANDS[wanted].partition(":")
    terminal.run(getattr(import_module(module), function))


def smi(arguments: list[str]) -> int:
    """The vendor's own: of `--board CHIP`, of `--vendor NAME`, else of the GPUs that are there."""
    from drivers.kinds import BEST_FIRST

    places = {kind.name: f"drivers.{kind.name.lower()}.{SMI}" for kind in BEST_FIRST}
    modules = {name: place for name, place in places.items() if _exists(place)}
    parser = argparse.ArgumentParser(prog=terminal.name(), add_help=False)
    parser.add_argument("--vendor", choices=modules, type=str.upper)
    asked, arguments = parser.parse_known_args(arguments)
    chosen = [asked.vendor] if asked.vendor else _of_board(arguments, modules)
    chosen = chosen or _present(modules) or list(modules)
    if "--json" in arguments:
        chosen = chosen[:1]  # one document
    statuses: list[int] = [import_module(modules[name]).command(arguments) for name in chosen]
    return max(statuses)


def _exists(place: str) -> bool:
    package = place.rpartition(".")[0]
    return find_spec(package) is not None and find_spec(place) is not None


def _of_board(arguments: list[str], modules: dict[str, str]) -> list[str]:
    """The vendor of a board that is asked for; its command refuses a chip that there is not."""
    from boards.vendors import VENDORS

    chips = {chip: vendor.device for vendor in VENDORS for chip in vendor.names}
    words = [word.removeprefix("--board=") for word in arguments]
    return [chips[word] for word in words if chips.get(word) in modules][:1]


def _present(modules: dict[str, str]) -> list[str]:
    """Vendors with a GPU that their kernel driver has a node for."""
    from drivers.kinds import BY_NAME

    found = []
    for name in modules:
        kernel = BY_NAME[name].kernel
        if kernel is not None and any(map(_is_there, kernel.nodes)):
            found.append(name)
    return found


def _is_there(node: str) -> bool:
    return Path(node).exists()
