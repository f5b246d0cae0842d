"""What `apply` remembers of what it has just done: by identity, and only for a while."""

from sayso.domain import events as e
from sayso.domain import lifecycle
from sayso.domain.lifecycle import RECENT_MAX, apply

from .build import ANN, NOW, begun


def test_the_same_event_on_the_same_run_is_applied_once() -> None:
    run, event = apply(None, begun()), e.CancelRequested(by=ANN, at=NOW, reason="enough")

    assert apply(run, event) is apply(run, event)


def test_an_event_is_never_taken_for_one_that_is_gone() -> None:
    run = apply(None, begun())

    # Each is gone before the next is made, which then is where it was.
    for n in range(RECENT_MAX):
        after = apply(run, e.CancelRequested(by=ANN, at=NOW, reason=str(n)))
        assert after.ending_why == str(n)


def test_no_more_is_remembered_than_a_verb_needs() -> None:
    run = apply(None, begun())

    for n in range(3 * RECENT_MAX):
        apply(run, e.CancelRequested(by=ANN, at=NOW, reason=str(n)))

    assert len(lifecycle._recent) <= RECENT_MAX
