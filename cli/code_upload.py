"""Job files as they are on this machine, and the code that they name."""

import sys
from pathlib import Path

from cli import job_file_editor
from cli.failures import USAGE, Failure, Refused
from cli.http.transport import Client
from cli.pack import PackError, pack
from cli.session import Session


def read_job_file(file: str) -> str:
    """Return the text of a job file; "-" reads standard input. Raises Failure."""
    return job_file_editor.read_text(_read_bytes(file), file)


def is_code_here(text: str) -> bool:
    """Whether the file's code is a directory of this machine."""
    code = job_file_editor.read_key(text, "code")
    return code is not None and (code == "." or code.startswith(("./", "../")))


def upload_code_of(session: Session, client: Client, text: str, file: str) -> str:
    """Upload the code that a job file names by its directory; return the file with its digest instead."""
    if not is_code_here(text):
        return text
    top = Path.cwd() if file == "-" else Path(file).parent
    code = job_file_editor.read_key(text, "code") or "."
    return job_file_editor.change(text, [("code", upload_code(session, client, top / code))])


def upload_code(session: Session, client: Client, directory: Path) -> str:
    """Upload a directory if it is new; return its digest."""
    try:
        packed = pack(directory)
    except PackError as error:
        raise Failure(USAGE, f"code: {error}") from None
    if packed.left_out:
        session.print_note(f"Left out of the code, since only files can be sent: {', '.join(packed.left_out[:5])}")
    size = f"{packed.files} files, {max(len(packed.data) >> 10, 1):,} KiB"
    try:
        client.get(f"/code/{packed.digest}")
        session.print_note(f"code: {size}, already there.")
    except Refused as refused:
        if refused.status != 404:
            raise
        client.send_body("/code", packed.data, "application/gzip")
        session.print_note(f"code: {size} sent.")
    return packed.digest


def _read_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Failure(USAGE, f"{file} cannot be read ({error.strerror}).") from None
