"""Tries every mutant, two at a time, and prints what became of each; 1 if one was not caught."""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants.mutant import Mutant, Rotten
from mutants.table import load
from mutants.trial import Copy, Verdict, check_clean

LANES = 2
"""How many are tried at a time, each in a copy of its own."""


def main() -> int:
    """Try them; give the exit code."""
    options = _options()
    wanted = [one for one in load() if options.name.lower() in f"{one.name} {one.file}".lower()]
    if options.list:
        for one in wanted:
            print(f"{one.file}: {one.name}\n    {one.node}")
        return 0
    if not wanted:
        print(f"no mutant has {options.name!r} in its name or file", file=sys.stderr)
        return 2
    before = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        try:
            verdicts = _try_all(Path(name).resolve(), wanted)
        except Rotten as error:
            print(error, file=sys.stderr)
            return 2
    _print_table(verdicts)
    caught = sum(one.ok for one in verdicts)
    print(f"\n{caught} of {len(verdicts)} caught, in {time.monotonic() - before:.0f} seconds.")
    return 0 if caught == len(verdicts) else 1


def _try_all(folder: Path, wanted: list[Mutant]) -> list[Verdict]:
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for lane in range(LANES):
        (folder / str(lane)).mkdir()
        copies.put(Copy(folder / str(lane)))
    print(f"{len(wanted)} mutants. First their tests, with nothing sabotaged.", flush=True)
    unsound = _check_clean(copies, sorted({mutant.node for mutant in wanted}))

    def attempt(mutant: Mutant) -> Verdict:
        if mutant.node in unsound:
            why = f"it fails without any sabotage: {unsound[mutant.node]}"
            return Verdict(mutant=mutant, word="UNSOUND", why=why)
        copy = copies.get()
        try:
            verdict = copy.try_mutant(mutant)
        finally:
            copies.put(copy)
        print(f"{verdict.word:<9} {verdict.seconds:5.1f} s  {mutant.name}", flush=True)
        return verdict

    with ThreadPoolExecutor(LANES) as pool:
        return list(pool.map(attempt, wanted))


def _check_clean(copies: queue.SimpleQueue[Copy], nodes: list[str]) -> dict[str, str]:
    lanes = [copies.get() for _ in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        found = pool.map(check_clean, lanes, [nodes[lane::LANES] for lane in range(LANES)])
        unsound = {node: why for each in found for node, why in each.items()}
    for copy in lanes:
        copies.put(copy)
    return unsound


def _print_table(verdicts: list[Verdict]) -> None:
    wide = max(len(one.mutant.name) for one in verdicts)
    print(f"\n{'':<9} {'mutant':<{wide}}  caught by")
    for one in sorted(verdicts, key=lambda one: one.ok):
        test = one.mutant.test.rpartition("::")[2]
        print(f"{one.word:<9} {one.mutant.name:<{wide}}  {test}")
        if not one.ok:
            print(f"{'':<9} {one.mutant.file}: {one.why}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="only those with this in their name")
    parser.add_argument("--list", action="store_true", help="list them, and try nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
