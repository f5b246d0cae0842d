"""Secrets: keys and their files, what is sealed, and what is seen of any of it."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="a secret that a model says is heard before its calls are known",
        file="engine/turn.py",
        old="_unheard if discreet else voice.emit",
        new="voice.emit",
        test="engine/test_feed.py::test_a_secret_that_a_model_says_is_in_no_delta",
    ),
    Mutant(
        name="the beginning of a signature will do",
        file="store/keyring.py",
        old="return hmac.compare_digest(expected, mac)",
        new="return expected.startswith(mac)",
        test="store/test_keyring.py::test_a_bad_signature_is_refused",
    ),
    Mutant(
        name="keys that others may read are used",
        file="store/keyring.py",
        old="if stat.S_IMODE(found.st_mode) & 0o077:",
        new="if False:",
        test="store/test_keyring.py::test_a_file_that_others_may_read_is_refused",
    ),
    Mutant(
        name="what is sealed opens anywhere",
        file="store/keyring.py",
        old="sealed = self._cipher(self._current, purpose).encrypt(nonce, data, aad)",
        new='sealed = self._cipher(self._current, purpose).encrypt(nonce, data, b"")',
        test="store/test_keyring.py::test_what_is_encrypted_is_bound_to_its_purpose_and_place",
    ),
    Mutant(
        name="a sensitive answer is kept as it is",
        file="engine/decide.py",
        old="            if ask.sensitive:\n                sealed",
        new="            if False:\n                sealed",
        test="engine/test_questions.py::test_a_sensitive_answer_reaches_the_body_and_nothing_else",
    ),
    Mutant(
        name="people see the token of a secret",
        file="store/views.py",
        old="return next((mask_args(bytes(call.args)) for call in mine), None)",
        new="return next((bytes(call.args) for call in mine), None)",
        test="engine/test_secrets.py::"
        "test_a_body_is_given_the_secret_and_the_journal_is_not[memory]",
    ),
    Mutant(
        name="people see the token of a secret that was edited",
        file="store/views.py",
        old="        return mask_args(bytes(event.args))\n",
        new="        return bytes(event.args)\n",
        test="engine/test_secrets.py::"
        "test_a_mark_that_is_sent_back_leaves_its_secret_as_it_is[memory]",
    ),
    Mutant(
        name="models see the token of a secret",
        file="domain/transcript.py",
        old="    if not is_sealed(args):\n        return call\n",
        new="    if True:\n        return call\n",
        test="engine/test_secrets.py::"
        "test_a_body_is_given_the_secret_and_the_journal_is_not[memory]",
    ),
    Mutant(
        name="a note about an edit has the token of a secret",
        file="domain/transcript.py",
        old="{mask_args(args).decode()}",
        new="{args.decode()}",
        test="engine/test_secrets.py::"
        "test_a_mark_that_is_sent_back_leaves_its_secret_as_it_is[memory]",
    ),
    Mutant(
        name="rules see the token of a secret",
        file="engine/gate.py",
        old="args=mask(decode_value(args)),",
        new="args=decode_value(args),",
        test="engine/test_secrets.py::test_an_edit_is_ruled_on_without_its_secrets[memory]",
    ),
    Mutant(
        name="the copy of a provider is kept with its secrets",
        file="engine/turn.py",
        old="text=veil.text(answer.text), raw=None)",
        new="text=veil.text(answer.text))",
        test="engine/test_secrets.py::"
        "test_only_a_turn_with_a_secret_loses_the_copy_of_its_provider[memory]",
    ),
    Mutant(
        name="what a model says beside its call is kept with its secrets",
        file="engine/turn.py",
        old="text=veil.text(answer.text), raw=None)",
        new="raw=None)",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[by_a_model_that_says_it_as_well-hot]",
    ),
    Mutant(
        name="arguments that do not fit are kept with their secrets",
        file="engine/gate.py",
        old="text = NOT_KEPT if secret else clean_text(asked.args)[:TEXT_MAX]",
        new="text = clean_text(asked.args)[:TEXT_MAX]",
        test="engine/test_secrets.py::test_what_does_not_fit_is_not_kept[memory]",
    ),
    Mutant(
        name="an error says what does not fit",
        file="agents/schema.py",
        old="        if not self.secret:\n            return _guarded(act, what)\n",
        new="        if True:\n            return _guarded(act, what)\n",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[in_arguments_that_do_not_fit-hot]",
    ),
    Mutant(
        name="an error says the name of an unknown argument",
        file="agents/schema.py",
        old="    if not loc or loc[0] not in names:\n"
        "        # A name that is not ours may be anything, a secret included.\n"
        "        return",
        new="    if not loc:\n        return",
        test="engine/test_secrets.py::test_what_does_not_fit_is_not_kept[memory]",
    ),
    Mutant(
        name="an error says what a validator says",
        file="agents/schema.py",
        old="{message if _HARMLESS.fullmatch(kind) else 'it does not fit'}",
        new="{message}",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[in_arguments_that_do_not_fit-hot]",
    ),
    Mutant(
        name="a result is kept with its secrets",
        file="engine/attempt.py",
        old="value = msgspec.Raw(veil.value(result))",
        new="value = msgspec.Raw(result)",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[in_what_a_body_raises_and_returns-hot]",
    ),
    Mutant(
        name="an error of a body is kept with its secrets",
        file="engine/attempt.py",
        old="message=_message(error, veil)))",
        new="message=str(error)))",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[in_what_a_body_raises_and_returns-hot]",
    ),
    Mutant(
        name="a doubt is kept with its secrets",
        file="engine/attempt.py",
        old="{type(error).__name__}: {_message(error, veil)}",
        new="{type(error).__name__}: {error}",
        test="engine/test_canary.py::test_a_secret_is_in_no_way_out[in_a_doubt-hot]",
    ),
    Mutant(
        name="what a durable body returns is kept with its secrets",
        file="engine/leg.py",
        old="kept = msgspec.Raw(body.veil.value(value))",
        new="kept = msgspec.Raw(value)",
        test="engine/test_canary.py::"
        "test_a_secret_is_in_no_way_out[in_what_a_durable_body_returns-hot]",
    ),
    Mutant(
        name="a step's result is kept with its secrets",
        file="engine/body.py",
        old="        if not self.veil.covers(result) and not is_sealed(result):\n"
        "            return result\n",
        new="        if True:\n            return result\n",
        test="engine/test_canary.py::test_a_secret_is_in_no_way_out[in_a_durable_body-hot]",
    ),
    Mutant(
        name="what a body asks is kept with its secrets",
        file="engine/body.py",
        old="wanted = [discreet(one, self.veil) for one in wanted]",
        new="pass",
        test="engine/test_canary.py::test_a_secret_is_in_no_way_out[in_a_durable_body-hot]",
    ),
    Mutant(
        name="a secret opens for another run or tool",
        file="engine/vault.py",
        old="scope.encode())\n\n    def open_secret(self, scope: str, token: str) -> bytes:\n"
        '        """Give a secret that was sealed for this scope."""\n'
        "        return self.keys().unseal(_SECRET, token, scope.encode())",
        new='b"")\n\n    def open_secret(self, scope: str, token: str) -> bytes:\n'
        '        """Give a secret that was sealed for this scope."""\n'
        '        return self.keys().unseal(_SECRET, token, b"")',
        test="engine/test_secrets.py::test_a_secret_opens_for_its_run_and_tool_only",
    ),
    Mutant(
        name="a token tells the length of its secret",
        file="engine/vault.py",
        old='data + b" " * (-len(data) % _BLOCK)',
        new="data",
        test="engine/test_secrets.py::test_the_length_of_a_secret_is_not_to_be_seen[memory]",
    ),
    Mutant(
        name="an argument from outside passes for a secret",
        file="engine/sealing.py",
        old="        _check(args)\n        return",
        new="        return",
        test="engine/test_secrets.py::test_what_is_no_secret_cannot_be_hidden_as_one[memory]",
    ),
    Mutant(
        name="a default may look sealed",
        file="engine/sealing.py",
        old="    check_frozen(frozen, opens=tool.takes_secrets)\n",
        new="",
        test="engine/test_secrets.py::"
        "test_a_default_that_looks_sealed_is_refused_as_well[memory-str]",
    ),
    Mutant(
        name="an edit moves a secret to where it is seen",
        file="engine/sealing.py",
        old="        check_places(frozen, places)\n",
        new="",
        test="engine/test_secrets.py::test_an_edit_cannot_bring_a_secret_to_light[memory-moved]",
    ),
    Mutant(
        name="a mark stands for a secret of another call",
        file="domain/secret.py",
        old="if any(one[SEALED] not in known for _, one in marked):",
        new="if False:",
        test="domain/test_secret.py::test_a_mark_of_nothing_is_refused",
    ),
    Mutant(
        name="an edit writes what only Sayso writes",
        file="domain/secret.py",
        old="    check_plain(filled)\n",
        new="",
        test="domain/test_secret.py::test_an_edit_cannot_write_what_only_sayso_writes",
    ),
    Mutant(
        name="a digest of a request tells its secret",
        file="engine/decide.py",
        old="if sealed or (request.edits and await self._edits_secrets(run, verdicts)):",
        new="if sealed:",
        test="engine/test_secrets.py::test_no_idempotency_key_tells_a_secret[memory]",
    ),
    Mutant(
        name="a call in doubt is another one with another secret",
        file="engine/gate.py",
        old="get((tool, blank(args)),",
        new="get((tool, args),",
        test="engine/test_secrets.py::"
        "test_a_call_in_doubt_is_not_repeated_unasked_with_another_secret[memory]",
    ),
    Mutant(
        name="a secret shows itself",
        file="domain/secret.py",
        old='return f"Secret({SHOWN})"',
        new='return f"Secret({self._value})"',
        test="domain/test_secret.py::test_a_secret_shows_itself_to_nobody",
    ),
    Mutant(
        name="a secret is looked for in one form only",
        file="domain/secret.py",
        old="self._forms.update(_forms(text))",
        new="self._forms.add(text)",
        test="domain/test_secret.py::test_a_secret_in_base64_is_found",
    ),
)
