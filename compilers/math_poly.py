"""Vectorisable float32 functions."""

from __future__ import annotations

from collections.abc import Callable

from compilers.ir import Expr

FAST: dict[str, Callable[[Expr], Expr]] = {}
