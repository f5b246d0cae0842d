"""Secrets: signatures, key files, sealed answers, and what is shown of any text.

Room for more: secret arguments at rest, redaction in every sink.
"""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
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
)
