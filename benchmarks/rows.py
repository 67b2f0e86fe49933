"""Every row, in the order of the table, and how one is run without taking the others down."""

from __future__ import annotations

from benchmarks.context import Builder, Context
from benchmarks.device_rows import DEVICE_ROWS
from benchmarks.measure import Result, Skipped, measure
from benchmarks.peer import PEER_ROWS
from benchmarks.process import first_result, import_time
from benchmarks.tensor_rows import TENSOR_ROWS, eager_tiny
from drivers.base.errors import OutOfMemory, Unsupported

ROWS: dict[str, Builder] = {
    **TENSOR_ROWS,
    **DEVICE_ROWS,
    **PEER_ROWS,
    "eager_tiny": eager_tiny,
    "import": lambda context: import_time(),
    "first_result_cold": lambda context: first_result(warm=False),
    "first_result_warm": lambda context: first_result(warm=True),
}
"""Row names are stable: other people's plots depend on them."""


def run_row(name: str, context: Context, budget_s: float) -> Result | None:
    """Prepare, check and time one row; an error becomes the row's result, and what the device
    refuses is skipped by its reason.

    None where the device does not have what the row measures.
    """
    try:
        case = ROWS[name](context)
        return measure(name, case, budget_s) if case is not None else None
    except Skipped as why:
        return Result(name, skipped=str(why))
    except (Unsupported, OutOfMemory) as why:
        return Result(name, skipped=f"refused: {why.message}")
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        return Result(name, error=f"{type(error).__name__}: {text[0]}")
