"""Work done as another user of the machine, and a place that both users reach."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import check

OTHER = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="a second user id: only root can become one"
)


def as_user(user: int, work: Callable[[], object]) -> None:
    """Run `work` in a process of `user`, of the group with the same number and no other."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    check(os.waitpid(pid, 0)[1] == 0, f"user {user} could not do it")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that all users may enter and only this user may write to."""
    path = Path(tempfile.mkdtemp(prefix="unbound-public-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
