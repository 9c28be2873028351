"""What of a session in a pod needs no cluster: its marked outputs, and what an end means."""

import asyncio
import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest
from aiohttp import WSMsgType

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.access import sessions
from runtimes.kubernetes.access.port_forward import build_refusal
from runtimes.kubernetes.access.sessions import SESSION, SIGKILLED, OutputBuffer, parse_exit_code, parse_status

MARK = b"\x1e0123abcd\x1e"


async def read(*sent: bytes) -> tuple[bytes, bool]:
    pieces = OutputBuffer(MARK)
    for data in sent:
        await pieces.put(data)
    pieces.end()
    text = b""
    while data := await pieces.take(3):
        text += data
    return text, pieces.marked


@pytest.mark.parametrize("at", range(len(MARK) + 3))
async def test_the_mark_is_no_output_wherever_it_is_cut(at):
    told = b"ab" + MARK + b"later"
    assert await read(told[:at], told[at:]) == (b"ablater", True)


@pytest.mark.parametrize("text", [b"", b"\x1e", b"a\x1e0123", b"\x1e0123abcX\x1e", b"\x1e\x1e\x1e0123"])
async def test_what_only_begins_like_it_is_output(text):
    assert await read(text) == (text, False)
    assert await read(text, MARK) == (text, True)


def failure(code: str) -> bytes:
    cause = {"reason": "ExitCode", "message": code}
    return json.dumps({"status": "Failure", "details": {"causes": [cause]}}).encode()


def test_an_exit_code_is_told_and_a_signal_is_negative():
    assert (parse_status(b'{"status": "Success"}'), parse_status(failure("7")), parse_status(failure("137"))) == (
        0,
        7,
        -9,
    )
    assert (parse_exit_code(255), parse_exit_code(143), parse_exit_code(128)) == (255, -15, 128)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"status": "Failure"}', failure("x")])
def test_an_end_that_tells_nothing_is_a_kill(data):
    assert parse_status(data) == SIGKILLED


class Scripted:
    """A websocket that says this after a while, and is closed then."""

    def __init__(self, said: bytes = b"", after_s: float = 0.0):
        self.said, self.after_s = said, after_s

    async def receive(self) -> SimpleNamespace:
        await asyncio.sleep(self.after_s)
        said, self.said = self.said, b""
        return SimpleNamespace(type=WSMsgType.BINARY if said else WSMsgType.CLOSED, data=said)

    async def send_bytes(self, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


async def begin(holder: Scripted) -> None:
    session = sessions.PodSession(Scripted(), holder, Scripted(), None, MARK)
    try:
        await session.begin()
    finally:
        await session.close()


async def test_why_a_program_did_not_begin_may_come_after_its_end():
    with pytest.raises(Rejected, match="there is no such program"):
        await begin(Scripted(b"\x01failed x: there is no such program\n", after_s=0.1))


async def test_a_holder_that_says_nothing_is_waited_for_only_a_while(monkeypatch):
    monkeypatch.setattr(sessions, "LATE_S", 0.1)
    with pytest.raises(Unavailable, match="connection broke"):
        await begin(Scripted(b"late", after_s=20))


@pytest.mark.parametrize("attempt", range(10))
def test_a_signal_in_the_moment_of_the_start_ends_the_program(tmp_path, attempt):
    """Sent with no way between, as soon as it is told that the program started. Before, every other one was lost."""
    door, end = tmp_path / "door", tmp_path / "door.end"
    os.mkfifo(door)
    os.mkfifo(end)
    command = ["sh", "-c", SESSION, "tessera", str(door), "", "--", "sleep", "20"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as session:
        with door.open() as told:
            word, group, *_ = told.readline().split()
            os.killpg(int(group), signal.SIGTERM)
            assert (word, told.readline()) == ("started", f"exit {128 + signal.SIGTERM}\n")
        end.open("w").close()
    assert session.returncode == 128 + signal.SIGTERM


def test_a_program_whose_holder_was_killed_is_waited_for_by_nobody(tmp_path):
    """The pipe by which it would be let go is still there, and nobody will ever write to it."""
    door = tmp_path / "door"
    os.mkfifo(door)
    os.mkfifo(tmp_path / "door.end")
    command = ["sh", "-c", SESSION, "tessera", str(door), "", "--", "true"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as session:
        door.open().close()
        try:
            assert session.wait(10) in (0, 127, 128 + signal.SIGPIPE)  # whether it began or not
        finally:
            session.kill()


def test_only_who_is_refused_is_not_listening():
    assert isinstance(build_refusal(b"dial tcp4 127.0.0.1:9: connect: connection refused"), ConnectionRefusedError)
    assert isinstance(build_refusal(b"no such sandbox"), Unavailable)
