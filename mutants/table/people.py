"""People: quorum, votes, distinct persons, roles, four eyes.

To be filled by whoever adds the guards.
"""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
