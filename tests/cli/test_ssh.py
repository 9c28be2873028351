"""What `tessera ssh` and its like say before any connection is made. The connections: tests/portal/ssh."""

import pytest


@pytest.mark.parametrize("command", ["ssh explore", "exec explore -- ls", "cp a explore:", "ssh-config"])
def test_where_ssh_is_switched_off_it_says_so_and_what_else_there_is(tessera, server, command):
    server.on("GET /version", (200, {"version": "0.1.0", "api": "1", "ssh": None}))
    done = tessera(*command.split())
    assert done.exit_code == 6
    assert done.stderr == f"SSH is switched off on {server.url}. Use the terminal of its pages instead.\n"
