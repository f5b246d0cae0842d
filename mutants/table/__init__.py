"""The table of all mutants: one file a subject, each with its `MUTANTS`.

To add some, append them to the file of their subject, or add a file: it is found by itself.

    Mutant(
        name="silence approves whatever the rule says",
        file="domain/standing.py",
        old='return verdict.silence == "approve"',
        new="return True",
        test="domain/test_verbs.py::test_silence_means_what_the_ruling_says",
    ),

Whoever adds a guard adds its mutant: take the guard out, and name the test that then fails. If none
does, that is the test to write first. `python -m mutants NAME` tries those whose name has NAME in
it.
"""

from __future__ import annotations

import importlib
import pkgutil

from mutants.mutant import Mutant


def load() -> tuple[Mutant, ...]:
    """Gather the mutants of all subjects."""
    subjects = sorted(found.name for found in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{subject}") for subject in subjects]
    return tuple(mutant for module in modules for mutant in module.MUTANTS)
