"""Start TensorBoard inside a running task, under its account and limits."""

import asyncio
import re

from common.errors import Unavailable
from runtimes.contract.access import Access

TOOLS = "TESSERA_TOOLS"
"""The variable with the path of the environment of TensorBoard and JupyterLab."""
WAIT_S, LOOK_S = 20.0, 0.2
LAST_WORDS = 300

# In its own session, to outlive the exec session.
SCRIPT = """
python=$TESSERA_TOOLS/bin/python
[ -n "$TESSERA_TOOLS" ] || python=$(command -v python3)
"$python" -s -c 'import importlib.util as u; raise SystemExit(not u.find_spec("tensorboard"))' || {
  echo "TensorBoard is not prepared here yet, or the image does not bring it." >&2
  exit 3
}
case $1 in '~/'*) set -- "$HOME/${1#??}" "$2" ;; esac
setsid nohup "$python" -s -m tensorboard.main --logdir "$1" --host 127.0.0.1 --port "$2" \
  --load_fast=false --reload_interval 5 </dev/null >"$TMPDIR/tensorboard.log" 2>&1 &
"""
TOLD = 'tail -c 300 "$TMPDIR/tensorboard.log" 2>/dev/null; true'


async def ensure_tensorboard(access: Access, task: str, directory: str, port: int) -> None:
    """Wait until TensorBoard answers in the task; start it if nothing listens.

    task: uuid in hex. port: task.ports["6006"]. Raises Unavailable, and what `Access` raises.
    """
    if await _listens(access, task, port):
        return
    status, words = await _run(access, task, ["/bin/sh", "-c", SCRIPT, "tensorboard", directory, str(port)])
    if status:
        raise Unavailable("tensorboard_failed", words=_short(words))
    for _ in range(round(WAIT_S / LOOK_S)):
        if await _listens(access, task, port):
            return
        await asyncio.sleep(LOOK_S)
    _, words = await _run(access, task, ["/bin/sh", "-c", TOLD])
    raise Unavailable("tensorboard_failed", words=_short(words))


async def _listens(access: Access, task: str, port: int) -> bool:
    try:
        sock = await access.dial(task, port)
    except ConnectionRefusedError:
        return False
    sock.close()
    return True


async def _run(access: Access, task: str, argv: list[str]) -> tuple[int, str]:
    """Return (exit code, last output)."""
    session = await access.exec(task, argv)
    try:
        said, wrong = await asyncio.gather(_all_of(session.read), _all_of(session.read_error))
        return await session.wait(), (wrong or said).decode(errors="replace")
    finally:
        await session.close()


async def _all_of(read) -> bytes:
    kept = b""
    while piece := await read():
        kept = (kept + piece)[-4096:]
    return kept


def _short(words: str) -> str:
    """Return the end of the output as one line."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in words)).strip()[-LAST_WORDS:] or "-"
