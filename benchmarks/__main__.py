"""`python -m benchmarks`: what `bench.py` is in a checkout."""

from __future__ import annotations

from benchmarks.command import main
from unbound import terminal

if __name__ == "__main__":
    terminal.run(main)
