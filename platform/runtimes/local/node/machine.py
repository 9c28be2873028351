"""This machine's cards, cores, isolation and limits, probed once."""

import os
import platform
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from agent import host
from runtimes.contract.node import GpuView, NodeView, NumaView
from runtimes.gpu_sharing import SLICE
from runtimes.local import processes
from runtimes.local.node import inventory
from runtimes.local.node.isolation_probe import Isolation, MemoryControl, probe_isolation, probe_memory
from runtimes.local.node.simulated_cards import simulate
from runtimes.local.plan import Surroundings
from runtimes.local.slices.compute_sharing import ComputeSharing
from runtimes.local.slices.slice_manager import SliceManager

ADDRESS = "127.0.0.1"


class Machine:
    def __init__(
        self,
        node: str,
        data_dir: Path,
        run_dir: Path,
        files_dir: Path,
        hide: tuple[str, ...],
        gpus_text: str,
        libvgpu: str | None,
        slice_library: str,
        isolation: Isolation | None,
        memory: MemoryControl | None,
        log_caps: Mapping[str, int],
        processes_most: int,
        gpu_above_s: float,
        mps: bool,
        holders: Callable[[str], list[str]],
    ):
        self.node, self.data_dir, self.run_dir, self.files_dir = node, data_dir, run_dir, files_dir
        self.tasks_dir = data_dir / "tasks"
        self.hide, self.libvgpu, self.log_caps, self.processes_most = hide, libvgpu, log_caps, processes_most
        self.gpu_above_s = gpu_above_s
        self.simulated = simulate(gpus_text, node)
        self._isolation, self._memory = isolation, memory
        self.slicing = SliceManager(
            slice_library, data_dir, run_dir, isolation=lambda: self.isolation, around=lambda: self.surroundings({})
        )

        self.compute = ComputeSharing(
            mps,
            run_dir,
            isolation=lambda: self.isolation,
            holders=holders,
            trial=lambda uuid, plan, daemon: self.slicing.try_mps(self.driver, uuid, plan, daemon),
        )

    def view(self) -> NodeView:
        """Return the node now. Raises Unavailable."""
        gpus, links, driver = self.look_at_cards()
        cpus = len(os.sched_getaffinity(0))
        return NodeView(
            name=self.node,
            address=ADDRESS,
            boot_id=processes.boot_id(),
            cpu_milli=host.cpu_milli(cpus),
            memory_mib=host.total_memory_mib(),
            numa=self.numa,
            gpus=gpus,
            links=links,
            pcie=self._pcie(driver),
            ready=True,
            facts={
                "memory_limit": self.memory.kind,
                "process_limit": self._process_limit,
                "processes_most": str(self.processes_most),
                "isolation": self.isolation.words,
                "namespaces": "yes" if self.isolation.namespaces else "no",
                "cpu_pinning": "whole cores" if cpus > 1 else "none",
                "homes": "kept" if self.files_reachable else "gone with the task",
                "read_only_data": "yes" if self.isolation.namespaces else "refused",
                "kernel": platform.release(),
                "driver": driver,
                "python": platform.python_version(),
            }
            | ({"slice_placement": self.slicing.placement} if any(gpu.mode == SLICE for gpu in gpus) else {})
            | self.compute.facts(self.cards, driver),
        )

    def look_at_cards(self) -> tuple[tuple[GpuView, ...], tuple[tuple[str, ...], ...], str]:
        """Return (cards, links, driver), simulated without driver. Raises Unavailable."""
        real = inventory.list_gpus(self.libvgpu, self.slicing.test_library)
        found = (self.simulated.gpus, self.simulated.links, "none") if real is None else real
        self.cards, self.driver = {gpu.uuid: gpu for gpu in found[0]}, found[2]
        return found

    @cached_property
    def cards(self) -> dict[str, GpuView]:
        """Cards by uuid, at the last look. Raises Unavailable."""
        self.look_at_cards()
        return self.cards

    @cached_property
    def driver(self) -> str:
        """Driver version or "none". Raises Unavailable."""
        return self.look_at_cards()[2]

    @cached_property
    def numa(self) -> tuple[NumaView, ...]:
        """Real NUMA nodes, or several simulated ones."""
        real, ids = inventory.list_numa(), self.simulated.numa
        simulated = len(ids) > 1 and all(gpu.simulated for gpu in self.cards.values())
        return inventory.spread_numa(ids, real) if simulated else real

    @cached_property
    def isolation(self) -> Isolation:
        return self._isolation or probe_isolation(self.tasks_dir / f"trial-{os.getpid()}" / "scratch", self.run_dir)

    @cached_property
    def memory(self) -> MemoryControl:
        return self._memory or probe_memory()

    @property
    def files_reachable(self) -> bool:
        """Whether jobs reach homes: without namespaces, other accounts need x on all parents."""
        if self.isolation.namespaces or not self.isolation.own_uid:
            return True
        return all(path.stat().st_mode & 0o001 for path in (self.files_dir, *self.files_dir.parents))

    def surroundings(self, cards: Mapping[str, GpuView]) -> Surroundings:
        return Surroundings(
            isolation=self.isolation,
            memory=self.memory,
            hide=self.hide,
            seen_at=str(self.run_dir / "task"),
            files=str(self.files_dir) if self.files_reachable else None,
            cards=cards,
            libvgpu=self.libvgpu,
            log_caps=self.log_caps,
            processes_most=self.processes_most,
            gpu_above_s=self.gpu_above_s,
        )

    def scratch_of(self, uuid: str) -> str:
        """Return a job's directory, outside our data where another account needs it without namespaces."""
        beside = self.isolation.own_uid and not self.isolation.namespaces
        return os.path.join(f"{self.run_dir}-tasks", uuid) if beside else str(self.tasks_dir / uuid / "scratch")

    @property
    def _process_limit(self) -> str:
        """Scope of `processes_most`: task, account or none."""
        if not self.processes_most:
            return "none"
        return "task" if self.memory.pids_parent else "account" if self.isolation.own_uid else "none"

    def _pcie(self, driver: str) -> tuple[tuple[str, ...], ...]:
        return self.simulated.pcie if driver == "none" else inventory.list_pcie()
