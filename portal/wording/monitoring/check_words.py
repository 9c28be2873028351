"""Names of the checks of machines and cards, and of the platform's own parts."""

from django.utils.translation import gettext_lazy as _

CHECK_WORDS = {
    "gpu_xid": _("Errors told by the driver (XID)"),
    "gpu_ecc_uncorrected": _("Memory errors that could not be corrected"),
    "gpu_row_remap": _("Bad rows of GPU memory"),
    "gpu_off_bus": _("Card on its bus"),
    "gpu_power_brake": _("Power brake of the machine"),
    "gpu_nvlink_errors": _("Errors of NVLinks"),
    "gpu_count": _("Number of cards"),
    "gpu_hot": _("Temperature of the card"),
    "gpu_pcie_width": _("Width of the PCIe link"),
    "gpu_external_process": _("Processes of no task on the card"),
    "gpu_memory_left": _("GPU memory that no process holds"),
    "nvml_hangs": _("Driver answers"),
    "driver_changed": _("Driver unchanged"),
    "disk_full": _("Room on disks"),
    "inodes": _("Inodes of disks"),
    "disk_read_only": _("Disk can be written"),
    "clock_skew": _("Clock"),
    "oom_kills": _("Processes ended for want of memory"),
    "container_engine": _("Container engine answers"),
    "dcgm_exporter": _("DCGM exporter answers"),
    "homes_mounted": _("Homes are mounted"),
    "agent_old": _("Version of the agent"),
}
PART_WORDS = {
    "process": _("process"),
    "loop": _("loop"),
    "agent": _("agent"),
    "engine": _("series engine"),
    "service": _("service"),
}


def name_check(name: str) -> str:
    """Return what a check looks at; its own name if it is new."""
    return str(CHECK_WORDS.get(name, name))
