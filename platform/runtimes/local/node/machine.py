"""This machine's cards, cores, isolation and limits, probed once."""

import os
import platform
from collections.abc import Mapping
from functools import cached_property

from agent import host
from runtimes.contract.node import OWN_NETWORK, GpuView, NodeView, NumaView
from runtimes.gpu_sharing import SLICE
from runtimes.local import processes
from runtimes.local.config import NodeConfig, NodeContext
from runtimes.local.images.image_store import ImageStore
from runtimes.local.images.images_probe import ImageSupport, probe_images
from runtimes.local.network.network_probe import NetworkSupport, probe_networks
from runtimes.local.node import cards_and_numa
from runtimes.local.node.cards_and_numa import NodeCards
from runtimes.local.node.isolation_probe import Isolation, MemoryControl, probe_isolation, probe_memory
from runtimes.local.node.simulated_cards import simulate_cards
from runtimes.local.slices.compute_sharing import ComputeSharing
from runtimes.local.slices.library_slices import SliceManager

ADDRESS = "127.0.0.1"


class Machine:
    def __init__(self, config: NodeConfig):
        self.config = config
        self.simulated = simulate_cards(config.gpus_text, config.node_name)
        self.slices = SliceManager(config, isolation=lambda: self.isolation, context=lambda: self.context({}))
        self.compute = ComputeSharing(
            config,
            isolation=lambda: self.isolation,
            test=lambda uuid, plan, daemon: self.slices.test_mps(self.driver, uuid, plan, daemon),
        )

    def read_node(self) -> NodeView:
        """Return the node now. Raises Unavailable."""
        cards = self.read_cards()
        cpus = len(os.sched_getaffinity(0))
        return NodeView(
            name=self.config.node_name,
            address=ADDRESS,
            boot_id=processes.read_boot_id(),
            cpu_milli=host.read_cpu_milli(cpus),
            memory_mib=host.read_memory_mib(),
            numa=self.numa,
            gpus=cards.gpus,
            links=cards.links,
            pcie=cards.pcie,
            hcas=cards_and_numa.read_hcas(cards.gpus),
            ready=True,
            facts={
                "memory_limit": self.memory.kind,
                "process_limit": self._process_limit,
                "processes_most": str(self.config.processes_most),
                "isolation": self.isolation.words,
                "namespaces": "yes" if self.isolation.namespaces else "no",
                "cpu_pinning": "whole cores" if cpus > 1 else "none",
                "homes": "kept" if self.files_reachable else "gone with the task",
                "read_only_data": "yes" if self.isolation.namespaces else "refused",
                "images": self.images.words or f"podman {self.images.version}",
                "network": OWN_NETWORK if self.networks.works else self.networks.words,
                "kernel": platform.release(),
                "driver": cards.driver,
                "python": platform.python_version(),
            }
            | ({"slice_placement": self.slices.placement} if any(gpu.mode == SLICE for gpu in cards.gpus) else {})
            | self.compute.facts(self.cards, cards.driver),
        )

    def read_cards(self) -> NodeCards:
        """Return the cards now, simulated ones without a driver. Raises Unavailable."""
        found = cards_and_numa.read_real_cards(self.config.libvgpu, self.slices.test_library) or self.simulated
        self.cards, self.driver = {gpu.uuid: gpu for gpu in found.gpus}, found.driver
        return found

    @cached_property
    def cards(self) -> dict[str, GpuView]:
        """Cards by uuid, at the last look. Raises Unavailable."""
        self.read_cards()
        return self.cards

    @cached_property
    def driver(self) -> str:
        """Driver version or "none". Raises Unavailable."""
        return self.read_cards().driver

    @cached_property
    def numa(self) -> tuple[NumaView, ...]:
        """Real NUMA nodes, or several simulated ones."""
        real, ids = cards_and_numa.list_numa(), self.simulated.numa
        simulated = len(ids) > 1 and all(gpu.simulated for gpu in self.cards.values())
        return cards_and_numa.spread_numa(ids, real) if simulated else real

    @cached_property
    def memory_nodes(self) -> frozenset[int]:
        """NUMA nodes that the kernel has, none where they are simulated."""
        real = cards_and_numa.list_numa()
        return frozenset(node.id for node in real) if self.numa == real else frozenset()

    @cached_property
    def isolation(self) -> Isolation:
        scratch = self.config.tasks_dir / f"trial-{os.getpid()}" / "scratch"
        return self.config.isolation or probe_isolation(scratch, self.config.run_dir)

    @cached_property
    def images(self) -> ImageSupport:
        """What images need; where it is there, so is their store, for whoever brings some by hand."""
        config = self.config
        support = probe_images(config.data_dir, namespaces=self.isolation.namespaces, most_mib=config.images_mib)
        if support.works:
            ImageStore(config.images_dir).prepare()
        return support

    @cached_property
    def networks(self) -> NetworkSupport:
        folder = self.config.networks_dir / f"trial-{os.getpid()}"
        return probe_networks(folder, wanted=self.config.networks, namespaces=self.isolation.namespaces)

    @cached_property
    def memory(self) -> MemoryControl:
        return self.config.memory or probe_memory()

    @property
    def files_reachable(self) -> bool:
        """Whether jobs reach homes: without namespaces, other accounts need x on all parents."""
        if self.isolation.namespaces or not self.isolation.separate_uids:
            return True
        return all(path.stat().st_mode & 0o001 for path in (self.config.areas_dir, *self.config.areas_dir.parents))

    def context(self, cards: Mapping[str, GpuView]) -> NodeContext:
        files = str(self.config.areas_dir) if self.files_reachable else None
        return NodeContext(self.config, self.isolation, self.memory, cards, files)

    def scratch_of(self, uuid: str) -> str:
        """Return a job's directory, outside our data where another account needs it without namespaces."""
        beside = self.isolation.separate_uids and not self.isolation.namespaces
        config = self.config
        return os.path.join(f"{config.run_dir}-tasks", uuid) if beside else str(config.tasks_dir / uuid / "scratch")

    @property
    def _process_limit(self) -> str:
        """Scope of `processes_most`: task, account or none."""
        if not self.config.processes_most:
            return "none"
        return "task" if self.memory.pids_parent else "account" if self.isolation.separate_uids else "none"
