"""On a machine with a real NVIDIA GPU: the same inventory code, against the driver."""

import subprocess

import pytest

from runtimes.local.node import cards_and_numa
from tests.runtimes.local.fake_nvml import parse_topology

pytestmark = pytest.mark.gpu


def test_the_inventory_agrees_with_nvidia_smi():
    found = cards_and_numa.read_real_cards()
    fields = "uuid,memory.total,driver_version"
    out = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"], capture_output=True)
    rows = [line.split(", ") for line in out.stdout.decode().strip().splitlines()]
    assert [[gpu.uuid, str(gpu.memory_mib), found.driver] for gpu in found.gpus] == rows
    topology = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True).stdout.decode()
    assert [list(row) for row in found.links] == parse_topology(topology)[0]
