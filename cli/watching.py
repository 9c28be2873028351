"""Looking again and again: `--watch`."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from cli.failures import INTERRUPTED, Failure, Unreachable
from cli.following import Trouble
from cli.session import Session

WATCH_S = 2.0
"""Between two looks."""

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")]


def look_on(session: Session, look: Callable[[], bool | None], watch: bool) -> None:
    """Look once; with `watch` until `look` says that all is over (returns True) or Ctrl-C, which is exit code 130.

    What was shown is replaced where it changed. A platform that is away is borne for a while.
    """
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
