"""SFTP where a task has no sftp-server: OpenSSH's own client against ours, on the shells that images have."""

import os
import shutil
import struct
import subprocess
import sys

import pytest
from asyncssh import SFTPServer

from portal.gateway.ssh.task_sftp import MOST_OPEN, Stream, TaskFileServer
from tests.sftp_bridge import Channel
from tests.ssh_gateway import MIB, ROOT

pytestmark = pytest.mark.skipif(not shutil.which("sftp"), reason="needs the OpenSSH client")
SHELLS = [shell for shell in ("/bin/dash", "/bin/bash", "/bin/busybox-sh") if shutil.which(shell)] or ["/bin/sh"]


@pytest.fixture(params=SHELLS)
def sftp(request, tmp_path):
    """Runs these lines of a batch. There: the folder of the other side, here: this side's."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    server = f"{sys.executable} -m tests.sftp_bridge {tmp_path}/there {request.param}"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/platform", "DJANGO_SETTINGS_MODULE": "config.settings"}

    def run(*lines: str) -> subprocess.CompletedProcess:
        command = ["sftp", "-q", "-b", "-", "-D", server]
        text = "\n".join(lines) + "\n"
        where = {"cwd": tmp_path / "here", "env": environment}
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, **where)

    run.here, run.there = tmp_path / "here", tmp_path / "there"  # type: ignore[attr-defined]
    return run


STRANGE = "two words, 'quotes' \"both\" $HOME `id` *\\ ä"


def test_files_go_there_and_back_whole(sftp):
    content = os.urandom(3 * MIB + 7)
    (sftp.here / "a").write_bytes(content)
    (sftp.here / "empty").touch()
    done = sftp("put a", "put empty", "get a b", "get empty nothing")
    assert done.returncode == 0, done.stderr
    assert (sftp.there / "a").read_bytes() == content == (sftp.here / "b").read_bytes()
    assert (sftp.here / "nothing").read_bytes() == b""


def test_a_tree_with_strange_names_its_modes_and_times_goes_both_ways(sftp):
    tree = sftp.here / "tree"
    (tree / "in ner").mkdir(parents=True)
    for number, name in enumerate(("plain", STRANGE, ".hidden", "-n")):
        (tree / "in ner" / name).write_text(name)
        (tree / "in ner" / name).chmod(0o600 + number)
        os.utime(tree / "in ner" / name, (10**9, 10**9 + number))
    done = sftp("put -pR tree", "get -pR tree back")
    assert done.returncode == 0, done.stderr
    for side in (sftp.there / "tree", sftp.here / "back"):
        found = {path.name: path for path in (side / "in ner").iterdir()}
        assert set(found) == {"plain", STRANGE, ".hidden", "-n"}
        for number, name in enumerate(("plain", STRANGE, ".hidden", "-n")):
            told = found[name].stat()
            assert found[name].read_text() == name
            assert (told.st_mode & 0o777, told.st_mtime) == (0o600 + number, 10**9 + number)


def test_folders_links_and_names_are_made_changed_and_removed(sftp):
    (sftp.there / "old").write_text("x")
    done = sftp(
        "mkdir folder", "ls -la folder", "rename old folder/new", "symlink new folder/link", "chmod 640 folder/new",
        "ls -l folder", "pwd", "mkdir gone", "rmdir gone", "rm folder/link",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "-rw-r-----" in done.stdout and "folder/link" in done.stdout and str(sftp.there) in done.stdout
    assert [path.name for path in (sftp.there / "folder").iterdir()] == ["new"] and not (sftp.there / "gone").exists()


def test_a_cut_transfer_is_taken_up_again_in_both_directions(sftp):
    content = os.urandom(MIB)
    (sftp.here / "up").write_bytes(content)
    (sftp.there / "up").write_bytes(content[:300_001])
    (sftp.there / "down").write_bytes(content)
    (sftp.here / "down").write_bytes(content[:200_003])
    done = sftp("reput up", "reget down")
    assert done.returncode == 0, done.stderr
    assert (sftp.there / "up").read_bytes() == content == (sftp.here / "down").read_bytes()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("get missing", "not found"),
        ("cd missing", "No such file"),
        ("rm missing", "No such file"),
        ("mkdir full", "Failure"),
        ("rmdir full", "Failure"),
        ("put here missing/there", "No such file"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(sftp, line, words):
    (sftp.here / "here").write_text("x")
    (sftp.there / "full").mkdir()
    (sftp.there / "full/kept").write_text("kept")
    done = sftp(line)
    assert done.returncode == 1 and words.lower() in done.stderr.lower(), done.stderr
    assert (sftp.there / "full/kept").read_text() == "kept"


INIT = b"\0\0\0\x05\x01\0\0\0\x03"
VERSION = b"\0\0\0\x26\x02\0\0\0\x03" + b"\0\0\0\x18posix-rename@openssh.com" + b"\0\0\0\x011"


def ask(folder, sent: bytes) -> bytes:
    command = [sys.executable, "-m", "tests.sftp_bridge", str(folder), "/bin/sh"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/platform"}
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60, env=environment)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done
    return done.stdout


def string(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def packet(kind: int, number: int, *fields: bytes) -> bytes:
    return string(struct.pack(">BI", kind, number) + b"".join(fields))


def codes(answers: bytes) -> dict[int, int]:
    """The code that each request was answered with, by its number. A handle has none."""
    found = {}
    while answers:
        size, kind, number, code = struct.unpack_from(">IBII", answers)
        answers = answers[4 + size :]
        if kind == 101:
            found[number] = code
    return found


def test_nonsense_of_a_client_ends_it_or_is_answered(tmp_path):
    """A length without end, a question that is cut, a handle that is none."""
    assert ask(tmp_path, b"\xff\xff\xff\xff") == b""
    assert ask(tmp_path, INIT + b"\xff\xff\xff\xff") == VERSION
    cut, strange = packet(5, 9, b"\0\0"), packet(4, 10, string(b"none"))
    answers = ask(tmp_path, INIT + cut + strange)
    assert codes(answers.removeprefix(VERSION)) == {9: 5, 10: 4}


def test_what_is_not_served_is_refused_and_not_offered(tmp_path):
    """asyncssh serves more by itself, of this machine's files."""
    path = string(str(tmp_path).encode())
    extended = [b"statvfs@openssh.com", b"hardlink@openssh.com", b"lsetstat@openssh.com", b"copy-data"]
    asked = [packet(200, 1 + number, string(name), path, path) for number, name in enumerate(extended)]
    asked += [packet(21, 9, string(f"{tmp_path}/link".encode()), path, b"\0")]
    answers = ask(tmp_path, INIT + b"".join(asked))
    assert answers.startswith(VERSION)
    assert codes(answers.removeprefix(VERSION)) == dict.fromkeys((1, 2, 3, 4, 9), 8)
    assert not any(tmp_path.iterdir())


def test_no_inherited_operation_reaches_files_of_the_platform():
    """A later asyncssh may bring new ones: each goes by map_path, or by a file that it opened itself."""
    by_path = {"open56", "lsetstat", "link", "statvfs"}
    by_file = {"fstatvfs", "fsync", "lock", "unlock"}
    others = {"channel", "connection", "env", "logger", "convert_attrs", "format_longname", "reverse_map_path", "exit"}
    inherited = {name for name in vars(SFTPServer) if not name.startswith("_")} - set(vars(TaskFileServer))
    assert inherited == by_path | by_file | others


def test_no_more_than_so_many_folders_are_open(tmp_path):
    path = string(str(tmp_path).encode())
    answers = ask(tmp_path, INIT + b"".join(packet(11, number, path) for number in range(1, MOST_OPEN + 2)))
    assert codes(answers.removeprefix(VERSION)) == {MOST_OPEN + 1: 4}
    opened_and_closed = [
        packet(11, 1, path) + packet(4, 2, string(struct.pack(">I", handle))) for handle in range(MOST_OPEN + 1)
    ]
    assert codes(ask(tmp_path, INIT + b"".join(opened_and_closed)).removeprefix(VERSION))[2] == 0


class Recorder:
    """A channel that sends one question for ever."""

    chan = Channel

    def __init__(self):
        self.happened = []

    async def send(self, data):
        self.happened.append(data)

    async def receive(self):
        self.happened.append("received")
        return b"question"


async def test_a_client_that_reads_no_answers_is_not_read_either():
    stream = Stream(recorder := Recorder())
    stream.write(b"an")
    stream.write(b"swer")
    assert await stream.readexactly(4) == b"ques" and recorder.happened == [b"answer", "received"]
    assert await stream.readexactly(4) == b"tion" and recorder.happened == [b"answer", "received"]
