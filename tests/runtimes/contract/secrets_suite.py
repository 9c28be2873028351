"""How every runtime gives a task its secrets, and masks them in what it says. The tests run shell texts."""

import os
from pathlib import Path

from runtimes.contract.task import TaskSecret

CANARY = "c4nary-9f8e7d6c5b4a/+é \n$HOME"
"""Marks of what shells, URLs and files may change."""
KEPT = "only-as-a-file-1234\n"
SECRETS = (TaskSecret("HUB_TOKEN", CANARY), TaskSecret("value", "from-lower-case"), TaskSecret("KEY", KEPT, False))
SIZES = len(CANARY.encode()), len(KEPT.encode())
FOUND = f"""
[ "$HUB_TOKEN" = "$(cat "$TESSERA_SECRETS/HUB_TOKEN")" ] || exit 3
[ "$(wc -c <"$TESSERA_SECRETS/HUB_TOKEN")" -eq {SIZES[0]} ] || exit 4
[ "$(wc -c <"$TESSERA_SECRETS/KEY")" -eq {SIZES[1]} ] || exit 4
[ -z "${{KEY+x}}" ] && [ "$value" = from-lower-case ] && [ -z "${{TESSERA_VALUE+x}}" ] || exit 5
[ "$(stat -f -c %T "$TESSERA_SECRETS")" = tmpfs ] || exit 6
"""


class SecretsContract:
    def test_a_task_finds_its_secrets_in_memory(self, world):
        view = world.run(FOUND, secrets=SECRETS)
        assert (view.exit_code, view.detail) == (0, "")

    def test_a_task_without_secrets_has_no_place_for_them(self, world):
        assert world.run('[ -z "${TESSERA_SECRETS+x}" ]').exit_code == 0

    def test_a_start_that_is_repeated_changes_nothing(self, world):
        spec = world.spec("sleep 1; exit ${#HUB_TOKEN}", secrets=(TaskSecret("HUB_TOKEN", "12345678"),))
        for _ in range(3):
            world.runtime.start(spec)
        assert world.until(spec.uuid, "exited").exit_code == 8

    def test_no_command_line_of_the_machine_shows_them(self, world):
        spec = world.spec("sleep 60", secrets=SECRETS)
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        assert not list_processes_with("c4nary-9f8e7d6c5b4a")
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch)
        world.until(spec.uuid, "exited")


def list_processes_with(text: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words:
            found.append(pid)
    return found
