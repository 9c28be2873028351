"""Our SFTP on standard input and output, for `sftp -D`: OpenSSH's client without a gateway in between.

The shells are real ones of this machine, in the folder that is named.
"""

import asyncio
import os
import select
import sys

from portal.gateway.ssh.sftp import Sftp
from portal.gateway.ssh.sftp_files import LOOP, Files
from runtimes.fake import FakeAccess

TASK = "a" * 32


async def main(folder: str, shell: str) -> None:
    access, loop = FakeAccess(tasks=[TASK]), asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def start(argv):
        return await access.exec(TASK, [shell, *argv[1:]], cwd=folder)

    async def send(data):
        await asyncio.to_thread(write, data)

    program = await start(["/bin/sh", "-c", LOOP])
    assert await program.read(1) == b"F"
    await Sftp(Files(program), start, lambda: reader.read(65536), send).run()
    await program.close()


def write(data: bytes) -> None:
    """Our output is our input's socket, which does not wait."""
    while data:
        select.select([], [1], [])
        data = data[os.write(1, data) :]


asyncio.run(main(*sys.argv[1:]))
