"""The SSH gateway as people meet it: the real web process, a real running task, and OpenSSH's own client."""

import hashlib
import os
import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.utils import timezone

from accounts.directory import suspend_person
from accounts.models import SshKey, User
from accounts.ssh_keys import remove_ssh_key
from events.models import Event
from jobs.states import TaskState
from tests import make
from tests.runtimes.worlds import wait_for
from tests.ssh_gateway import MIB, client, forwarding, free_port, ssh

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_command_runs_in_the_task_with_its_output_errors_and_exit_code(world):
    done = ssh(world, "echo out; echo err >&2; echo $TESSERA_TASK_UUID; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(b"out\n") and done.stderr == b"err\n"


def test_standard_input_goes_in_to_its_end(world):
    sent = os.urandom(8 * MIB)
    done = ssh(world, "sha256sum; cat >/dev/null", input=sent)
    assert done.stdout.split()[0].decode() == hashlib.sha256(sent).hexdigest(), done.stderr


def test_a_large_output_comes_whole(world):
    done = ssh(world, f"head -c {64 * MIB} /dev/zero")
    assert (len(done.stdout), done.returncode) == (64 * MIB, 0)


def test_a_terminal_has_its_size_and_only_safe_variables(world):
    environment = {**os.environ, "TERM": "xterm-256color", "LC_TEST": "kept", "LD_PRELOAD_X": "gone"}
    done = ssh(world, "-tt", "-o", "SendEnv=LC_* LD_PRELOAD_X", "stty size; echo $TERM,$LC_TEST,$LD_PRELOAD_X",
               env=environment)  # fmt: skip
    assert b"24 80" in done.stdout and b"xterm-256color,kept,\r\n" in done.stdout, done.stdout


def test_an_unknown_key_is_refused(world):
    SshKey.objects.filter(user=world.cast.ada).delete()
    done = ssh(world, "true")
    assert done.returncode == 255 and b"Permission denied (publickey" in done.stderr


def test_a_person_with_an_unknown_key_is_told_where_to_add_it(world):
    SshKey.objects.filter(user=world.cast.ada).delete()
    done = ssh(world, "true", batch="no")
    assert done.returncode == 255 and b"None of your keys is known here" in done.stderr


def test_an_expired_key_is_refused_and_says_so(world):
    SshKey.objects.filter(user=world.cast.ada).update(expires_at=timezone.now())
    done = ssh(world, "true", batch="no")
    assert done.returncode == 255 and b"Your key has expired. Add a key: http" in done.stderr, done.stderr
    assert b"known here" not in done.stderr


@pytest.mark.parametrize("name", ["", "job-999999", "nobody", "job-1.main.0"])
def test_a_task_of_another_team_is_there_for_nobody_and_is_told_in_one_line(world, name):
    done = ssh(world, "true", who="eve", name=name or world.name)
    assert (done.returncode, done.stdout) == (255, b"")
    assert done.stderr.startswith(b"tessera: ") and done.stderr.count(b"\n") == 1, done.stderr


def test_a_task_that_has_ended_says_so(world):
    make.move(world.task, TaskState.STOPPING, "stopped_by_user")
    done = ssh(world, "true")
    assert done.returncode == 255 and b"is not running" in done.stderr


def test_a_session_is_in_the_history(world):
    ssh(world, "true")
    wait_for(lambda: Event.objects.filter(verb="left").exists())
    entered, left = Event.objects.filter(verb__in=("entered", "left")).order_by("pk")
    assert (entered.actor, entered.params["kind"], left.verb) == ("ada", "ssh", "left") and "seconds" in left.params


@pytest.mark.slow
def test_fifty_sessions_at_once(world):
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", "cat"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ExitStack() as opened:
        sessions = [opened.enter_context(client(command, **pipes)) for _ in range(50)]
        for number, session in enumerate(sessions):
            session.stdin.write(b"%d\n" % number)
            session.stdin.flush()
        assert [session.stdout.readline() for session in sessions] == [b"%d\n" % number for number in range(50)]
        assert [session.communicate(timeout=60) and session.returncode for session in sessions] == [0] * 50


def test_a_killed_web_process_ends_the_connection_and_the_next_has_the_same_host_key(world):
    gateway, before = world.gateway, world.gateway.key_file.read_bytes()
    command = ["ssh", *gateway.options(), "-l", world.name, "127.0.0.1", "echo in; sleep 100"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert session.stdout.readline() == b"in\n"
    gateway.web.kill()
    assert session.wait(20) == 255 and b"closed" in session.stderr.read()
    Event.objects.filter(verb="entered").delete()  # nobody was left to write the end of this session
    session.stdout.close()
    session.stderr.close()
    gateway.start()
    assert ssh(world, "echo again").stdout == b"again\n"
    assert gateway.key_file.read_bytes() == before and gateway.key_file.stat().st_mode & 0o777 == 0o600


def test_a_platform_that_stops_says_so(world):
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", "echo in; sleep 100"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert session.stdout.readline() == b"in\n"
    began = time.monotonic()
    world.gateway.stop()
    assert time.monotonic() - began < 10
    assert b"The platform is restarting" in session.communicate(timeout=20)[1]
    world.gateway.start()


@contextmanager
def session_inside(world, command):
    """An open session, whose command has said "in"."""
    argv = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", command]
    with client(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"in\n"
        yield process


@pytest.mark.parametrize("command", ["echo in; sleep 100", "trap '' HUP TERM; echo in; sleep 100; sleep 100"])
def test_a_suspended_persons_session_ends_within_five_seconds(world, command):
    with session_inside(world, command) as session:
        began = time.monotonic()
        suspend_person(actor=make.admin(), user=world.cast.ada)
        assert b"tessera: You may not stay here any more." in session.communicate(timeout=30)[1]
        assert session.returncode == 255 and time.monotonic() - began < 5


def test_a_suspended_persons_forwarded_port_closes_within_five_seconds(world):
    with forwarding(world, "-L", f"{free_port()}:localhost:8888") as session:
        wait_for(lambda: world.cast.ada.ssh_keys.get().last_used_at)
        began = time.monotonic()
        suspend_person(actor=make.admin(), user=world.cast.ada)
        assert session.wait(30) == 255 and time.monotonic() - began < 5


def test_a_removed_key_closes_what_it_had_opened(world):
    with session_inside(world, "echo in; sleep 100") as session:
        remove_ssh_key(user=world.cast.ada, key_id=world.cast.ada.ssh_keys.get().pk)
        assert b"tessera: You may not stay here any more." in session.communicate(timeout=30)[1]
        assert session.returncode == 255


LOST = {
    "suspended": lambda ada: User.objects.filter(pk=ada.pk).update(suspended_at=timezone.now()),
    "out of the team": lambda ada: ada.memberships.all().delete(),
    "without the key": lambda ada: ada.ssh_keys.all().delete(),
}


@pytest.mark.parametrize("lost", LOST)
def test_a_session_ends_within_five_seconds_if_no_message_comes(world, lost):
    """As while Valkey is frozen: the rows change, and nobody is told. On a busy machine the client prints the reason of
    the disconnect, and not the line before it.
    """
    with session_inside(world, "echo in; sleep 100") as session:
        began = time.monotonic()
        LOST[lost](world.cast.ada)
        assert b"You may not stay here any more." in session.communicate(timeout=30)[1]
        assert session.returncode == 255 and time.monotonic() - began < 5
