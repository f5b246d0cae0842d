"""Packages from npm, by lock file, in a cache outside of the tree.

They are installed once for every lock file, by whichever test process comes first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sayso-tests" / "npm"
INSTALL_S = 240


def install(folder: Path) -> Path:
    """Install the packages of a folder's lock file, unless they are there; say where."""
    lock = (folder / "package-lock.json").read_bytes()
    CACHE.mkdir(parents=True, exist_ok=True)
    place = CACHE / f"{folder.name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    with (CACHE / f"{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not place.exists():
            half = place.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(folder, half)
            subprocess.run(
                [BIN / "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=half,
                env=node_env(),
                check=True,
                timeout=INSTALL_S,
                stdout=subprocess.DEVNULL,
            )
            half.rename(place)
    return place


def node_env() -> dict[str, str]:
    """Give an environment in which npm finds the Node that came with it."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
