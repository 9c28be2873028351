"""What is wrong with a machine and its cards: pure judgements of what was read. Unknown is no fault and no health."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent.gpu.xid_errors import find_action, is_harmless

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"
LONGEST = 300
"""Longest sentence, in characters."""
HOT_C, HOT_LOOKS = 87, 5
"""So hot at so many looks in a row, which are a minute apart."""
LEFT_MIB = 1024
"""More memory than a driver holds for itself."""
FULL_WARN, FULL_FAIL = 90, 97
"""Percent of a disk, or of its inodes."""
SKEW_WARN_S, SKEW_FAIL_S = 5.0, 60.0


@dataclass(frozen=True)
class Check:
    """card: its uuid, "" for the machine. count: of what it counts."""

    name: str
    state: str
    words: str = ""
    card: str = ""
    count: int = 0

    def tell(self) -> dict[str, Any]:
        """Return what is sent: only what says something."""
        told = asdict(self) | {"words": self.words[:LONGEST]}
        return {name: value for name, value in told.items() if value or name in ("name", "state")}


@dataclass(frozen=True)
class CardLook:
    """What one look at a card found; None is what the driver does not tell. processes: {pid: MiB}. hot_looks: how often
    in a row it was too hot. slowed: by heat, as the driver says.
    """

    uuid: str
    ecc_uncorrected: int | None = None
    remap: tuple[int, int] | None = None
    temperature_c: int | None = None
    slowed: bool | None = None
    lanes: tuple[int, int] | None = None
    used_mib: int | None = None
    processes: Mapping[int, int] | None = None
    hot_looks: int = 0


@dataclass(frozen=True)
class Disk:
    path: str
    full_percent: int
    inodes_percent: int
    read_only: bool


@dataclass(frozen=True)
class MachineLook:
    """cards, expected: that answer, that were seen since boot. driver_before: at the first look."""

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


def check_card(look: CardLook, xids: Counter[int] | None, others: Mapping[int, int] | None) -> list[Check]:
    """Judge a card. xids: heard of it, None if nothing is. others: processes of no task, None if nobody can tell."""
    found = (
        _check_xids(xids),
        _check_ecc(look.ecc_uncorrected),
        _check_remap(look.remap),
        _check_heat(look),
        _check_lanes(look.lanes),
        _check_others(others),
        _check_left(look),
    )
    return [Check(check.name, check.state, check.words, look.uuid, check.count) for check in found]


def check_machine(look: MachineLook) -> list[Check]:
    return [
        _check_count(look),
        _check_nvml(look),
        _check_driver(look),
        *_check_disks(look.disks),
        _check_clock(look.skew_s),
        _check_oom(look),
    ]


def _check_xids(xids: Counter[int] | None) -> Check:
    if xids is None:
        return Check("gpu_xid", UNKNOWN, "No errors are heard of this card.")
    faults = [xid for xid in xids if not is_harmless(xid)]
    told = ", ".join(_describe_xid(xid, xids[xid]) for xid in sorted(faults) or sorted(xids))
    state = FAIL if faults else WARN if xids else OK
    return Check("gpu_xid", state, f"The driver told {told}." if told else "", count=xids.total())


def _describe_xid(xid: int, count: int) -> str:
    return f"XID {xid}{f', {count} times' if count > 1 else ''} ({find_action(xid)})"


def _check_ecc(count: int | None) -> Check:
    name = "gpu_ecc_uncorrected"
    if count is None:
        return Check(name, UNKNOWN, "The driver tells no memory errors of this card.")
    words = (
        f"{count} memory errors could not be corrected since the driver was loaded. Reset the card." if count else ""
    )
    return Check(name, FAIL if count else OK, words, count=count)


def _check_remap(remap: tuple[int, int] | None) -> Check:
    """remap: (pending, failed)."""
    if remap is None:
        return Check("gpu_row_remap", UNKNOWN, "This card does not replace rows of its memory.")
    pending, failed = remap
    if failed:
        return Check("gpu_row_remap", FAIL, "A bad row of its memory could not be replaced. Exchange the card.")
    if pending:
        return Check("gpu_row_remap", WARN, "A bad row of its memory is replaced when the card is reset. Reset it.")
    return Check("gpu_row_remap", OK)


def _check_heat(look: CardLook) -> Check:
    if look.temperature_c is None and look.slowed is None:
        return Check("gpu_hot", UNKNOWN, "The driver tells no temperature.")
    if look.slowed:
        return Check("gpu_hot", FAIL, "It is slowed down by its heat. Look at fans and air flow.")
    if look.hot_looks >= HOT_LOOKS:
        return Check("gpu_hot", FAIL, f"It has {look.temperature_c} °C, and had {HOT_C} or more for five minutes.")
    return Check(
        "gpu_hot", WARN if look.hot_looks else OK, f"It has {look.temperature_c} °C." if look.hot_looks else ""
    )


def _check_lanes(lanes: tuple[int, int] | None) -> Check:
    """lanes: (now, of the card)."""
    if lanes is None:
        return Check("gpu_pcie_width", UNKNOWN, "The driver tells no width of its PCIe link.")
    now, most = lanes
    words = f"Its PCIe link has {now} of {most} lanes. Reseat the card, or look at the riser." if now < most else ""
    return Check("gpu_pcie_width", WARN if words else OK, words)


def _check_others(others: Mapping[int, int] | None) -> Check:
    name = "gpu_external_process"
    if others is None:
        return Check(name, UNKNOWN, "Processes of tasks cannot be told from others here.")
    pids = ", ".join(map(str, sorted(others)[:5]))
    words = f"Processes of no task hold {sum(others.values())} MiB of it: {pids}." if others else ""
    return Check(name, WARN if others else OK, words, count=len(others))


def _check_left(look: CardLook) -> Check:
    name = "gpu_memory_left"
    if look.used_mib is None or look.processes is None:
        return Check(name, UNKNOWN, "The driver does not tell which processes hold memory.")
    left = look.used_mib if not look.processes and look.used_mib > LEFT_MIB else 0
    words = f"{left} MiB of it are in use, and no process holds them. Reset the card when it is free." if left else ""
    return Check(name, WARN if left else OK, words)


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
