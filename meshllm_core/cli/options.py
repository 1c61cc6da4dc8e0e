"""Options that several commands share, with one wording."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Console = Annotated[
    str,
    typer.Option(
        "--console",
        metavar="PORT|URL",
        help="Management API to talk to, if not that of this user's running node.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file to use.")
]
