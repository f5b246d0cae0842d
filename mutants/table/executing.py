"""Executing: through the gate, on the bytes that were shown, and once."""

from __future__ import annotations

from mutants.mutant import Mutant

_AHEAD = "engine/test_ahead.py::"

MUTANTS = (
    Mutant(
        name="digests are of pretty JSON",
        file="domain/digest.py",
        old='ensure_ascii=False, separators=(",", ":")',
        new="ensure_ascii=False, indent=2",
        test="domain/test_digest.py::test_the_bytes_are_what_we_say_they_are",
    ),
    Mutant(
        name="digests are of keys in any order",
        file="domain/digest.py",
        old='_OWN_ENCODER = msgspec.json.Encoder(order="sorted")',
        new="_OWN_ENCODER = msgspec.json.Encoder()",
        test="domain/test_digest.py::test_what_has_no_float_in_it_is_written_as_the_rest_is",
    ),
    Mutant(
        name="digests are of floats as others write them",
        file="domain/digest.py",
        old="floats = floats or kind is float",
        new="floats = False",
        test="domain/test_digest.py::"
        "test_an_integer_and_a_float_of_the_same_size_are_different_bytes",
    ),
    Mutant(
        name="digests do not cover the version",
        file="domain/digest.py",
        old="parts = (project, run, str(version), tool, tool_version, args)",
        new="parts = (project, run, tool, tool_version, args)",
        test="domain/test_digest.py::test_a_change_of_anything_shown_is_another_digest",
    ),
    Mutant(
        name="digests do not cover the tool's version",
        file="domain/digest.py",
        old="str(version), tool, tool_version, args)",
        new="str(version), tool, args)",
        test="domain/test_digest.py::test_a_change_of_anything_shown_is_another_digest",
    ),
    Mutant(
        name="what was applied last is not kept beside its result",
        file="domain/lifecycle.py",
        old="_recent[key] = (run, event, after)",
        new="_recent[key] = (None, run.told if run else event, after)",
        test="domain/test_lifecycle_recent.py::test_an_event_is_never_taken_for_one_that_is_gone",
    ),
    Mutant(
        name="digests run their parts together",
        file="domain/digest.py",
        old='pieces += (len(data).to_bytes(8, "big"), data)',
        new="pieces += (data,)",
        test="domain/test_digest.py::test_parts_cannot_be_shifted_into_each_other",
    ),
    Mutant(
        name="the last of two equal keys counts",
        file="domain/digest.py",
        old="if len(found) != len(pairs):",
        new="if False:",
        test="domain/test_digest.py::test_text_without_a_single_reading_is_refused",
    ),
    Mutant(
        name="what looks like our own bytes is not compared with them",
        file="domain/digest.py",
        old="return (value,) if _AGAIN_ENCODER.encode(value) == data else None",
        new="return (value,)",
        test="domain/test_digest.py::test_text_without_a_single_reading_is_refused",
    ),
    Mutant(
        name="what looks like our own bytes may be nested as it likes",
        file="domain/digest.py",
        old='if len(data) > DIGITS_MAX or data.count(b"[") + data.count(b"{") > DEPTH_MAX:',
        new="if len(data) > DIGITS_MAX:",
        test="domain/test_digest.py::test_what_is_read_is_not_nested_deeper_either",
    ),
    Mutant(
        name="what looks like our own bytes may have numbers without end",
        file="domain/digest.py",
        old="if len(data) > DIGITS_MAX or data",
        new="if data",
        test="domain/test_digest.py::test_the_limit_on_digits_is_the_same_in_both_directions",
    ),
    Mutant(
        name="the journal starts a call on another digest",
        file="domain/apply_calls.py",
        old="if event.digest != row.digest or event.attempt != row.attempt + 1:",
        new="if event.attempt != row.attempt + 1:",
        test="domain/test_lifecycle_call.py::test_a_call_starts_on_the_digest_that_was_approved",
    ),
    Mutant(
        name="digests are checked at the decision only",
        file="engine/gate.py",
        old='            return Checked(broken=f"the arguments of {row.ref} are not what was '
        'decided on")',
        new="            upgraded = False",
        test="engine/test_fail_closed.py::test_arguments_changed_in_the_file_are_not_executed",
    ),
    Mutant(
        name="an edited call runs as it was",
        file="domain/transcript.py",
        old="        self.args[opened.call] = bytes(event.args)\n",
        new="",
        test="engine/test_cycle.py::test_an_edited_call_runs_as_edited_and_the_model_sees_both",
    ),
    Mutant(
        name="a parameter is filled in that nobody was shown",
        file="agents/tools.py",
        old="if kwargs.keys() != {parameter.name for parameter in parameters}:",
        new="if False:",
        test="engine/test_regressions.py::"
        "test_a_parameter_added_while_a_call_waits_is_not_filled_in_unseen",
    ),
    Mutant(
        name="rules share the arguments",
        file="domain/policy.py",
        old="msgspec.structs.replace(facts, args=deepcopy(facts.args))",
        new="facts",
        test="engine/test_regressions.py::"
        "test_a_condition_that_changes_arguments_does_not_fool_the_next",
    ),
    Mutant(
        name="a condition that breaks lets the call go",
        file="domain/policy.py",
        old='return _suspicious(self, f"its condition failed: {describe(error)}")',
        new="return None",
        test="engine/test_fail_closed.py::test_a_broken_condition_asks_a_person",
    ),
    Mutant(
        name="a condition may say anything",
        file="domain/policy.py",
        old="if applies is False:",
        new="if not applies:",
        test="domain/test_policy.py::"
        "test_a_condition_that_answers_neither_true_nor_false_asks_a_person",
    ),
    Mutant(
        name="a check that does not answer lets the call go",
        file="engine/intervention.py",
        old='return Require(why=f"The check did not answer within {patience_s:g} seconds.")',
        new="return Proceed()",
        test="engine/test_fail_closed.py::test_a_check_that_blocks_for_ever_asks_a_person",
    ),
    Mutant(
        name="a check that raises lets the call go",
        file="engine/intervention.py",
        old='return Require(why=f"The check failed: {type(error).__name__}: {error}.")',
        new="return Proceed()",
        test="engine/test_fail_closed.py::test_a_check_that_does_not_say_no_asks_a_person",
    ),
    Mutant(
        name="one rule loosens another",
        file="domain/ruling.py",
        old="    if isinstance(one, Forbid) or isinstance(two, Proceed):\n        return one",
        new="    if isinstance(two, Proceed):\n        return two",
        test="domain/test_policy.py::test_a_ban_stands_whoever_says_so",
    ),
    Mutant(
        name="a rule that came later does not count at the start",
        file="engine/gate.py",
        old="if not still.why and not (upgraded or changed):",
        new="if approved and signed and not (upgraded or changed):",
        test="engine/test_fail_closed.py::test_a_policy_that_names_somebody_else_by_now_asks_them",
    ),
    Mutant(
        name="a yes to the old tool counts for the new one",
        file="engine/gate.py",
        old="if not still.why and not (upgraded or changed):",
        new="if not still.why and not changed:",
        test="engine/test_fail_closed.py::"
        "test_a_tool_that_was_upgraded_while_its_call_waited_is_asked_about_again",
    ),
    Mutant(
        name="what was refused is asked again",
        file="engine/gate.py",
        old="if before is None or before.times < tool.asks_max:",
        new="if True:",
        test="engine/test_cycle.py::test_a_call_equal_to_a_rejected_one_is_declined_without_asking",
    ),
    Mutant(
        name="a call in doubt is repeated unasked",
        file="engine/gate.py",
        old='return transcript.doubted(run).get((tool, blank(args)), "")',
        new='return ""',
        test="engine/test_regressions.py::test_a_call_that_was_in_doubt_is_never_repeated_unasked",
    ),
    Mutant(
        name="a call starts in a run that is to end",
        file="domain/apply_calls.py",
        old='        raise IllegalEvent("nothing starts in a run that is to end")',
        new="        return",
        test="domain/test_lifecycle_call.py::test_nothing_starts_in_a_run_that_is_to_end",
    ),
    Mutant(
        name="a call is made however late",
        file="engine/calls.py",
        old="    if late_ms > parts.bounds.start_grace_ms or call is None or tool is None:\n"
        "        return _not_sent(",
        new="    if call is None or tool is None:\n        return _not_sent(",
        test="engine/test_effects.py::test_a_call_whose_start_took_too_long_is_not_made",
    ),
    Mutant(
        name="a changed body goes on as if it had not",
        file="engine/body.py",
        old="same = (place.name, place.digest) == (name, digest)",
        new="same = True",
        test="engine/test_bodies.py::test_a_body_whose_code_has_changed_stops_and_says_where",
    ),
    Mutant(
        name="a worker that is stopped in a turn goes on",
        file="engine/cut.py",
        old="and bool(self._times) and not asked",
        new="and bool(self._times)",
        test="engine/test_cut.py::test_a_task_that_is_stopped_does_not_go_on",
    ),
    Mutant(
        name="a call starts on a yes that came to nothing",
        file="engine/calls.py",
        old="if not live.is_so(seen):",
        new="if False:",
        test=_AHEAD + "test_a_start_names_the_yes_that_stands_and_not_one_that_came_to_nothing",
    ),
    Mutant(
        name="what is under way is taken for committed",
        file="engine/ledger.py",
        old="            live.add_to(found)\n",
        new="            live.add_to(found)\n            live.committed = found.seq\n",
        test=_AHEAD + "test_a_start_names_the_yes_that_stands_and_not_one_that_came_to_nothing",
    ),
    Mutant(
        name="a model is asked because of a no that is not committed",
        file="engine/worker.py",
        old="if owner == self.id and run.id not in self._loops and only_starts(run):",
        new="if owner == self.id and run.id not in self._loops:",
        test=_AHEAD + "test_nobody_is_asked_what_comes_next_before_the_no_is_committed",
    ),
    Mutant(
        name="what comes to nothing is told on top of what others wrote",
        file="engine/live.py",
        old="!= entry.id for entry in journal",
        new="!= entry.id for entry in ()",
        test=_AHEAD + "test_what_is_under_way_is_not_told_on_top_of_what_others_wrote_instead",
    ),
    Mutant(
        name="a decision whose answer was lost is left lying",
        file="engine/worker.py",
        old="known = self._parts.ledger.at_hand(run.id) is not None",
        new="known = True",
        test=_AHEAD + "test_a_decision_whose_answer_is_lost_is_gone_on_with",
    ),
    Mutant(
        name="a run that moved while it was worked on is not looked at again",
        file="engine/worker.py",
        old="if loop is not None and loop.seen is run and known:",
        new="if loop is not None:",
        test="engine/test_parallel.py::"
        "test_a_held_call_can_be_decided_while_a_sibling_runs_and_starts_at_once",
    ),
)
