"""Bytes that network interfaces moved, as totals. Source: proc_pid_net(5)."""

from pathlib import Path

Traffic = dict[str, tuple[int, int]]
"""(bytes received, bytes sent) by interface."""

LOOPBACK = "lo"
RECEIVED, SENT = 0, 8
"""Columns after an interface's name."""


def read_traffic(file: Path) -> Traffic:
    """Read a `net/dev` without loopback; nothing if it cannot be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines[2:]:
        name, colon, counted = line.partition(":")
        columns = counted.split()
        if colon and name.strip() != LOOPBACK and len(columns) > SENT:
            found[name.strip()] = (int(columns[RECEIVED]), int(columns[SENT]))
    return found


def sum_traffic(traffic: Traffic) -> dict[str, int]:
    """Return net_rx_kib and net_tx_kib; nothing without an interface, of which nothing is known."""
    if not traffic:
        return {}
    received, sent = (sum(counted) for counted in zip(*traffic.values(), strict=True))
    return {"net_rx_kib": received >> 10, "net_tx_kib": sent >> 10}
