"""What is wrong with a machine: pure judgements of what was read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.health.check import FAIL, OK, UNKNOWN, WARN, Check

FULL_WARN, FULL_FAIL = 90, 97
"""Percent of a disk, or of its inodes."""
SKEW_WARN_S, SKEW_FAIL_S = 5.0, 60.0


@dataclass(frozen=True)
class Disk:
    path: str
    full_percent: int
    inodes_percent: int
    read_only: bool


@dataclass(frozen=True)
class Home:
    """A place that has to be mounted. trouble: what the system says of it, where it cannot be read."""

    path: str
    mounted: bool
    trouble: str = ""


@dataclass(frozen=True)
class MachineLook:
    """cards, expected: that answer, that were seen since boot. driver_before: at the first look. engine: why it does
    not answer, "" if it does; dcgm: the same of dcgm-exporter. engine, homes, dcgm: None where nobody asked to look.
    """

    cards: int | None
    expected: int
    driver: str = ""
    driver_before: str = ""
    mismatch: bool = False
    nvml_silent_s: float = 0.0
    skew_s: float | None = None
    oom_kills: int | None = None
    oom_kills_new: int = 0
    disks: Sequence[Disk] = field(default_factory=tuple)
    engine: str | None = None
    dcgm: str | None = None
    homes: Sequence[Home] | None = None
    homes_silent_s: float = 0.0


def check_machine(look: MachineLook) -> list[Check]:
    return [
        _check_count(look),
        _check_nvml(look),
        _check_driver(look),
        *_check_disks(look.disks),
        _check_clock(look.skew_s),
        _check_oom(look),
        *_check_engine(look.engine),
        *_check_dcgm(look.dcgm),
        *_check_homes(look),
    ]


def _check_count(look: MachineLook) -> Check:
    if look.cards is None:
        return Check("gpu_count", UNKNOWN, "The driver does not answer.")
    words = f"{look.cards} of {look.expected} cards answer." if look.cards < look.expected else ""
    return Check("gpu_count", FAIL if words else OK, words, count=look.cards)


def _check_nvml(look: MachineLook) -> Check:
    silent = look.nvml_silent_s
    words = f"The driver has not answered for {silent:.0f} s. Restart the machine." if silent else ""
    return Check("nvml_hangs", FAIL if silent else OK, words)


def _check_driver(look: MachineLook) -> Check:
    name = "driver_changed"
    if look.mismatch:
        return Check(name, FAIL, "The driver's files were replaced while it runs. Restart the machine.")
    if not look.driver:
        return Check(name, UNKNOWN, "There is no driver, or it does not answer.")
    changed = look.driver_before and look.driver != look.driver_before
    return Check(
        name, WARN if changed else OK, f"It was {look.driver_before}, and is {look.driver}." if changed else ""
    )


def _check_disks(disks: Sequence[Disk]) -> list[Check]:
    full = max(disks, key=lambda disk: disk.full_percent, default=None)
    inodes = max(disks, key=lambda disk: disk.inodes_percent, default=None)
    closed = [disk.path for disk in disks if disk.read_only]
    return [
        _check_part("disk_full", full.full_percent if full else None, f"of the disk of {full.path}" if full else ""),
        _check_part("inodes", inodes.inodes_percent if inodes else None, f"of {inodes.path}" if inodes else ""),
        Check("disk_read_only", FAIL, f"Nothing can be written to {', '.join(closed)}.")
        if closed
        else Check("disk_read_only", OK if disks else UNKNOWN, "" if disks else "No disk was looked at."),
    ]


def _check_part(name: str, percent: int | None, of_what: str) -> Check:
    if percent is None:
        return Check(name, UNKNOWN, "No disk was looked at.")
    state = FAIL if percent >= FULL_FAIL else WARN if percent >= FULL_WARN else OK
    return Check(name, state, f"{percent} % {of_what} are in use." if state != OK else "", count=percent)


def _check_clock(skew_s: float | None) -> Check:
    if skew_s is None:
        return Check("clock_skew", UNKNOWN, "The platform has not answered yet.")
    apart = abs(skew_s)
    state = FAIL if apart > SKEW_FAIL_S else WARN if apart > SKEW_WARN_S else OK
    where = "ahead of" if skew_s > 0 else "behind"
    return Check("clock_skew", state, f"Its clock is {apart:.0f} s {where} the platform's." if state != OK else "")


def _check_oom(look: MachineLook) -> Check:
    if look.oom_kills is None:
        return Check("oom_kills", UNKNOWN, "This kernel does not count them.")
    words = f"The kernel ended {look.oom_kills_new} processes for want of memory lately." if look.oom_kills_new else ""
    return Check("oom_kills", WARN if words else OK, words, count=look.oom_kills)


def _check_engine(trouble: str | None) -> list[Check]:
    if trouble is None:
        return []
    words = f"The container engine does not answer: {trouble}. Look at its service." if trouble else ""
    return [Check("container_engine", FAIL if trouble else OK, words)]


def _check_dcgm(trouble: str | None) -> list[Check]:
    if trouble is None:
        return []
    words = f"dcgm-exporter tells nothing of the cards: {trouble}. Look at it and at --dcgm." if trouble else ""
    return [Check("dcgm_exporter", WARN if trouble else OK, words)]


def _check_homes(look: MachineLook) -> list[Check]:
    if look.homes_silent_s:
        words = f"The file server of homes has not answered for {look.homes_silent_s:.0f} s."
        return [Check("homes_mounted", FAIL, words)]
    if look.homes is None:
        return []
    gone = [f"{home.path} ({home.trouble or 'nothing is mounted there'})" for home in look.homes if not home.mounted]
    words = f"Homes are not mounted: {', '.join(gone)}. Mount them before jobs start here." if gone else ""
    return [Check("homes_mounted", FAIL if gone else OK, words, count=len(gone))]
