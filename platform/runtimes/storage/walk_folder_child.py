"""Walk a folder with the person's account and hand over each of its files opened, in packets over a socket.

The answer is that socket. A packet is JSON, with the descriptors of its files: {"enter": name}, {"files": names},
{"links": [[name, target]]}, {"left_out": [[name, why]]}, {"leave": true}, at the end {"done": true}. Folders come in
the order of their names, so that equal folders give equal packets. Each packet is answered by one byte, for a window
of WINDOW: descriptors under way count against the account's limit.
"""

import errno
import json
import os
import socket
import stat

from runtimes.storage.file_child import DEEPEST, PART, become_person, build_refusal, receive_request, send_answer
from runtimes.storage.open_beneath import open_beneath

BATCH, WINDOW = 64, 4
LINKS = 4  # in a packet: targets are long
CLOSED, SPECIAL, TOO_DEEP = "closed", "special", "too_deep"
"""Why something is left out."""
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Errors of what was taken away or replaced since it was listed."""


def main() -> None:
    line, request = receive_request()
    try:
        root = become_person(request)
        folder = open_beneath(root, request["args"]["path"], os.O_RDONLY | os.O_DIRECTORY)
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        send_answer(line, build_refusal(error), [])
        os._exit(0)
    send_answer(line, {}, [theirs.fileno()])
    line.close()
    theirs.close()
    try:
        packets = _Packets(ours)
        _walk(packets, folder, DEEPEST)
        packets.send({"done": True})
        packets.wait_for_answers(0)  # the end of a socket with unread answers would look like a failure
    except (OSError, EOFError):
        os._exit(1)  # whoever listened is gone
    os._exit(0)


class _Packets:
    def __init__(self, line: socket.socket):
        self._line, self._unanswered = line, 0

    def send(self, packet: dict, fds: tuple[int, ...] = ()) -> None:
        self.wait_for_answers(WINDOW - 1)
        socket.send_fds(self._line, [json.dumps(packet).encode()], fds)
        self._unanswered += 1

    def wait_for_answers(self, most: int) -> None:
        """Wait until at most so many packets are unanswered. Raises EOFError if whoever listened is gone."""
        while self._unanswered > most:
            if not self._line.recv(1):
                raise EOFError
            self._unanswered -= 1


def _walk(packets: _Packets, folder: int, deepest: int) -> None:
    """Send a folder's files, then its links, what is left out, and the folders in it."""
    files, links, folders, left_out = _sort_entries(folder)
    for start in range(0, len(files), BATCH):
        left_out += _send_files(packets, folder, files[start : start + BATCH])
    for start in range(0, len(links), LINKS):
        packets.send({"links": links[start : start + LINKS]})
    for name in folders:
        if not deepest:
            left_out.append((name, TOO_DEEP))
            continue
        try:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno not in GONE:
                left_out.append((name, CLOSED))
            continue
        packets.send({"enter": name})
        _walk(packets, below, deepest - 1)
        packets.send({"leave": True})
    for start in range(0, len(left_out), BATCH):
        packets.send({"left_out": left_out[start : start + BATCH]})
    os.close(folder)


def _sort_entries(folder: int) -> tuple[list[str], list[tuple[str, str]], list[str], list[tuple[str, str]]]:
    """Return a folder's files, links with their targets, folders, and what is neither; without partial uploads."""
    files, links, folders, others = [], [], [], []
    with os.scandir(folder) as found:
        for one in sorted(found, key=lambda entry: os.fsencode(entry.name)):
            if one.is_symlink():
                try:
                    links.append((one.name, os.readlink(one.name, dir_fd=folder)))
                except OSError:
                    continue  # taken away meanwhile
            elif one.is_dir(follow_symlinks=False):
                folders.append(one.name)
            elif not one.is_file(follow_symlinks=False):
                others.append((one.name, SPECIAL))
            elif not one.name.startswith(PART):
                files.append(one.name)
    return files, links, folders, others


def _send_files(packets: _Packets, folder: int, names: list[str]) -> list[tuple[str, str]]:
    """Send files that can be opened; return those that cannot."""
    opened: list[tuple[str, int]] = []
    left_out = []
    for name in names:
        try:  # O_NONBLOCK: a pipe without writer would block
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno not in GONE:
                left_out.append((name, CLOSED))
            continue
        if stat.S_ISREG(os.fstat(fd).st_mode):
            opened.append((name, fd))
        else:
            left_out.append((name, SPECIAL))
            os.close(fd)
    if opened:
        packets.send({"files": [name for name, _ in opened]}, tuple(fd for _, fd in opened))
        for _, fd in opened:
            os.close(fd)
    return left_out
