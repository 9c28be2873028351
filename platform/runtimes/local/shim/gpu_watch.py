"""Report a task's use of each shared card, as JSON lines by uuid.

    used_mib    below the shim, by NVML
    limit_mib, counted_mib, refused    of the slice's files

It also charges to the slice what only NVML sees: contexts, modules, rounding. A separate process, as NVML is big.
"""

import json
import os
import subprocess
import time

import pynvml

from agent.gpu.memory_by_process import read_memory_by_process
from runtimes.local.isolation import die_with_parent
from runtimes.local.processes import list_descendants, list_processes


def main(uuids: str, every_s: str, folder: str, shim: str) -> None:
    """Report samples for ever. uuids: comma-separated. folder: the slice's, or ""."""
    die_with_parent()
    pynvml.nvmlInit()
    cards = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids.split(",")}
    account = Account(folder) if folder else None
    while True:
        print(json.dumps(read_use(cards, account, int(shim))), flush=True)
        time.sleep(float(every_s))


def read_use(cards: dict, account: "Account | None", shim: int) -> dict[str, dict[str, int]]:
    before = account.ask() if account else {}
    family = find_family(shim)
    held = {
        uuid: sum(mib for pid, mib in read_memory_by_process(card).items() if pid in family)
        for uuid, card in cards.items()
    }
    said = {uuid: {"used_mib": mib} for uuid, mib in held.items()}
    if account is not None:
        for uuid, counted in account.correct(held, before).items():
            said[uuid] |= counted
    return said


def find_family(shim: int) -> set[int]:
    """Return the pids below the shim but for the keeper's."""
    living, keeper = list_processes(), os.getppid()
    ours = {keeper, *(process.pid for process in list_descendants({keeper}, living))}
    return {process.pid for process in list_descendants({shim}, living)} - ours


class Account:
    """The slice's account, by slicectl."""

    def __init__(self, folder: str):
        command = [os.path.join(folder, "slicectl"), "tend", folder]
        self.control = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.missing: dict[str, int] = {}  # MiB by uuid, last sample

    def ask(self, charges: dict[str, int] | None = None) -> dict[str, dict[str, int]]:
        """Return {uuid: {"limit_mib", "counted_mib", "refused"}} without extra charges; {} for broken files.

        charges: new extra MiB by uuid.
        """
        assert self.control.stdin and self.control.stdout
        try:
            self.control.stdin.write(" ".join(f"{uuid}={mib}MiB" for uuid, mib in (charges or {}).items()) + "\n")
            self.control.stdin.flush()
            cards = json.loads(self.control.stdout.readline())["cards"]
        except (OSError, ValueError):
            return {}
        return {
            card["uuid"]: {
                "limit_mib": card["limit_bytes"] >> 20,
                "counted_mib": card["used_bytes"] - card["tended_bytes"] >> 20,
                "refused": card["refused"],
            }
            for card in cards
        }

    def correct(self, held: dict[str, int], before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Charge what NVML saw beyond the account. before: the account read before NVML.

        Memory freed meanwhile must not count, or fitting requests would be refused. So the larger account, before or
        after, and the smaller of two samples count.
        """
        after = self.ask()
        missing = {
            uuid: max(0, held[uuid] - max(before[uuid]["counted_mib"], now["counted_mib"]))
            for uuid, now in after.items()
            if uuid in before and uuid in held
        }
        charges = {uuid: min(mib, self.missing.get(uuid, 0)) for uuid, mib in missing.items()}
        self.missing = missing
        return self.ask(charges) if charges else after
