"""NVML in pure Python, fed by the text of `nvidia-smi topo -m`: the same names, the same errors, no card."""

import re
from pathlib import Path
from types import SimpleNamespace

import pynvml as real

from agent.gpu import cards, links, mig_instances

TOPOLOGIES = Path(__file__).parent / "topologies"
CARDS = {
    "V100": ("Tesla V100-SXM2-32GB", 32768, 258),
    "A100": ("NVIDIA A100-SXM4-40GB", 40960, 429),
    "H100": ("NVIDIA H100 80GB HBM3", 81559, 551),
    "4090": ("NVIDIA GeForce RTX 4090", 24564, 463),
}
ANCESTORS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
CONSTANTS = {name: value for name, value in vars(real).items() if name.startswith("NVML_") or name == "nvmlMemory_v2"}


def parse_topology(text: str) -> tuple[list[list[str]], list[int | None]]:
    """(matrix of the cards, NUMA node of each; None for N/A)."""
    rows = [line.split() for line in text.strip().splitlines() if line.startswith("GPU") and " X " in f" {line} "]
    count = len(rows)
    matrix = [row[1 : count + 1] for row in rows]
    after = [[word for word in row[count + 1 :] if re.fullmatch(r"\d+|N/A", word)] for row in rows]
    return matrix, [None if not words or words[0] == "N/A" else int(words[0]) for words in after]


def use_fake_nvml(monkeypatch, name: str = "dgx1-v100", *args, **options) -> "FakeNvml":
    """Cards are read from it, of the machine of this name in topologies/."""
    nvml = FakeNvml((TOPOLOGIES / f"{name}.txt").read_text(), *args, **options)
    for module in (cards, links, mig_instances):
        monkeypatch.setattr(module, "pynvml", nvml)
    return nvml


class FakeNvml:
    """Stands where the module stands. switched: NVLinks end at switches. missing: the error that nvmlInit raises.
    mig: cards that are cut. instances: {(card, place): such as 1g.5gb}, of 4864 MiB; such a pair is a handle too.
    """

    def __init__(self, topology="", card="V100", *, switched=False, under=None, missing=None, mig=(), instances=()):
        vars(self).update(CONSTANTS)
        self.NVMLError, self.missing, self.mig = real.NVMLError, missing, mig
        self.matrix, self.numa = parse_topology(topology)
        self.product, self.total, self.reserved = CARDS[card]
        self.switched, self.under = switched, under or {}
        self.old_driver, self.instances = False, dict(instances)
        self.open = 0

    def nvmlInit(self):
        if self.missing is not None:
            raise real.NVMLError(self.missing)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return "580.95.05"

    def nvmlDeviceGetCount(self):
        return len(self.matrix)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetIndex(self, gpu):
        return gpu

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, place):
        if (gpu, place) in self.instances:
            return gpu, place
        raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, gpu):
        return "MIG-{:08x}-{:04}".format(*gpu) if gpu in self.instances else f"GPU-{gpu:08x}-0000"

    def nvmlDeviceGetName(self, gpu):
        return f"{self.product} MIG {self.instances[gpu]}" if gpu in self.instances else self.product

    def nvmlDeviceGetPciInfo(self, gpu):
        return SimpleNamespace(busId=f"00000000:{gpu + 0xA0:02X}:00.0")

    def nvmlDeviceGetMigMode(self, gpu):
        if self.mig:
            return [int(gpu in self.mig)] * 2
        raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetRemappedRows(self, gpu):
        raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)

    nvmlDeviceGetRetiredPagesPendingStatus = nvmlDeviceGetRemappedRows

    def nvmlDeviceGetMemoryInfo(self, gpu, version=None):
        if version == real.nvmlMemory_v2 and not self.old_driver and gpu not in self.instances:
            return SimpleNamespace(total=self.total << 20, reserved=(self.reserved << 20) - 1000)
        if version is None:
            return SimpleNamespace(total=(4864 if gpu in self.instances else self.total) << 20)
        raise real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)

    def nvmlDeviceGetMemoryAffinity(self, gpu, size, scope):
        if self.numa[gpu] is None:
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        return [1 << self.numa[gpu]] + [0] * (size - 1)

    def _ends(self, gpu):
        words = [(other, word) for other, word in enumerate(self.matrix[gpu]) if word.startswith("NV")]
        if self.switched:
            return ["switch"] * int(words[0][1][2:])
        return [other for other, word in words for _ in range(int(word[2:]))]

    def nvmlDeviceGetNvLinkState(self, gpu, link):
        ends = self._ends(gpu)
        if not ends:
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        if link >= 18:
            raise real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT)
        return int(link < len(ends))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu, link):
        if self.old_driver:
            raise real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)
        is_switch = self._ends(gpu)[link] == "switch"
        return real.NVML_NVLINK_DEVICE_TYPE_SWITCH if is_switch else real.NVML_NVLINK_DEVICE_TYPE_GPU

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu, link):
        return self.nvmlDeviceGetPciInfo(self._ends(gpu)[link])

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):
        return ANCESTORS[self.under.get((one, other), self.matrix[one][other])]
