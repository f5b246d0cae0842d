"""Arguments from outside, frozen and sealed: the one way from what somebody wrote to what is kept.

Rule: between `Tool.freeze` and the vault a secret is in the open. Nothing but this module calls
the former, so that nothing forgets the latter.
"""

from __future__ import annotations

from sayso.domain.digest import decode_value
from sayso.domain.secret import check_frozen, check_places, check_plain, fill_in, is_sealed
from sayso.engine.ports import Tool
from sayso.engine.vault import Vault
from sayso.errors import BadValue, contained


def freeze(vault: Vault, run_id: str, tool: Tool, args: str | bytes) -> bytes:
    """Validate arguments, encode them once and for all, and seal what is secret among them.

    `BadValue` if they do not fit, or look sealed already; `BadKeys` if nothing can be sealed here.
    """
    with contained(f"the tool {tool.name!r}"):
        _check(args)
        return _seal(vault, run_id, tool, tool.freeze(args))


def freeze_edit(vault: Vault, run_id: str, tool: Tool, args: bytes, before: bytes) -> bytes:
    """Freeze arguments as somebody has edited them. A mark in them stands for the secret that it
    is of, in a place where the tool takes one.
    """
    if not is_sealed(before):
        return freeze(vault, run_id, tool, args)
    with contained(f"the tool {tool.name!r}"):
        filled, places = fill_in(args, vault.open_marked(run_id, tool.name, before))
        frozen = tool.freeze(filled)
        check_places(frozen, places)
        return _seal(vault, run_id, tool, frozen)


def _check(args: str | bytes) -> None:
    text = args if isinstance(args, str) else args.decode("utf-8", "replace")
    # A dollar may be written by its number, too.
    if "$se" in text or "\\u" in text:
        try:
            value = decode_value(args)
        except BadValue:
            return  # The tool says so itself, in its own words.
        check_plain(value)


def _seal(vault: Vault, run_id: str, tool: Tool, frozen: bytes) -> bytes:
    check_frozen(frozen, opens=tool.takes_secrets)
    return vault.seal_args(run_id, tool.name, frozen) if tool.takes_secrets else frozen
