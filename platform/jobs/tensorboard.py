"""TensorBoard beside a running job, when somebody first asks for it: a program inside the task, so that its account,
its limits and its end are the task's. One that listens already is used again."""

import asyncio
import re

from common.errors import Unavailable
from runtimes.base import Access

TOOLS = "TESSERA_TOOLS"
"""The variable in which a task finds the environment that TensorBoard and JupyterLab run from."""
WAIT_S, LOOK_S = 20.0, 0.2
LAST_WORDS = 300

# Away from the session that started it, so that it outlives that; its last words are kept for the one who waits.
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
    """Returns when TensorBoard answers at `port` of the task, started now if nothing did.

    task: uuid in hex. directory: what the job file says under `tensorboard`. port: task.ports["6006"].
    Raises common.errors.Unavailable (tensorboard_failed, with its last words), and what `Access` raises.
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
    """(exit code, what it said last)."""
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
    """One line that can be shown."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in words)).strip()[-LAST_WORDS:] or "-"
