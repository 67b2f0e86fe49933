"""Why a device node may not be opened, and what to do about it."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.system import current_user, group_names

_ROOT: Final = "root"


def denied(world: World, path: str) -> tuple[str, str]:
    """Why this user may not open a node, and what to do: its group, by number and name."""
    reason = f"{path} may not be opened by this user"
    try:
        user, names = current_user(world), group_names(world)
        number = str(world.owning_group(path))
    except DeviceError:
        return reason, "add this user to the groups render and video, then log in again"
    name = names.get(number, "")
    group = f"its group is {number}" + (f" ({name})" if name else ", which has no name here")
    if name in user.groups or number in user.groups:
        return reason, f"{group}, and the user is in it: see the node's mode with `ls -l {path}`"
    if not name or name == _ROOT:
        return reason, (
            f"{group}: in a container, `--group-add {number}`, the node's number outside; "
            "else install the rules that give it to the group render, then `udevadm trigger`"
        )
    return reason, f"{group}, and the user is not in it: `usermod -aG {name} USER`, log in again"
