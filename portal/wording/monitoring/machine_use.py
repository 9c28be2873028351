"""What a machine itself uses now, in words. What is not known is said so, and is never 0."""

from django.utils.translation import gettext as _

from common.resources import show_cpu, show_memory
from monitoring.samples.newest import DiskUse, NodeUse
from portal.wording.usage import show_rate


def describe_machine_use(use: NodeUse | None) -> list[tuple[str, str]]:
    """Return (of what, how much) for each part of a machine; [] if nothing is known of it."""
    if use is None:
        return []
    rows = [(_("CPU"), _describe_cpu(use)), (_("Memory"), _describe_amount(use.memory_mib, use.memory_all_mib))]
    if use.swap_all_mib:
        rows.append((_("Swap"), _describe_amount(use.swap_mib, use.swap_all_mib)))
    rows.append((_("Network"), _describe_network(use)))
    rows += [(_("Disk %(path)s") % {"path": disk.path}, _describe_disk(disk)) for disk in use.disks]
    if use.agent_mib is not None:
        rows.append((_("Agent"), _describe_agent(use)))
    return rows


def _describe_cpu(use: NodeUse) -> str:
    if use.cpu_milli is None or use.cores is None:
        busy = _("not known")
    else:
        busy = _("%(busy)s of %(all)s cores busy") % {"busy": show_cpu(round(use.cpu_milli, -1)), "all": use.cores}
    return busy if use.load is None else _("%(busy)s, load %(load)s") % {"busy": busy, "load": f"{use.load:.1f}"}


def _describe_amount(used_mib: int | None, all_mib: int | None) -> str:
    if used_mib is None or all_mib is None:
        return _("not known")
    return _("%(used)s of %(all)s in use") % {"used": show_memory(used_mib), "all": show_memory(all_mib)}


def _describe_network(use: NodeUse) -> str:
    if use.net_rx_kib_s is None or use.net_tx_kib_s is None:
        return _("not known")
    rates = {"received": show_rate(use.net_rx_kib_s), "sent": show_rate(use.net_tx_kib_s)}
    return _("%(received)s received, %(sent)s sent") % rates


def _describe_disk(disk: DiskUse) -> str:
    parts = [_describe_amount(disk.used_mib, disk.all_mib)]
    if disk.inodes is not None and disk.all_inodes:
        parts.append(_("%(percent)s %% of its inodes") % {"percent": round(100 * disk.inodes / disk.all_inodes)})
    if disk.read_only:
        parts.append(_("read-only"))
    return " · ".join(parts)


def _describe_agent(use: NodeUse) -> str:
    memory = show_memory(use.agent_mib or 0)
    if use.agent_cpu_milli is None:
        return memory
    return _("%(percent)s %% of a core, %(memory)s") % {"percent": use.agent_cpu_milli / 10, "memory": memory}
