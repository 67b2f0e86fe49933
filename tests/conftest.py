"""Tests keep their compiled kernels beside pytest's own cache, not in the user's."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["UNBOUND_CACHE"] = str(Path(__file__).parent.parent / ".pytest_cache" / "unbound")
