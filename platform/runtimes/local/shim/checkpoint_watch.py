"""Report the newest change in a job's checkpoint directory, as JSON lines {"at": seconds}.

A process with the job's view and rights: a hanging directory delays nobody, and a last check works after the job.
"""

import json
import select
import socket
import time

from runtimes.local.isolation import die_with_parent, drop_to, enter_view
from runtimes.storage.newest_change import newest_change


def main(folder: str, uid: str, gid: str, every_s: str) -> None:
    """Report changes until stdin, a socket, ends, then check once more. Its first byte brings the job's namespaces.

    uid, gid: the job's, or "".
    """
    die_with_parent()
    channel = socket.socket(fileno=0)
    begun, namespaces, _, _ = socket.recv_fds(channel, 1, 2)
    if not begun:
        return
    if namespaces:
        enter_view(*namespaces)
    drop_to(*(int(number) if number else None for number in (uid, gid)))
    die_with_parent()  # cleared by changing the account
    told, over = 0.0, False
    while not over:
        over = bool(select.select([channel], [], [], float(every_s))[0])
        newest = min(newest_change(folder), time.time())
        if newest > told:
            told = newest
            print(json.dumps({"at": newest}), flush=True)
