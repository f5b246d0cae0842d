"""Guards of what people are told: notices, cards in chats, links and reminders."""

from __future__ import annotations

from mutants.mutant import Mutant

_SETTLED = "engine/test_settled.py::"

MUTANTS = (
    Mutant(
        name="what another run settles is told of",
        file="engine/parcel.py",
        old=" if hold.n not in left and not hold.child]",
        new=" if hold.n not in left]",
        test=_SETTLED + "test_what_another_run_settles_is_nobodys_card[memory]",
    ),
    Mutant(
        name="notices of every kind are told to everybody",
        file="engine/courier.py",
        old="        if parcel.kind not in self._kinds:",
        new="        if False:",
        test=_SETTLED + "test_a_parcel_that_nobody_here_tells_goes_to_the_dead[memory]",
    ),
    Mutant(
        name="processes that tell nobody do not know that others do",
        file="wired.py",
        old="kinds_of(self._notify) | await read_word(store)",
        new="kinds_of(self._notify)",
        test=_SETTLED + "test_what_was_decided_where_nobody_tells_is_told_all_the_same[memory]",
    ),
    Mutant(
        name="word that somebody tells is believed for ever",
        file="engine/wanted.py",
        old="if said.get(kind, since) > since)",
        new="if kind in said)",
        test=_SETTLED + "test_word_that_somebody_tells_is_believed_for_a_while[memory]",
    ),
)
