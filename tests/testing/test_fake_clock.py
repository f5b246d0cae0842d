from sayso.store.clock import Clock
from sayso.testing import FakeClock


def test_time_passes_only_when_it_is_told_to() -> None:
    clock: Clock = FakeClock(now=1000, tick=10)

    assert (clock.now(), clock.tick(), clock.boot_id()) == (1000, 10, "boot_fake")
    assert (clock.now(), clock.tick()) == (1000, 10)


def test_advancing_moves_both_clocks() -> None:
    clock = FakeClock(now=1000, tick=10)

    clock.advance(5)
    clock.advance("1h30m")

    assert (clock.now(), clock.tick()) == (1005 + 5_400_000, 15 + 5_400_000)


def test_stepping_the_wall_clock_lets_no_time_pass() -> None:
    clock = FakeClock(now=1000, tick=10)

    clock.step_wall(-500)

    assert (clock.now(), clock.tick()) == (500, 10)
