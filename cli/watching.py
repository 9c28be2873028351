"""The `--watch` option."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from cli.failures import INTERRUPTED, Failure, Unreachable
from cli.following import Trouble
from cli.session import Session

WATCH_S = 2.0
"""Pause between two polls."""

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")]


def look_on(session: Session, look: Callable[[], bool | None], watch: bool) -> None:
    """Call `look` once, or until True or Ctrl-C."""
    if not watch:
        look()
        return
    session.watching, trouble = True, Trouble(session)
    try:
        while True:
            try:
                if look():
                    return
                trouble.over()
            except Unreachable as gone:
                trouble.again(gone)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        raise Failure(INTERRUPTED) from None
