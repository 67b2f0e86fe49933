"""What a device does through this stack: the command is `benchmarks/command.py`."""

from __future__ import annotations

from benchmarks.command import main
from unbound import terminal

if __name__ == "__main__":
    terminal.run(main)
