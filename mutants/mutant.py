"""One sabotage: where it is made, and which test must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Rotten(Exception):
    """A mutant that does not fit the code any more: nobody knows what it would prove."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One guard, taken out."""

    name: str
    """What goes wrong, in a few words."""
    file: str
    """Below `src/sayso`."""
    old: str
    """Text that occurs exactly once in the file; lines around the guard may make it unique."""
    new: str
    test: str
    """The node id of the test that must fail, below `tests`. Name one that is quick, that says
    what went wrong, and that fails every time: no test that would have to be lucky.
    """

    @property
    def path(self) -> Path:
        """Where it is made, in any copy of the tree."""
        return Path("src", "sayso", self.file)

    @property
    def node(self) -> str:
        """The test as pytest is told of it."""
        return f"tests/{self.test}"

    def apply(self, text: str) -> str:
        """Sabotage a source, or raise `Rotten`."""
        found = text.count(self.old)
        if found != 1:
            raise Rotten(f"{self.name}: its old text occurs {found} times in {self.file}, not once")
        changed = text.replace(self.old, self.new)
        if changed == text:
            raise Rotten(f"{self.name}: it changes nothing")
        if self.file.endswith(".py"):
            try:
                compile(changed, self.file, "exec")
            except SyntaxError as error:
                raise Rotten(f"{self.name}: it is not Python any more: {error}") from None
        return changed
