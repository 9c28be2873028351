"""Says when something in a job's checkpoint directory changed last: one JSON object per line, {"at": seconds}.

A process of its own beside the shim, with the job's view of the files and the job's rights. So a directory that does
not answer holds up nobody else, and there is one more look when the job is gone and its namespace with it.
"""

import json
import select
import socket
import time

from runtimes.local.isolation import die_with_parent, drop_to, enter_view
from runtimes.newest import newest_change


def main(folder: str, uid: str, gid: str, every_s: str) -> None:
    """uid, gid: the job's, "" for the platform's. Stdin is a socket: a byte on it means that the job's view stands, and
    brings descriptors of its mount and user namespaces where it has such; when it ends, this looks once more and ends.
    """
    die_with_parent()
    channel = socket.socket(fileno=0)
    begun, namespaces, _, _ = socket.recv_fds(channel, 1, 2)
    if not begun:
        return
    if namespaces:
        enter_view(*namespaces)
    drop_to(*(int(number) if number else None for number in (uid, gid)))
    die_with_parent()  # changing the account switched it off
    told, over = 0.0, False
    while not over:
        over = bool(select.select([channel], [], [], float(every_s))[0])
        newest = min(newest_change(folder), time.time())
        if newest > told:
            told = newest
            print(json.dumps({"at": newest}), flush=True)
