"""The file in which a task reports numbers, and the two tools that write it.

A task may write whatever it likes, and locally put something else in the file's place: it is opened below a folder of
the platform's, and only as a file.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from runtimes.contract.errors import Unavailable
from runtimes.storage.open_beneath import open_beneath

REPORT = "TESSERA_REPORT"
"""The variable with the file's path."""
FILE = "report.jsonl"
TOOLS = "tools"
"""The folder of the tools in a task: the last in PATH and PYTHONPATH."""
TOOL_NAMES = ("tessera-report", "tessera_report.py")


@cache
def read_tools() -> Mapping[str, str]:
    """Return {name: text} of the tools, read once."""
    folder = Path(__file__).parent / "report_tools"
    return {name: (folder / name).read_text() for name in TOOL_NAMES}


def add_tools(env: Mapping[str, str], seen_at: str) -> dict[str, str]:
    """Return the variables with our tools last in PATH and PYTHONPATH: a task's own of that name come first."""
    tools = os.path.join(seen_at, TOOLS)
    return {**env, **{name: ":".join(filter(None, (env.get(name), tools))) for name in ("PATH", "PYTHONPATH")}}


def make_report_file(path: str | os.PathLike) -> None:
    """Make the file, unless it is there. Raises OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def open_report_file(folder: str | os.PathLike, name: str) -> int | None:
    """Return a descriptor of a file below a folder of the platform's, None where there is none. Raises Unavailable."""
    try:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"The numbers of a task cannot be read: {error}") from error
    try:
        fd = open_beneath(root, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE):
            raise Unavailable(f"The numbers of a task cannot be read: {error}") from error
        return None  # removed, or something else in its place
    finally:
        os.close(root)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def remove_report_file(path: str | os.PathLike) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
