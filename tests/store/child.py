"""Children of a test: forked, so that they start in a millisecond."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from sayso.store import migrate

_NOBODY = 65534


def up_to(version: int) -> tuple[str, ...]:
    """Give the first migrations, as if the last of them made the tables that every file is opened
    by; whoever goes on from there drops those first.
    """
    steps = migrate.released()
    (origin,) = [step for step in steps if "create table origin" in step]
    (leaving,) = [step for step in steps if "create table mark" in step]
    mark = leaving[: leaving.index(") strict;") + len(") strict;")]
    return (*steps[: version - 1], steps[version - 1] + origin + mark)


def forked(what: Callable[[], Coroutine[Any, Any, None]], *, as_nobody: bool = False) -> int:
    """Run a coroutine in a child; give its wait status: 0 if it went well.

    As nobody, file modes count, which they do not for root.
    """
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 70
    try:
        if as_nobody and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
        asyncio.run(what())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
