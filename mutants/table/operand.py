"""Files that calls name: part of what is asked, and looked at again before they are used."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="digests do not cover files",
        file="domain/digest.py",
        old="*parts, *((operands,) if operands else ()))",
        new="*parts)",
        test="domain/test_operand.py::test_a_change_of_anything_about_a_file_is_another_digest",
    ),
    Mutant(
        name="what is asked about does not name its files",
        file="engine/gate.py",
        old="digest = self._digest(run, 1, tool, tool.version, args, pins=pins)\n"
        "        return replace(call",
        new="digest = self._digest(run, 1, tool, tool.version, args)\n        return replace(call",
        test="engine/test_operand.py::test_a_file_is_part_of_what_is_asked[memory]",
    ),
    Mutant(
        name="files are not looked at again at the start",
        file="engine/gate.py",
        old="return await pin(tool, args) if before or not isinstance(ruling, Proceed) else ()",
        new="return tuple(before)",
        test="engine/test_operand.py::"
        "test_a_file_that_changed_after_it_was_allowed_is_asked_about_again[memory-changed]",
    ),
    Mutant(
        name="a yes to one file counts for another",
        file="engine/gate.py",
        old="if not still.why and not (upgraded or changed):",
        new="if not still.why and not upgraded:",
        test="engine/test_operand.py::"
        "test_a_file_that_changed_after_it_was_allowed_is_asked_about_again[memory-same size]",
    ),
    Mutant(
        name="a changed file is nobody's business once the rules are gone",
        file="engine/gate.py",
        old="if isinstance(ruling, Proceed) and (changed or not signed):",
        new="if isinstance(ruling, Proceed) and not signed:",
        test="engine/test_operand.py::"
        "test_a_call_that_was_allowed_keeps_its_files_when_the_rules_are_gone[memory]",
    ),
    Mutant(
        name="a body reads what nobody has looked at",
        file="engine/operand.py",
        old="if pins and found not in pins:",
        new="if False:",
        test="engine/test_operand.py::"
        "test_what_changes_between_the_check_and_the_use_is_not_used[memory]",
    ),
    Mutant(
        name="an edit does not name its files",
        file="engine/edit.py",
        old="    pins = await pin(tool, args)\n",
        new="    pins = ()\n",
        test="engine/test_operand.py::test_an_edit_to_another_path_pins_the_other_file[memory]",
    ),
    Mutant(
        name="what is no file is read",
        file="engine/operand.py",
        old="if not stat.S_ISREG(os.fstat(fd).st_mode):",
        new="if False:",
        test="engine/test_operand.py::test_a_file_that_cannot_be_read_is_an_error_for_the_model",
    ),
    Mutant(
        name="a file may be of any size",
        file="engine/operand.py",
        old="        if size > file.bytes_max:\n",
        new="        if False:\n",
        test="engine/test_operand.py::test_a_file_that_cannot_be_read_is_an_error_for_the_model",
    ),
    Mutant(
        name="a call names any number of files",
        file="engine/operand.py",
        old="    if len(files) > OPERANDS_MAX:\n",
        new="    if False:\n",
        test="engine/test_operand.py::test_too_many_files_are_refused",
    ),
    Mutant(
        name="a file that has vanished is the same",
        file="domain/operand.py",
        old="        if was == found:\n",
        new="        if was == found or (found and found.absent):\n",
        test="domain/test_operand.py::test_what_has_changed_is_said_of_each_file",
    ),
)
