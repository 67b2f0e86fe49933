"""Reports of commands are 100 columns wide in tests: xdist gives its workers COLUMNS=80."""

from __future__ import annotations

import os

os.environ.update(COLUMNS="100")
