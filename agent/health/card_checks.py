"""What is wrong with a card: pure judgements of what was read."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.gpu.xid_errors import find_action, is_harmless
from agent.health.check import FAIL, OK, UNKNOWN, WARN, Check

HOT_C, HOT_LOOKS = 87, 5
"""So hot at so many looks in a row, which are a minute apart."""
HEAT, POWER_BRAKE = 0x20 | 0x40, 0x80
"""Why clocks are held down, of NVML's reasons: heat, by software or hardware; the machine's power brake."""
LEFT_MIB = 1024
"""More memory than a driver holds for itself."""
OFF_BUS = 79
"""The XID of a card that fell off the bus."""


@dataclass(frozen=True)
class CardLook:
    """What one look at a card found; None is what the driver does not tell. processes: {pid: MiB}. hot_looks: how often
    in a row it was too hot. held_down: NVML's reasons for low clocks. link_errors: of its NVLinks, (messages sent
    again, links trained again); link_errors_new: of the last ten minutes.
    """

    uuid: str
    ecc_uncorrected: int | None = None
    remap: tuple[int, int] | None = None
    temperature_c: int | None = None
    held_down: int | None = None
    lanes: tuple[int, int] | None = None
    used_mib: int | None = None
    processes: Mapping[int, int] | None = None
    link_errors: tuple[int, int] | None = None
    link_errors_new: tuple[int, int] = (0, 0)
    hot_looks: int = 0


def check_card(look: CardLook, xids: Counter[int] | None, others: Mapping[int, int] | None) -> list[Check]:
    """Judge a card. xids: heard of it, None if nothing is. others: processes of no task, None if nobody can tell."""
    found = (
        _check_xids(xids),
        _check_ecc(look.ecc_uncorrected),
        _check_remap(look.remap),
        _check_heat(look),
        _check_power_brake(look.held_down),
        _check_lanes(look.lanes),
        _check_nvlinks(look),
        _check_others(others),
        _check_left(look),
    )
    return [Check(check.name, check.state, check.words, look.uuid, check.count) for check in found]


def check_bus(expected: Collection[str], answering: Collection[str], xids: Mapping[str, Counter[int]]) -> list[Check]:
    """Judge of each card that was seen since the machine started whether it is still there, by uuid."""
    return [
        Check("gpu_off_bus", OK if uuid in answering else FAIL, _describe_loss(uuid, answering, xids), uuid)
        for uuid in sorted({*expected, *answering})
    ]


def _describe_loss(uuid: str, answering: Collection[str], xids: Mapping[str, Counter[int]]) -> str:
    if uuid in answering:
        return ""
    if OFF_BUS in xids.get(uuid, ()):
        return "It fell off the bus, as the driver said (XID 79). Restart the machine."
    return "It was there since the machine started, and does not answer any more. Restart the machine."


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
    if look.temperature_c is None and look.held_down is None:
        return Check("gpu_hot", UNKNOWN, "The driver tells no temperature.")
    if (look.held_down or 0) & HEAT:
        return Check("gpu_hot", FAIL, "It is slowed down by its heat. Look at fans and air flow.")
    if look.hot_looks >= HOT_LOOKS:
        return Check("gpu_hot", FAIL, f"It has {look.temperature_c} °C, and had {HOT_C} or more for five minutes.")
    return Check(
        "gpu_hot", WARN if look.hot_looks else OK, f"It has {look.temperature_c} °C." if look.hot_looks else ""
    )


def _check_power_brake(held_down: int | None) -> Check:
    if held_down is None:
        return Check("gpu_power_brake", UNKNOWN, "The driver does not tell why clocks are held down.")
    words = "The machine's power brake holds its clocks down. Look at the power supplies, and what they have to feed."
    return Check("gpu_power_brake", FAIL, words) if held_down & POWER_BRAKE else Check("gpu_power_brake", OK)


def _check_nvlinks(look: CardLook) -> Check:
    name = "gpu_nvlink_errors"
    if look.link_errors is None:
        return Check(name, UNKNOWN, "The driver tells no errors of NVLinks of this card.")
    replays, recoveries = look.link_errors_new
    words = ""
    if recoveries:
        words = f"Its NVLinks were lost and trained again {recoveries} times lately. Reseat the card, or its bridge."
    elif replays:
        words = f"{replays} messages had to be sent again over its NVLinks lately."
    return Check(name, FAIL if recoveries else WARN if replays else OK, words, count=sum(look.link_errors))


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
