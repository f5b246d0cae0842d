"""Seals: signed roots, their chain, what they find.

To be filled by whoever adds the guards.
"""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
