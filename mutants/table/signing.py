"""Signed decisions: what a desk signs, and what a worker takes for signed."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="a signature does not name the project",
        file="domain/signing.py",
        old="parts = [TAG, run.project, run.id, str(hold), str(version)]",
        new="parts = [TAG, run.id, str(hold), str(version)]",
        test="domain/test_signing.py::test_a_decision_cannot_be_moved_to_another_place",
    ),
    Mutant(
        name="a signature does not name the run",
        file="domain/signing.py",
        old="parts = [TAG, run.project, run.id, str(hold), str(version)]",
        new="parts = [TAG, run.project, str(hold), str(version)]",
        test="domain/test_signing.py::test_a_decision_cannot_be_moved_to_another_place",
    ),
    Mutant(
        name="a signature does not name the hold",
        file="domain/signing.py",
        old="parts = [TAG, run.project, run.id, str(hold), str(version)]",
        new="parts = [TAG, run.project, run.id, str(version)]",
        test="domain/test_signing.py::test_a_decision_cannot_be_moved_to_another_place",
    ),
    Mutant(
        name="a signature does not name the version",
        file="domain/signing.py",
        old="parts = [TAG, run.project, run.id, str(hold), str(version)]",
        new="parts = [TAG, run.project, run.id, str(hold)]",
        test="domain/test_signing.py::test_a_decision_cannot_be_moved_to_another_place",
    ),
    Mutant(
        name="a signature does not cover the digest",
        file="domain/signing.py",
        old='replace(decision, signature="")',
        new='replace(decision, signature="", digest="")',
        test="domain/test_signing.py::test_a_change_of_any_field_is_another_signature",
    ),
    Mutant(
        name="a signature does not cover who decided",
        file="domain/signing.py",
        old='replace(decision, signature="")',
        new='replace(decision, signature="", by=CLOCK)',
        test="domain/test_signing.py::test_a_change_of_any_field_is_another_signature",
    ),
    Mutant(
        name="what was signed for something else is a decision",
        file="domain/signing.py",
        old="parts = [TAG, run.project",
        new="parts = [run.project",
        test="domain/test_signing.py::test_the_bytes_say_what_they_are_for",
    ),
    Mutant(
        name="parts of what is signed run into each other",
        file="domain/signing.py",
        old='b"".join(len(part).to_bytes(8, "big") + part for part in encoded)',
        new='b"".join(encoded)',
        test="domain/test_signing.py::test_a_decision_cannot_be_moved_to_another_place",
    ),
    Mutant(
        name="silence is signed",
        file="domain/signing.py",
        old="if not isinstance(decision, Decision) or decision.by == CLOCK:",
        new="if not isinstance(decision, Decision):",
        test="domain/test_signing.py::test_silence_is_signed_by_nobody",
    ),
    Mutant(
        name="what is not signed counts",
        file="engine/signing.py",
        old="        if key is None or signature is None:\n            return False\n",
        new="        if key is None or signature is None:\n            return True\n",
        test="engine/test_signing.py::"
        "test_what_is_not_signed_is_asked_again_once_for_each_decision[memory]",
    ),
    Mutant(
        name="any signature counts",
        file="engine/signing.py",
        old="        except InvalidSignature:\n            return False\n",
        new="        except InvalidSignature:\n            return True\n",
        test="engine/test_signing.py::test_the_signature_of_another_run_is_none[memory]",
    ),
    Mutant(
        name="a yes to another digest starts a call",
        file="engine/signing.py",
        old="        if settled.decision.digest != row.digest:\n            return False\n",
        new="",
        test="engine/test_signing.py::test_a_row_that_was_written_anew_runs_nothing",
    ),
    Mutant(
        name="the gate takes any decision",
        file="engine/gate.py",
        old="signed = not approved or self.verified(run, row, transcript)",
        new="signed = True",
        test="engine/test_signing.py::"
        "test_what_is_not_signed_is_asked_again_once_for_each_decision[memory]",
    ),
    Mutant(
        name="votes need no signature",
        file="engine/signing.py",
        old="            if not self.verifies(run, settled.hold, settled.version, decision):",
        new="            if not decision.digest:",
        test="engine/test_signing.py::test_every_vote_is_signed[memory]",
    ),
    Mutant(
        name="a body goes on with what nobody has signed",
        file="engine/signing.py",
        old="            if not needs_signature(ask, decision):",
        new="            if True:",
        test="engine/test_signing.py::"
        "test_a_step_in_doubt_is_taken_again_only_with_a_signature[memory]",
    ),
    Mutant(
        name="what silence says needs no signature",
        file="domain/signing.py",
        old="return verdict.silence in SPEAKING",
        new="return False",
        test="domain/test_signing.py::test_what_somebody_says_is_signed",
    ),
    Mutant(
        name="anybody speaks for a run that others wait for",
        file="domain/signing.py",
        old="return decision.by != child",
        new="return child is None",
        test="domain/test_signing.py::test_what_somebody_says_is_signed",
    ),
    Mutant(
        name="a desk signs what its digest does not name",
        file="engine/decide.py",
        old="                        check_genuine(run, n, transcript, request.shown)\n",
        new="                        pass\n",
        test="engine/test_signing.py::test_a_desk_signs_nothing_that_its_digest_does_not_name",
    ),
    Mutant(
        name="a desk signs what was not shown",
        file="engine/genuine.py",
        old="if shown != msgspec.structs.replace(seen, args=mask_args(seen.args)):",
        new="if False:",
        test="engine/test_signing.py::test_a_desk_signs_nothing_else_than_was_shown",
    ),
    Mutant(
        name="a desk does not sign",
        file="domain/signing.py",
        old="return replace(found, decision=replace(decision, signature=signature))",
        new="return found",
        test="domain/test_signing.py::"
        "test_every_decision_in_an_append_is_signed_and_nothing_else_is_touched",
    ),
)
