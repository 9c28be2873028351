"""View models of machines and cards."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property

from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import Team
from cluster.models import Maintenance, NodeState
from common.resources import parse_gpu, show_gpu, show_memory
from jobs.states import TaskState
from portal.access.redacted_rows import CardView, NodeView, SliceView
from portal.pages.cluster.card_figures import CardFigures, Held
from portal.templatetags.bars import Segment
from portal.wording.monitoring.machine_use import describe_machine_use
from portal.wording.usage import describe_card_heat, describe_card_use, describe_share_activity
from runtimes.contract.node import OWN_NETWORK

STALE_AFTER = timedelta(seconds=120)

MEMORY_LIMITS = {
    "cgroup v2": gettext_lazy("the kernel (cgroup v2)"),
    "cgroup v1": gettext_lazy("the kernel (cgroup v1)"),
    "watchdog": gettext_lazy("a watchdog that checks every second"),
}
ISOLATION = {
    "own uid": gettext_lazy("each job has its own account"),
    "own namespaces": gettext_lazy("each job has its own view of files and processes"),
    "shared account": gettext_lazy("jobs share the platform's account"),
}
NETWORK = {OWN_NETWORK: gettext_lazy("each job has its own, closed to this machine and to private networks")}
PROCESS_LIMITS = {
    "task": gettext_lazy("%(most)s in each task"),
    "account": gettext_lazy("%(most)s for each person, over all tasks"),
    "none": gettext_lazy("no limit"),
}
MEMORY_LIMITS_SHORT = {"watchdog": gettext_lazy("watchdog")}
ISOLATION_SHORT = {
    "own uid": gettext_lazy("own account"),
    "own namespaces": gettext_lazy("own view"),
    "shared account": gettext_lazy("shared account"),
}
CPU_PINNING = {
    "whole cores": gettext_lazy("each task stays on its own cores"),
    "balloons": gettext_lazy("each task stays on the cores near its card (nri-plugins)"),
    "static": gettext_lazy("tasks with whole cores stay on their own (the kubelet's CPU manager)"),
    "none": gettext_lazy("none"),
}
ENFORCEMENT = {
    "simulated": gettext_lazy("simulated"),
    "watchdog": gettext_lazy("not enforced, only watched"),
    "hami": gettext_lazy("enforced by HAMi-core in the program"),
    "slice": gettext_lazy("limited by the program's own library, and watched"),
    "nvfraction": gettext_lazy("enforced by the driver"),
    "mig": gettext_lazy("isolated by hardware (MIG)"),
}
SLICE_PLACEMENT = {
    "mounts": gettext_lazy(
        "In each task's own view of files, the library covers every copy of the driver's: full paths, an emptied "
        "environment, terminals and SSH all go through it."
    ),
    "library path": gettext_lazy(
        "This machine gives tasks no view of files of their own, so the library is found by LD_LIBRARY_PATH: a "
        "program that empties its environment or opens the driver by its full path bypasses it."
    ),
}
COMPUTE = {
    "turns": gettext_lazy("Compute is shared in turns, without a limit."),
    "mps": gettext_lazy(
        "Compute: NVIDIA's MPS limits each program to its slice's percentage of the multiprocessors. This is a "
        "cap and not a guarantee: a program can escape it on purpose, and a fault in one program can end all "
        "programs on the card."
    ),
}
FACT_NAMES = {
    "kernel": gettext_lazy("Kernel"),
    "driver": gettext_lazy("NVIDIA driver"),
    "python": gettext_lazy("Python"),
    "images": gettext_lazy("Images of jobs"),
}


class Card:
    """A physical card; `closed`: why nothing can start on it, or ""."""

    def __init__(self, view: CardView, closed: str, team_numbers: dict[str, int]):
        self.view = view
        self.closed = closed
        self._team_numbers = team_numbers

    @property
    def label(self) -> str:
        return _("GPU %(index)s of %(node)s") % {"index": self.view.place, "node": self.view.node}

    @cached_property
    def figures(self) -> CardFigures:
        view, slices = self.view, self.view.slices
        held = Held(len(slices), view.used_mib, view.used_percent, sum(part.milli for part in slices))
        own = view.model, view.product, view.sellable_mib, view.shared, view.max_slices, view.healthy
        return CardFigures(*own, not self.closed, held)

    @property
    def free_milli(self) -> int:
        """Return the thousandths of the card that a new task could get."""
        return self.figures.free_milli

    @property
    def fitting_sizes(self) -> tuple[str, ...]:
        """Return the SIZES with room now."""
        return self.figures.fitting_sizes

    @property
    def enforcement(self) -> str:
        return str(ENFORCEMENT.get(self.view.enforcement, self.view.enforcement))

    @property
    def use(self) -> str:
        """Say how busy it is and how much memory is in use, or that this is not known."""
        return describe_card_use(self.view.use, self.view.memory_mib)

    @property
    def heat(self) -> str:
        return describe_card_heat(self.view.use)

    @cached_property
    def segments(self) -> list[Segment]:
        """Return the bar: slices, free, and free but unusable."""
        if not self.view.healthy:
            title = _("This card is out of service.")
            return [Segment("fault", 1, words=_("out of service"), title=f"{title} {self.view.fault}".strip())]
        free = self.view.sellable_mib * self.free_milli // 1000
        rest = max(self.view.free_mib - free, 0)
        parts = [self._slice(part) for part in self.view.slices]
        if free:
            amount = show_gpu(self.free_milli)
            title = _("free: %(part)s") % {"part": f"{amount} · {show_memory(free)}"}
            parts.append(Segment("free", free, words=self._label(free, _("free"), amount), title=title))
        if rest * 100 > self.view.sellable_mib:  # else rounding
            parts.append(self._rest(rest))
        return parts

    def _slice(self, part: SliceView) -> Segment:
        kind = {TaskState.LOST: "stale", TaskState.STOPPING: "next"}.get(TaskState(part.state), "work")
        owner = None if part.own else self._team_numbers.get(part.team)
        if kind == "work" and owner is None and not part.own:
            kind = "other"
        size = show_memory(part.memory_mib)
        who = _("mine") if part.own else part.team_label
        state = str(TaskState(part.state).label)
        whose = [part.job_id, part.name, part.owner]
        activity = describe_share_activity(part.activity) if part.full and part.state == TaskState.RUNNING else ""
        return Segment(
            kind=kind,
            share=part.memory_mib,
            words=self._label(part.memory_mib, who, show_gpu(part.milli)),
            note=part.name or part.job_id if part.full and not self._is_narrow(part.memory_mib) else "",
            title=" · ".join(filter(None, [part.team_label, *whose, show_gpu(part.milli), size, state, activity])),
            href=reverse("job", args=[part.job_id]) if part.full else "",
            owner=owner,
            mine=part.own,
            activity=part.activity,
        )

    def _rest(self, mib: int) -> Segment:
        if self.closed:
            return Segment("next", mib, words=self._label(mib, _("closed"), ""), title=self.closed)
        why = _("free, but not usable now: %(memory)s without a slice or compute to go with it")
        return Segment(
            "fragment", mib, words=self._label(mib, _("fragment"), ""), title=why % {"memory": show_memory(mib)}
        )

    def _label(self, mib: int, words: str, amount: str) -> str:
        if 100 * mib < 7 * self.view.sellable_mib:
            return ""
        return amount if amount and self._is_narrow(mib) else f"{words} {amount}".strip()

    def _is_narrow(self, mib: int) -> bool:
        return 100 * mib < 20 * self.view.sellable_mib


class Machine:
    def __init__(self, view: NodeView, team_numbers: dict[str, int]):
        self.view = view
        self.node = view.node
        self.cards = [Card(card, self.closed, team_numbers) for card in view.cards]

    @cached_property
    def closed(self) -> str:
        """Return why nothing can start here, or ""."""
        if self.node.state == NodeState.READY:
            return next((words for words, begun in self.maintenance if begun), "")
        return _("%(node)s accepts no new work: %(state)s") % {
            "node": self.node.name,
            "state": self.node.get_state_display(),
        }

    @cached_property
    def maintenance(self) -> list[tuple[str, bool]]:
        """Its maintenance, current or planned: (sentence, whether it has begun)."""
        now = self.view.at or timezone.now()
        return [(describe_maintenance(self.node.name, row, now), row.begins_at <= now) for row in self.view.maintenance]

    @property
    def is_stale(self) -> bool:
        """Whether nothing was heard of it for too long to trust what is shown; its state says so of the past."""
        return self.view.at is None and timezone.now() - self.node.last_seen_at > STALE_AFTER

    @property
    def model_counts(self) -> list[tuple[str, int]]:
        """Card models with the number of each."""
        names = [card.view.model for card in self.cards]
        return [(name, names.count(name)) for name in dict.fromkeys(names)]

    @property
    def has_simulated_cards(self) -> bool:
        return any(card.view.simulated for card in self.cards)

    @property
    def is_sampled(self) -> bool:
        """Whether the use of a card is known, which changes without events."""
        return any(card.view.use is not None for card in self.cards)

    @property
    def use_rows(self) -> list[tuple[str, str]]:
        """Return what the machine itself uses now; [] if that is not known."""
        return describe_machine_use(self.view.use)

    @property
    def free_milli(self) -> int:
        return sum(card.free_milli for card in self.cards)

    @property
    def held_milli(self) -> int:
        return sum(card.figures.held.milli for card in self.cards)

    @property
    def memory_limit(self) -> str:
        return _fact(MEMORY_LIMITS, self.node.facts.get("memory_limit", ""))

    @property
    def isolation(self) -> str:
        return _fact(ISOLATION, self.node.facts.get("isolation", ""))

    @property
    def network(self) -> str:
        """Return what jobs have of the network, "" where the runtime does not say."""
        told = self.node.facts.get("network", "")
        return _fact(NETWORK, told) if told else ""

    @property
    def memory_limit_short(self) -> str:
        return _fact(MEMORY_LIMITS_SHORT, self.node.facts.get("memory_limit", ""))

    @property
    def isolation_short(self) -> str:
        return _fact(ISOLATION_SHORT, self.node.facts.get("isolation", ""))

    @property
    def process_limit(self) -> str:
        limit, most = (self.node.facts.get(name, "") for name in ("process_limit", "processes_most"))
        words = _fact(PROCESS_LIMITS, limit)
        return words % {"most": most} if limit in PROCESS_LIMITS else words

    @property
    def cpu_pinning(self) -> str:
        return _fact(CPU_PINNING, self.node.facts.get("cpu_pinning", ""))

    @property
    def slice_notes(self) -> list[str]:
        """Explain what slice mode enforces; [] without slices."""
        modes = {card.view.enforcement for card in self.cards}
        if "slice" not in modes:
            return [str(COMPUTE["turns"])] if "watchdog" in modes else []
        kept = _(
            "A program that does not try to bypass it cannot use more memory than its slice, be it by mistake or "
            "by default settings. A program that tries can: it can reach the driver without the library, or "
            "bring its own driver. The driver's figures for each process are checked too, and a task that stays "
            "above its slice is ended."
        )
        placed = _fact(SLICE_PLACEMENT, self.node.facts.get("slice_placement", ""))
        facts = self.node.facts
        compute = str(COMPUTE.get(facts.get("compute", ""), COMPUTE["turns"]))
        untried = _("None of this has been run on real hardware yet.")
        return [note for note in (kept, placed, compute, self._turns, facts.get("compute_words", ""), untried) if note]

    @property
    def _turns(self) -> str:
        """Name pools without MPS on a machine that has it, or ""."""
        if self.node.facts.get("compute") != "mps":
            return ""
        pools = sorted({card.view.pool for card in self.cards if not card.view.allows_mps})
        words = _("Slices of cards in %(pools)s still take turns without a limit: the pool does not allow MPS.")
        return words % {"pools": ", ".join(pools)} if pools else ""

    @property
    def other_facts(self) -> list[tuple[str, str]]:
        facts = self.node.facts
        return [(str(words), str(facts[name])) for name, words in FACT_NAMES.items() if facts.get(name)]

    @property
    def links(self) -> list[tuple[str, list[str]]]:
        """Return [(card, link types)] as `nvidia-smi topo -m`; [] if unknown."""
        rows = self.node.topology.get("links") or []
        known = len(rows) == len(self.cards)  # a card may be gone
        names = [card.view.place for card in self.cards] if known else range(len(rows))
        return [(f"GPU {name}", [str(word) for word in row]) for name, row in zip(names, rows, strict=True)]

    @property
    def hcas(self) -> list[dict]:
        """Return RDMA adapters as stored, with `near` in words: "0 PIX, 1 SYS"."""
        places = {str(card.view.index): card.view.place for card in self.cards}
        return [
            hca | {"near": ", ".join(f"{place} {hca['near'].get(index, '–')}" for index, place in places.items())}
            for hca in self.node.topology.get("hcas", ())
        ]

    @property
    def numa(self) -> list[dict]:
        """Return NUMA nodes as [{"id", "cpus", "memory_mib", "gpus"}]."""
        return [
            {
                "id": part["id"],
                "cpus": show_ranges(part.get("cpus", [])),
                "memory_mib": part.get("memory_mib"),
                "gpus": ", ".join(card.view.place for card in self.cards if card.view.numa == part["id"]),
            }
            for part in self.node.numa
        ]


def build_machines(views: Iterable[NodeView]) -> list[Machine]:
    views = list(views)
    teams = {part.team for view in views for card in view.cards for part in card.slices if part.team}
    numbers = dict(Team.objects.filter(name__in=teams).values_list("name", "pk"))
    return [Machine(view, numbers) for view in views]


def keep_pool(machines: Iterable[Machine], pool: str) -> list[Machine]:
    """Return the machines that have cards, with those of one pool alone if it is named."""
    machines = list(machines)
    for machine in machines:
        machine.cards = [card for card in machine.cards if not pool or card.view.pool == pool]
    return [machine for machine in machines if machine.cards]


def describe_maintenance(node: str, row: Maintenance, now: datetime) -> str:
    words = (
        _("%(node)s is under maintenance until %(until)s.")
        if row.begins_at <= now
        else _(
            "%(node)s goes into maintenance from %(from)s until %(until)s: jobs that would still be running then "
            "are not started."
        )
    )
    times = {"from": show_moment(row.begins_at, now), "until": show_moment(row.ends_at, now)}
    told = words % {"node": node, **times}
    return _("%(told)s Reason: %(why)s") % {"told": told, "why": row.why} if row.why else told


def show_moment(at: datetime, now: datetime) -> str:
    local = timezone.localtime(at)
    return date_format(local, "H:i" if local.date() == timezone.localtime(now).date() else "Y-m-d H:i")


def show_gpu_size(size: str) -> str:
    """Show one of SIZES: "½", "4 GB", "8"."""
    ask = parse_gpu(size)
    if ask.part is not None:
        return show_gpu(1000 * ask.part[0] // ask.part[1])
    return f"{ask.memory_gb} GB" if ask.memory_gb is not None else str(ask.count)


def show_ranges(numbers: Iterable[int]) -> str:
    """Show numbers as ranges: "0-3, 8"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _fact(words: dict, value: str) -> str:
    """Translate a fact; unknown values stay as they are."""
    return str(words.get(value, value)) or _("unknown")
