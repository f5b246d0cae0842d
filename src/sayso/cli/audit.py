"""`sayso audit`: check that a store is as it was written, and what else auditors ask for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click
import msgspec

from sayso.cli.archive import is_archive, verify_archive
from sayso.cli.audit_export import export_command, refused_command
from sayso.cli.audit_list import LIST, list_command
from sayso.cli.audit_retain import retain_command
from sayso.cli.audit_seal import key_command, seal_command
from sayso.cli.audit_verify import told, verify
from sayso.cli.opened import Place, store_argument

FAULTS_FOUND = 1


class _Audit(click.Group):
    """The commands; what is none of them is a filter of what was decided."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [LIST, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Audit, short_help="List, check, seal and export what was decided.")
def audit() -> None:
    """Say who decided what, check that a store is as it was written, and seal it.

    `sayso audit [FILTER] [--verify] [--csv]` is short for `sayso audit list`.

    \b
    Examples:
      sayso audit tool:pay --store pay.db
      sayso audit --verify --csv --store pay.db
      sayso audit verify pay.db
    """  # noqa: D301


for command in (
    export_command,
    key_command,
    list_command,
    refused_command,
    retain_command,
    seal_command,
):
    audit.add_command(command)


@audit.command("verify", short_help="Check that nothing was changed.")
@store_argument()
@click.option(
    "--seals",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Seals that were kept elsewhere, as `sayso audit seal --out` writes them.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="A public key to trust, as `sayso audit key` prints it; else those of the store.",
)
@click.option(
    "--archives",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where archives are by now, if not where they were made.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as one JSON object.")
@click.pass_context
def verify_command(
    ctx: click.Context,
    *,
    store: Place,
    seals: Path | None,
    keys: tuple[str, ...],
    archives: Path | None,
    as_json: bool,
) -> None:
    """Check every journal of the STORE: its hash chain, that its rows say what it says, and every
    seal over it.

    It finds an entry that was edited, deleted or moved within a run. A run that was removed or
    hashed again, and an end that was cut off, are found as far as a seal covers them; whoever can
    write the store can cut its seals as well, and that takes --seals to find. Archives that runs
    have left for are read as well: one that is missing is a fault. An archive can be given in place
    of the STORE, and is then checked by itself.

    Exits with 0 if all is well, 1 if there are faults, 2 if the store cannot be read.

    \b
    Examples:
      sayso audit verify pay.db
      sayso audit verify pay.db --seals pay.seals --key 5f1c...
      sayso audit verify pay.db --json | jq .faults
      sayso audit verify old/sayso-20260816-3f2a91c4.jsonl.gz
    """  # noqa: D301
    if store.path is not None and is_archive(store.path):
        verify_archive(ctx, store.path, as_json=as_json)
        return
    report = asyncio.run(verify(store, seals, keys, archives))
    if as_json:
        click.echo(json.dumps({"ok": report.ok, **msgspec.to_builtins(report)}))
    else:
        for line in told(store, report):
            click.echo(line)
    if not report.ok:
        ctx.exit(FAULTS_FOUND)
