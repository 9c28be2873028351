"""One daemon of MPS for a card, on a double of NVIDIA's program: its start, its faults, and what it never does."""

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from agent.gpu import mps_daemon
from agent.gpu.mps_daemon import Daemon, NoMps
from tests.agent_slice import CARDS
from tests.mps_double import DoubledMps


@pytest.fixture
def room():
    """A short path, for a socket's is short, that all accounts may pass."""
    with tempfile.TemporaryDirectory(prefix="mps-") as path:
        os.chmod(path, 0o755)
        yield Path(path)


@pytest.fixture
def double(room):
    return DoubledMps(room / "bin")


@pytest.fixture
def daemon(double, room, monkeypatch):
    monkeypatch.setattr(mps_daemon, "ANSWER_S", 20.0)
    made = Daemon(CARDS[0], room / "mps" / CARDS[0], True, double.program)
    yield made
    made.end([])


def pids(daemon) -> set[int]:
    return set(daemon._processes())


def come(daemon, uid: int = 0) -> socket.socket:
    """A program of this account, as the doubled driver speaks: it stays as long as its socket."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(60)
    os.seteuid(uid)
    try:
        line.connect(str(daemon.pipe / "control"))
    finally:
        os.seteuid(0)
    line.sendall(b"client 50 0=16255M\n")
    return line


def test_it_is_started_once_and_serves_programs(daemon):
    daemon.ensure([])
    first = pids(daemon)
    daemon.ensure([])
    assert len(first) == 1 and pids(daemon) == first and daemon.servers() == []
    with come(daemon) as line:
        assert line.recv(3) == b"ok\n"
        assert len(daemon.servers()) == 1 and set(daemon.servers()) < pids(daemon)


def test_a_daemon_that_died_is_started_anew(daemon):
    daemon.ensure([])
    (first,) = pids(daemon)
    os.kill(first, signal.SIGKILL)
    daemon.ensure([])
    assert len(pids(daemon)) == 1 and first not in pids(daemon)


@pytest.mark.parametrize(("how", "words"), [("stuck", "did not answer in 0.5 s"), ("fault", "had a fault")])
def test_one_that_is_ill_is_left_alone_while_work_is_on_it_and_its_names_are_told(
    daemon, double, how, words, monkeypatch
):
    daemon.ensure([])
    with come(daemon) as line:
        line.recv(3)
        before = pids(daemon)
        double.behave(how)
        if how == "stuck":
            monkeypatch.setattr(mps_daemon, "ANSWER_S", 0.5)
        with pytest.raises(NoMps, match=f"{words}.*has ended: job-4, job-7"):
            daemon.ensure(["job-4", "job-7"])
        assert pids(daemon) == before
    double.behave("")


def test_a_stuck_one_goes_when_nobody_is_left_and_another_comes(daemon, double, caplog, monkeypatch):
    daemon.ensure([])
    before = pids(daemon)
    double.behave("stuck")
    monkeypatch.setattr(mps_daemon, "ANSWER_S", 0.5)
    with pytest.raises(NoMps, match="was started and did not answer"):
        daemon.ensure([])  # the new one is as ill
    assert pids(daemon) == set() and "is started anew" in caplog.text
    double.behave("")
    monkeypatch.setattr(mps_daemon, "ANSWER_S", 20.0)
    daemon.ensure([])
    assert pids(daemon) and not pids(daemon) & before


def test_one_that_was_killed_under_its_programs_is_not_replaced_before_they_ended(daemon):
    """Its server may live on and serve them; those that come meanwhile share the card in turns."""
    daemon.ensure([])
    with come(daemon) as line:
        line.recv(3)
        (server,) = daemon.servers()
        for pid in pids(daemon) - {server}:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(NoMps, match=r"does not answer: Cannot find MPS control daemon.*job-4"):
            daemon.ensure(["job-4"])
        assert pids(daemon) == {server}
    daemon.ensure([])
    assert server not in pids(daemon)


def test_what_cannot_be_started_is_told_with_its_own_words(daemon, double):
    double.behave("crash")
    with pytest.raises(NoMps, match=r"cannot be started for several users.*cannot be started"):
        daemon.ensure([])
    double.behave("single")
    with pytest.raises(NoMps, match="Unrecognized option -M"):
        daemon.ensure([])


def test_two_daemons_do_not_meet(daemon, double, room):
    other = Daemon(CARDS[1], room / "mps" / CARDS[1], True, double.program)
    daemon.ensure([])
    other.ensure([])
    assert not pids(daemon) & pids(other)
    other.end([])
    assert pids(daemon) and not pids(other) and not other.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
def test_several_users_are_served_at_once_and_without_that_one_waits(daemon, double, room):
    daemon.ensure([])
    with come(daemon, 1001) as first, come(daemon, 1002) as second:
        assert first.recv(3) == second.recv(3) == b"ok\n"
    alone = Daemon(CARDS[1], room / "mps" / CARDS[1], False, double.program)
    alone.ensure([])
    with come(alone, 1001) as first:
        assert first.recv(3) == b"ok\n"  # before another comes, who would else be served first now and then
        with come(alone, 1002) as second:
            second.settimeout(0.3)
            with pytest.raises(TimeoutError):
                second.recv(3)
    alone.end([])


def test_nothing_is_ended_that_somebody_uses(daemon):
    daemon.ensure([])
    with pytest.raises(NoMps, match=r"ends when.*job-4"):
        daemon.end(["job-4"])
    assert pids(daemon)


def test_a_place_that_is_too_long_for_a_socket_is_refused(double, room):
    with pytest.raises(NoMps, match="too long"):
        Daemon(CARDS[0], room / ("x" * 100), True, double.program).ensure([])


def test_a_program_gets_its_slices_share_and_limit():
    assert mps_daemon.build_client_env("/p", 16255, 50) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/p",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=16255M",
    }
