"""The page that hosts, GPUs and IOMMUs here share."""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4096
