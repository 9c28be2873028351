"""Says every few seconds how much of each card the task's processes hold: one JSON object per line, by uuid.

    used_mib    as NVML tells of each process below the shim
    limit_mib, counted_mib, refused    with a slice: what its files say, what is counted, how many requests were refused

With a slice it also charges to the account what NVML knows and the account does not: contexts, modules, rounding. A
process of its own below the shim's keeper (gpu_keeper), only where a share of a real card is watched: NVML and its
wrapper are big.
"""

import json
import os
import subprocess
import time

import pynvml

from agent.held import sample
from runtimes.local.isolation import die_with_parent
from runtimes.local.processes import descendants, everybody


def main(uuids: str, every_s: str, folder: str, shim: str) -> None:
    """uuids: with commas between them. folder: the files of its slice, "" without. shim: its pid. Ends with its keeper,
    as that does with the shim.
    """
    die_with_parent()
    pynvml.nvmlInit()
    cards = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids.split(",")}
    account = Account(folder) if folder else None
    while True:
        print(json.dumps(look(cards, account, int(shim))), flush=True)
        time.sleep(float(every_s))


def look(cards: dict, account: "Account | None", shim: int) -> dict[str, dict[str, int]]:
    before = account.ask() if account else {}
    family = find_family(shim)
    held = {uuid: sum(mib for pid, mib in sample(card).items() if pid in family) for uuid, card in cards.items()}
    said = {uuid: {"used_mib": mib} for uuid, mib in held.items()}
    if account is not None:
        for uuid, counted in account.correct(held, before).items():
            said[uuid] |= counted
    return said


def find_family(shim: int) -> set[int]:
    """All below the shim but ourselves: our keeper, we, and what we run."""
    living, keeper = everybody(), os.getppid()
    ours = {keeper, *(process.pid for process in descendants({keeper}, living))}
    return {process.pid for process in descendants({shim}, living)} - ours


class Account:
    """The account of the task's slice, and what is charged to it besides."""

    def __init__(self, folder: str):
        command = [os.path.join(folder, "slicectl"), "tend", folder]
        self.control = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.missing: dict[str, int] = {}  # by uuid, MiB of the last look

    def ask(self, charges: dict[str, int] | None = None) -> dict[str, dict[str, int]]:
        """{uuid: {"limit_mib", "counted_mib", "refused"}}, less what is charged besides; {} when its files broke.
        charges: MiB by uuid that are charged besides from now on.
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
        """Charge what NVML saw beyond the account. before: the account just before NVML was asked.

        What was freed while we looked must not count as missing, or a request that fits would be refused: the larger of
        what the account said before and after is held against it, and of two looks in a row the smaller one counts.
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
