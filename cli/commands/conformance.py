"""`attnroof conformance`: how an SGLang package differs from the tables that this version ships."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo
from cli.options import JsonOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from costmodel.sglang.conformance import Conformance


def conformance(
    package: Annotated[str, typer.Argument(help="An sglang wheel, or a folder into which one was unpacked.")],
    as_json: JsonOption = False,
) -> None:
    """Name every backend, dtype, alias and model default that came, went or changed; nothing is imported."""
    from costmodel.sglang.conformance import check_conformance

    result = check_conformance(package)
    if as_json:
        write_json(conformance_json(result))
    else:
        print_conformance(result)
    if result.differences:
        raise AnswerIsNo(
            f"{len(result.differences)} names differ between SGLang {result.package_version or 'unknown'} "
            f"and the tables for {result.tables_version}"
        )


def conformance_json(result: "Conformance") -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "package_version": result.package_version,
        "tables_version": result.tables_version,
        "compared": list(result.compared),
        "missing": list(result.missing),
        "differences": [
            {"where": d.where, "name": d.name, "kind": d.kind, "detail": d.detail} for d in result.differences
        ],
    }


def print_conformance(result: "Conformance") -> None:
    """Print what differs, and which lists could not be read."""
    from rich.table import Table

    console = stdout_console()
    console.print(
        f"package {result.package_version or 'of unknown version'}, tables for SGLang {result.tables_version}: "
        f"{len(result.compared)} lists compared, {len(result.differences)} differences",
        markup=False,
    )
    if result.differences:
        table = Table()
        for column in ("list", "name", "", "detail"):
            table.add_column(column, overflow="fold")
        for d in result.differences:
            table.add_row(d.where, d.name, d.kind, d.detail)
        print_table(table)
    for where in result.missing:
        console.print(f"not found in the package: {where}", markup=False)
