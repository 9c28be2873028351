import os
import subprocess
import sys

from tests import quiet_chromium
from tests.quiet_chromium import BROWSER, SOCKET

TRY = """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError as error:
    print(error.strerror)
"""


def test_what_it_runs_hears_nothing_of_the_network():
    assert os.uname().machine in SOCKET
    env = {**os.environ, BROWSER: sys.executable}
    done = subprocess.run([quiet_chromium.__file__, "-c", TRY], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "Address family not supported by protocol\n"
