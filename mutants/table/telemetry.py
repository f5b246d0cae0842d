"""Telling what goes on, and nothing that anybody said."""

from __future__ import annotations

from mutants.mutant import Mutant

_ENGINE = "engine/test_telemetry.py::"
_SERVER = "server/test_telemetry.py::"
_LOG = "cli/test_log.py::"

MUTANTS = (
    Mutant(
        name="spans and metrics say anything",
        file="engine/otel.py",
        old='    assert attributes.keys() <= ATTRIBUTES, f"',
        new='    assert True, f"',
        test=_ENGINE + "test_an_attribute_that_is_on_no_list_is_a_mistake",
    ),
    Mutant(
        name="a span says what an error says",
        file="engine/otel.py",
        old="            span.fail(type(error).__name__)",
        new="            span.fail(str(error))",
        test=_ENGINE + "test_who_comes_second_has_a_span_that_failed",
    ),
    Mutant(
        name="a span has exceptions in it",
        file="engine/otel.py",
        old="                record_exception=False,",
        new="                record_exception=True,",
        test=_ENGINE + "test_who_comes_second_has_a_span_that_failed",
    ),
    Mutant(
        name="what goes wrong in an SDK goes wrong here",
        file="engine/otel.py",
        old="            if not self._has_failed:",
        new="            raise\n            if not self._has_failed:",
        test=_ENGINE + "test_an_sdk_that_fails_changes_nothing[memory-on_end]",
    ),
    Mutant(
        name="a request is told by its path",
        file="server/traced.py",
        old='route = getattr(scope.get("route"), "path", "")',
        new='route = scope["path"]',
        test=_SERVER + "test_nothing_that_anybody_said_is_told",
    ),
    Mutant(
        name="a request is told by any method",
        file="server/traced.py",
        old='method if method in METHODS else "_OTHER"',
        new="method",
        test=_SERVER + "test_a_method_that_is_none_is_not_named",
    ),
    Mutant(
        name="FastAPI tells queries",
        file="server/traced.py",
        old='    "tracing": False,',
        new='    "tracing": True,',
        test=_SERVER + "test_fastapi_tells_nothing_by_itself",
    ),
    Mutant(
        name="a decision is not told where it was made",
        file="engine/watched.py",
        old="isinstance(one, e.HoldOpened | e.HoldSettled)",
        new="isinstance(one, e.HoldOpened)",
        test=_ENGINE + "test_spans_are_linked_over_a_suspension_and_three_processes",
    ),
    Mutant(
        name="a run keeps the trace of whoever made its task",
        file="engine/watched.py",
        old="with self._telemetry.within(seen.trace):",
        new='with self._telemetry.within(""):',
        test=_ENGINE + "test_a_doubt_is_asked_about_where_its_run_was_decided",
    ),
    Mutant(
        name="the store is read for gauges at every sweep",
        file="engine/gauge.py",
        old="        if tick >= self._next:",
        new="        if tick >= 0:",
        test=_ENGINE + "test_gauges_say_what_waits_and_reading_them_reads_no_store",
    ),
    Mutant(
        name="telemetry is there although nobody asked for it",
        file="given.py",
        old="    if telemetry is False:\n        return None\n",
        new="    telemetry = telemetry or True\n",
        test=_ENGINE + "test_without_telemetry_nothing_is_kept_of_whoever_asks",
    ),
    Mutant(
        name="a log has what an error says",
        file="cli/log.py",
        old="        found.append(type(one).__name__)",
        new="        found.append(repr(one))",
        test=_LOG + "test_of_an_error_there_are_types_and_places_and_no_messages",
    ),
    Mutant(
        name="a log has what a provider says",
        file="engine/turn.py",
        old="why, ids = type(error.__cause__ or error).__name__, {",
        new="why, ids = str(error), {",
        test=_SERVER + "test_nothing_that_anybody_said_is_told",
    ),
)
