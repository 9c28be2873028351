import socket

import pytest


def test_a_test_cannot_leave_this_machine():
    with socket.socket() as sock, pytest.raises(AssertionError, match="this machine only"):
        sock.connect(("192.0.2.1", 80))
