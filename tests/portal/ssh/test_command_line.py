"""`tessera ssh`, `exec`, `cp`, `ssh-config` and `ssh-key`, as programs against a real gateway."""

import os
import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import SshKey
from tests import make
from tests.ssh_gateway import MIB, needs_sftp

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_the_command_line_runs_a_program_and_ends_with_its_exit_code(world, tessera):
    done = tessera("exec", world.name, "--", "sh", "-c", "printf '%s|' \"$@\"; exit 7", "sh", "two words", "$HOME")
    assert (done.returncode, done.stdout) == (7, b"two words|$HOME|"), done.stderr
    assert tessera("ssh", world.name, "--", "echo", "here").stdout == b"here\n"
    nobody = tessera("exec", "job-999999", "--", "true")
    assert nobody.returncode == 255 and nobody.stderr.startswith(b"tessera: ")


def test_the_command_line_says_why_nobody_comes_in(world, tessera, tmp_path):
    waiting = make.job(world.cast.ada, gpu="1/4", pool="dev").public_id
    for command in (("exec", waiting, "--", "true"), ("ssh", waiting), ("cp", f"{waiting}:a", "b")):
        done = tessera(*command)
        said = f"tessera: {waiting} is waiting in the queue. You can connect to it as soon as it is running.".encode()
        assert done.returncode == 255 and said in done.stderr.splitlines(), done
    SshKey.objects.filter(user=world.cast.ada).delete()
    refused = tessera("exec", world.name, "--", "true")
    assert refused.returncode == 255 and b"None of your keys is known here. Add a key: http" in refused.stderr


@needs_sftp
def test_the_command_line_copies_in_and_out(world, tessera, tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(MIB))
    assert tessera("cp", "a", f"{world.name}:there").returncode == 0
    assert tessera("cp", f"{world.name}:there", "b").returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert tessera("cp", "a", "b").returncode == 2


def test_the_written_ssh_config_serves_plain_ssh_and_keeps_what_was_there(world, tessera, tmp_path):
    own = tmp_path / ".ssh/config"
    own.write_text("Host elsewhere\n  Port 2222\n")
    assert b"would be written" in tessera("ssh-config", "--dry-run").stdout
    assert own.read_text().startswith("Host")
    for _ in range(2):
        assert tessera("ssh-config", "--write").returncode == 0
    assert own.read_text().count("Include") == 1 and own.read_text().endswith("Host elsewhere\n  Port 2222\n")
    key = ["-i", str(tmp_path / ".ssh/id_ed25519")]
    plain = ["/usr/bin/env", "ssh", "-F", str(own), *key, "-o", "BatchMode=yes"]
    jump = own.read_text() + f"Host *\n  IdentityFile {tmp_path}/.ssh/id_ed25519\n"
    own.write_text(jump)
    done = subprocess.run([*plain, world.name, "echo here"], capture_output=True, timeout=60)
    assert done.stdout == b"here\n", done.stderr


def test_the_command_line_adds_lists_and_removes_a_key(world, tessera):
    SshKey.objects.all().delete()
    assert b"opens your notebooks" in tessera("ssh-key", "add", "--name", "laptop").stdout
    assert b"laptop" in tessera("ssh-key", "ls").stdout
    assert tessera("ssh-key", "rm", "laptop").returncode == 0
    assert b"date has passed" in tessera("ssh-key", "add", "--until", "2020-01-31").stderr
    assert b"which expires at" in tessera("ssh-key", "add", "--until", "2099-01-31").stderr  # its token does
    until = f"{timezone.now() + timedelta(days=30):%F}"
    assert tessera("ssh-key", "add", "--name", "laptop", "--until", until).returncode == 0
    assert until.encode() in tessera("ssh-key", "ls").stdout
    SshKey.objects.update(expires_at="2020-01-31T00:00Z")
    assert b"expired" in tessera("ssh-key", "ls").stdout
    assert b"private key" in tessera("ssh-key", "add", ".ssh/id_ed25519").stderr
    assert tessera("ssh-key", "rm", "laptop").returncode == 0
    assert not SshKey.objects.exists() and tessera("ssh-key", "rm", "laptop").returncode == 3
