"""A policy in a file: rules as data, beside the rules in Python.

Rule 1: a file that is not wholly understood is no policy: nothing of it is used.
Rule 2: a file that changes is read again; as long as it cannot be used, the policy stays as it was.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sayso.agents.policy_case import Case, read_cases
from sayso.agents.policy_cel import CelCondition
from sayso.agents.policy_yaml import BYTES_MAX, Source, line_of
from sayso.domain.policy import CallFacts, Policy, Rule
from sayso.domain.ruling import Ruling
from sayso.errors import BadPolicy

LOOK_EVERY_S = 1.0
"""How often a file is looked at, at most: each look costs a call of the system."""
SETTLE_S = 1.0
"""How long a file has to be left alone. Half of one may be a policy, too: a looser one."""
DIGEST_CHARS = 12

_TOP = ("version", "rules", "tests")
_BESIDE_FORBID = {"tool", "when", "forbid", "name"}

log = logging.getLogger("sayso")


def load_policy(path: str | Path, *rules: Rule) -> Policy:
    """Read a policy from a YAML file, and put rules in Python beside its own.

    `BadPolicy` names the line and the key of what cannot be used.
    """
    return _loaded(Path(path), _read(Path(path))[0], rules)


def load_cases(path: str | Path) -> list[Case]:
    """Read the example calls of a policy file, or of a file that has nothing but them."""
    source = Source(str(path), _read(Path(path))[0])
    found = source.mapping(source.root, "", _TOP)
    return read_cases(source, found["tests"]) if "tests" in found else []


class PolicyFile(Policy):
    """A policy in a YAML file, which is read again when it changes.

    It is looked at when a call is ruled on. A file that cannot be used raises `BadPolicy` at the
    start; later the policy stays as it was, and `problem` and the log say why.
    """

    def __init__(
        self,
        path: str | Path,
        *rules: Rule,
        look_every_s: float = LOOK_EVERY_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.path = Path(path)
        self.problem: BadPolicy | None = None
        """Why the file that is there now is not used; None if it is."""
        self._beside = rules
        self._look_every_s = look_every_s
        self._settle_s = settle_s
        self._lock = threading.Lock()
        data, self._tried = _read(self.path)
        self._changing: tuple[object, float] = (None, 0.0)
        self._looked_at = time.monotonic()
        self._current = _loaded(self.path, data, rules)
        super().__init__(*self._current.rules, version=self._current.version)

    def now(self) -> Policy:
        """Give the policy as it is now, which never changes."""
        if time.monotonic() - self._looked_at >= self._look_every_s:
            with self._lock:
                self._look()
        return self._current

    def on(self, facts: CallFacts, *others: Ruling) -> Ruling:
        """Rule on a call by the policy as it is now."""
        return self.now().on(facts, *others)

    def reload(self) -> bool:
        """Read the file now, and tell whether it says something else than before. If it cannot be
        used, `BadPolicy` says why, and the policy stays as it was.
        """
        with self._lock:
            before = self._current.version
            self._take()
            if self.problem is not None:
                raise self.problem
            return self._current.version != before

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        try:
            stat = os.stat(self.path)
        except OSError as error:
            self._tried = None
            self._keep(_unreadable(self.path, error))
            return
        found = _mark(stat)
        if found == self._tried:
            return
        seen, since = self._changing
        if seen != found:
            self._changing = (found, time.monotonic())
            since = time.monotonic()
        # The second clock is for files from the future: clocks of other machines disagree.
        left_alone = max(time.time() - stat.st_mtime, time.monotonic() - since)
        if left_alone >= self._settle_s:
            self._take()

    def _take(self) -> None:
        try:
            data, self._tried = _read(self.path)
            current = _loaded(self.path, data, self._beside)
        except BadPolicy as error:
            self._keep(error)
            return
        if current.version != self._current.version:
            log.info("the policy is now version %s of %s", current.version, self.path)
        self.problem = None
        self._current = current
        self.rules = current.rules
        self.version = current.version

    def _keep(self, problem: BadPolicy) -> None:
        if str(problem) != str(self.problem):
            log.error("the policy stays as it was, version %s: %s", self._current.version, problem)
        self.problem = problem


def _read(path: Path) -> tuple[bytes, object]:
    try:
        with path.open("rb") as file:
            mark = _mark(os.fstat(file.fileno()))
            # Not more than the bound says: it is told by one byte too many.
            return file.read(BYTES_MAX + 1), mark
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> BadPolicy:
    return BadPolicy(f"{path}: the policy cannot be read: {error.strerror or error}")


def _mark(stat: os.stat_result) -> object:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _loaded(path: Path, data: bytes, beside: tuple[Rule, ...]) -> Policy:
    source = Source(str(path), data)
    found = source.mapping(source.root, "", _TOP)
    if "rules" not in found:
        # To take a file that says nothing for one that demands nothing would open the gate.
        raise source.refusal(source.root, "rules", "a policy has rules; write [] if it has none")
    rules = [_rule(source, node) for node in source.items(found["rules"], "rules")]
    if "tests" in found:
        read_cases(source, found["tests"])
    version = source.label(found["version"], "version") if "version" in found else "1"
    if not version:
        raise source.refusal(found["version"], "version", "the version is empty")
    digest = hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]
    return Policy(*rules, *beside, version=f"{version}+{digest}")


def _names(source: Source, node: Any, key: str) -> list[str]:
    if node.id != "sequence":
        return [source.text(node, key)]
    return [source.text(one, key) for one in source.items(node, key)]


def _condition(source: Source, node: Any, key: str) -> CelCondition:
    text = source.text(node, key)
    try:
        return CelCondition(text)
    except BadPolicy as error:
        # In a literal block the first line of the condition is the line after its mark.
        within = error.line or 0 if node.style == "|" else 0
        raise source.refusal(line_of(node) + within, key, str(error)) from None


def _ladder(source: Source, node: Any, key: str) -> list[tuple[str | float, list[str]]]:
    found: list[tuple[str | float, list[str]]] = []
    for one in source.items(node, key):
        rung = source.mapping(one, key, ("after", "to"))
        for word in ("after", "to"):
            if word not in rung:
                raise source.refusal(one, word, "each of them says after how long, and to whom")
        after = source.duration(rung["after"], "after")
        found.append((after, _names(source, rung["to"], "to")))
    return found


KEYS: dict[str, Callable[[Source, Any, str], Any]] = {
    "tool": Source.text,
    "when": _condition,
    "forbid": Source.text,
    "approvers": _names,
    "quorum": Source.whole,
    "reject_quorum": Source.whole,
    "not_requester": Source.flag,
    "within": Source.duration,
    "on_silence": Source.text,
    "start_by": Source.duration,
    "remind_every": Source.duration,
    "escalate_after": Source.duration,
    "escalate_to": _names,
    "escalate": _ladder,
    "on_reject": Source.text,
    "risk": Source.text,
    "title": Source.text,
    "why": Source.text,
    "editable": Source.flag,
    "resolve": Source.text,
    "siblings": Source.text,
    "name": Source.text,
}
"""How each key of a rule is read: they are the arguments of `Rule`."""


def _rule(source: Source, node: Any) -> Rule:
    nodes = source.mapping(node, "rules", KEYS)
    given = {key: KEYS[key](source, value, key) for key, value in nodes.items()}
    if "forbid" in given and (idle := [key for key in given if key not in _BESIDE_FORBID]):
        said = "it means nothing in a rule that forbids: nobody is asked"
        raise source.refusal(nodes[idle[0]], idle[0], said)
    try:
        return Rule(**given)
    except BadPolicy as error:
        key = _blamed(given)
        raise source.refusal(nodes.get(key, node), key, str(error)) from None


def _blamed(given: dict[str, Any]) -> str:
    """Say which key a rule cannot be made with: the one without which it could be, or else the
    first that makes no rule even alone.
    """
    for key in given:
        if _works({name: value for name, value in given.items() if name != key}):
            return key
    return next((key for key in given if not _works({key: given[key]})), "")


def _works(given: dict[str, Any]) -> bool:
    try:
        Rule(**given)
    except BadPolicy:
        return False
    return True
