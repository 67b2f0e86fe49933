"""The product starts no programs, changes no umask, opens no network connection, asks for no root.

Two nets: the syntax tree of every file here, and the linter's rules, which `make check` runs; both
are shown to catch what they are for.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("drivers", "queues", "compilers", "tensor", "boards", "firmware_manifests", "unbound")
_MODULES = (
    "subprocess multiprocessing pty socket socketserver ssl asyncio urllib http ftplib smtplib "
    "imaplib poplib telnetlib xmlrpc webbrowser requests httpx aiohttp ctypes pickle marshal"
)
MODULES = frozenset(_MODULES.split())
_OS_NAMES = (
    "system popen umask fork forkpty startfile setuid setgid seteuid setegid setreuid setresuid "
    "chroot chown fchown lchown mknod"
)
OS_NAMES = frozenset(_OS_NAMES.split())
OS_PREFIXES = ("exec", "spawn", "posix_spawn")
LOOK_UPS = frozenset({"symbol", "_call", "load_function", "dlsym"})
_C_NAMES = "system popen fork vfork execve execv posix_spawn umask socket connect setuid"
C_NAMES = frozenset(_C_NAMES.split())
"""C functions that may not be looked up by name either."""
SUDO = re.compile(r"\b(sudo|pkexec|doas)\b")
ALLOWED = {
    ("compilers/cpu/clang.py", "subprocess"): "the one compiler that is a program",
    ("compilers/nv/disasm.py", "subprocess"): "the one disassembler that is a program",
    ("drivers/world/child.py", "subprocess"): "a vendor's library may end the process it is in",
    ("boards/vfio_user/stream.py", "socket"): "the Unix socket of a virtual machine's device",
    ("boards/vfio_user/link.py", "socket"): "the Unix socket of a virtual machine's device",
    ("boards/vfio_user/command.py", "socket"): "the Unix socket of a virtual machine's device",
    ("boards/usbredir/link.py", "socket"): "the Unix socket of a virtual machine's device",
    ("boards/usbredir/command.py", "socket"): "the Unix socket of a virtual machine's device",
}


def found_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what) of everything that the product never does."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from ((line, name) for name in [alias.name.split(".")[0]] if name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            if module in MODULES and not node.level:
                yield line, module
            if module in ("os", "posix"):
                yield from ((line, f"os.{a.name}") for a in node.names if forbidden_os(a.name))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("os", "posix") and forbidden_os(node.attr):
                yield line, f"os.{node.attr}"
        elif isinstance(node, ast.Call):
            yield from ((line, name) for name in looked_up(node))
        elif isinstance(node, ast.Constant) and SUDO.search(str(node.value)):
            yield line, "sudo"


def forbidden_os(name: str) -> bool:
    return name in OS_NAMES or name.startswith(OS_PREFIXES)


def looked_up(call: ast.Call) -> list[str]:
    """Modules and C functions that a call names by a string."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if name in ("import_module", "__import__"):
        return [text for text in texts if text.split(".")[0] in MODULES]
    return [text for text in texts if name in LOOK_UPS and text in C_NAMES]


def test_no_file_of_the_product_does_it() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    check(len(files) > 200, f"only {len(files)} files were found")
    used, wrong = set(), []
    for path in files:
        name = str(path.relative_to(ROOT))
        for line, what in found_in(ast.parse(path.read_text())):
            used.add((name, what))
            if (name, what) not in ALLOWED:
                wrong.append(f"{name}:{line}: {what}")
    check(not wrong, "\n".join(wrong))
    unused = ALLOWED.keys() - used
    check(not unused, f"allowed, and not done any more: {sorted(unused)}")


BAD = {
    "import subprocess": "subprocess",
    "from subprocess import run": "subprocess",
    "import urllib.request": "urllib",
    "import http.client as h": "http",
    "from socket import socket": "socket",
    "import os\nos.system('ls')": "os.system",
    "import os\nos.umask(0)": "os.umask",
    "from os import umask": "os.umask",
    "import os\nos.execv('/bin/ls', [])": "os.execv",
    "import os\nos.posix_spawn('/bin/ls', [], {})": "os.posix_spawn",
    "import os\nos.popen('ls')": "os.popen",
    "import ctypes": "ctypes",
    "__import__('subprocess')": "subprocess",
    "import importlib\nimportlib.import_module('socket')": "socket",
    "world.symbol('system')": "system",
    "RUN = 'sudo modprobe vfio-pci'": "sudo",
}
NOT_THE_LINTER_S = {"__import__('subprocess')", "world.symbol('system')"} | {
    text for text in BAD if "importlib" in text or "sudo" in text
}


@pytest.mark.parametrize("text", BAD)
def test_the_tree_is_searched_for_it(text: str) -> None:
    check(BAD[text] in [what for _, what in found_in(ast.parse(text))], text)


def test_what_is_fine_is_left_alone() -> None:
    text = "import os\nfrom queues.http import x\nos.open('/dev/kfd', 2)\nA = {'socket': 1}\n"
    check(not list(found_in(ast.parse(text))))


def linted(text: str, name: str) -> str:
    """What `make check` says of a file of this name with this text."""
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed: pip install -e .[dev]")
    command = [ruff, "check", "--no-cache", "--output-format", "concise", "--stdin-filename", name]
    source = f'"""A file."""\n\n{text}\n'
    done = subprocess.run(
        [*command, "-"], input=source, text=True, capture_output=True, cwd=ROOT, check=False
    )
    check((done.returncode != 0) == bool(re.search(r"[A-Z]+\d+ ", done.stdout)), done.stderr)
    return done.stdout


@pytest.mark.parametrize("text", sorted(BAD.keys() - NOT_THE_LINTER_S))
def test_the_linter_refuses_it(text: str) -> None:
    for name in ("drivers/pci/new.py", "tensor/new.py", "queues/new.py"):
        output = linted(text, name)
        check("TID251" in output or "S404" in output, f"{name}: {text}: {output}")


def test_the_linter_lets_the_exceptions_through() -> None:
    check("TID251" not in linted("import subprocess", "compilers/cpu/clang.py"))
    check("TID251" not in linted("import subprocess", "drivers/world/child.py"))
    check("TID251" in linted("import subprocess", "drivers/world/asked.py"))
    check("TID251" not in linted("import socket", "boards/vfio_user/link.py"))
    check("TID251" in linted("import socket", "boards/amd/link.py"))
