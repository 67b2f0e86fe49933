"""Where this user's locks and records are."""

from __future__ import annotations

import os
from collections.abc import Mapping

from drivers.choice import state_base
from drivers.world.state import ROOT_FOLDER, LinuxState


def open_state(environ: Mapping[str, str]) -> LinuxState:
    """Root's directory is fixed; a user's is in XDG_RUNTIME_DIR, or in the user's state directory.

    Raises: NotFound, Denied.
    """
    return LinuxState.open(ROOT_FOLDER if os.geteuid() == 0 else state_base(environ))
