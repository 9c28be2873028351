"""Our SFTP on standard input and output, for `sftp -D`: OpenSSH's client without a gateway in between.

The shells are real ones of this machine, in the folder that is named.
"""

import asyncio
import os
import select
import sys

import asyncssh

from portal.gateway.ssh.channel_flow import Flow
from portal.gateway.ssh.task_files import LOOP, TaskFiles
from portal.gateway.ssh.task_sftp import serve_sftp
from tests.fakes.runtime import FakeAccess

TASK = "a" * 32


class Channel:
    """What asyncssh's handler asks of a channel."""

    logger = asyncssh.logger
    is_closing = staticmethod(lambda: False)
    get_extra_info = staticmethod({"client_version": "SSH-2.0-OpenSSH_10.0"}.get)


class StandardStreams(Flow):
    """Standard input and output in a channel's place."""

    chan = Channel

    async def begin(self) -> None:
        self._reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)

    async def receive(self):
        return await self._reader.read(65536)

    async def send(self, data, kind=None):
        await asyncio.to_thread(write, data)


async def main(folder: str, shell: str) -> None:
    access, streams = FakeAccess(tasks=[TASK]), StandardStreams()
    await streams.begin()

    async def start(argv):
        return await access.exec(TASK, [shell, *argv[1:]], cwd=folder)

    program = await start(["/bin/sh", "-c", LOOP])
    assert await program.read(1) == b"F"
    await serve_sftp(streams, TaskFiles(program), start)
    await program.close()


def write(data: bytes) -> None:
    """Our output is our input's socket, which does not wait."""
    while data:
        select.select([], [1], [])
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
