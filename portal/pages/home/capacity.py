"""View model of the rail of the home page: what could start now, what is free, and what one's teams hold."""

from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from common.resources import show_gpu, show_memory
from jobs.submit import find_submit_refusal
from notebooks.presets import Preset
from portal.access.idle_rows import IdleRow, list_idle_rows
from portal.pages.notebooks.sizes import PresetOffers, Size
from portal.pages.own_limits import FullLimit, describe_start_limit
from portal.wording.errors import describe_error
from quotas.models import Holding, Quota, list_subtree, load_parents
from scheduler.preview.preview import PoolCapacity, list_capacity

MOST_IDLE = 4


@dataclass(frozen=True)
class QuotaLine:
    """A team's GPU usage and quota in a pool, and what is free there, in thousandths of a card."""

    team: str
    pool: str
    used: int
    guarantee: int
    limit: int | None
    free: int

    @property
    def usage_text(self) -> str:
        """Usage against guarantee and limit, in a sentence."""
        params = {name: show_gpu(getattr(self, name) or 0) for name in ("used", "guarantee", "limit")}
        if self.limit is None:
            return _("GPUs: %(used)s used, %(guarantee)s guaranteed, no limit") % params
        return _("GPUs: %(used)s used, %(guarantee)s guaranteed, limit %(limit)s") % params


class Capacity:
    """What one person could start now; the world is loaded once, when it is first asked."""

    def __init__(self, user: User):
        self.user = user
        self._offers = PresetOffers(user)

    @cached_property
    def rooms(self) -> list[PoolCapacity]:
        """Return the pools with a quota for the user."""
        mine = {line.pool for line in self.quotas}
        return [room for room in self._all_rooms if room.pool in mine]

    @cached_property
    def _all_rooms(self) -> list[PoolCapacity]:
        return list_capacity(self.user, starts=True, queue=self._offers.queue)

    @property
    def answer(self) -> str:
        """Say what could start now."""
        if not self.quotas:
            return _("None of your teams has quota in a pool yet. Ask an admin for quota.")
        offers = [words for room in self.rooms if (words := offer(room))]
        if offers:
            return _("You can start now: %(offers)s") % {"offers": " · ".join(offers)}
        if not any(room.models for room in self.rooms):
            return _("There are no GPUs here. Jobs without a GPU can start.")
        if refusal := find_submit_refusal(self.user):
            return describe_error(refusal)
        free = [room for room in self.rooms if room.free_milli]
        if not free:
            return _("No GPU is free for you now. Jobs that you submit wait in the queue and start automatically.")
        if not any(may_use(room) for room in free):
            return _(
                "GPUs are free, but not within your limits. Jobs that you submit wait in the queue and start "
                "automatically."
            )
        if any(size.starts and size.gpu != "0" for _preset, size in self.presets):
            return _(
                "You can start a notebook now. A usual job would wait: the GPUs that are free are kept for others or "
                "for a maintenance."
            )
        return _(
            "GPUs are free, but kept for others or for a maintenance: a usual job would wait. The form says what lets "
            "it start now."
        )

    @cached_property
    def quotas(self) -> list[QuotaLine]:
        parents, held = load_parents(), Holding.objects.live().totals_by("team", "pool")
        own = Quota.objects.filter(team__memberships__user=self.user).select_related("team", "pool")
        free = {room.pool: room.free_milli for room in self._all_rooms}
        return [quota_line(quota, held, parents, free) for quota in own.order_by("team__name", "pool__name")]

    @cached_property
    def idle(self) -> list[IdleRow]:
        """What one's teams hold and do not use, the largest loss first."""
        return [row for row in list_idle_rows(self.user) if row.team in self._teams][:MOST_IDLE]

    @cached_property
    def _teams(self) -> set[str]:
        return set(self.user.teams.values_list("name", flat=True))

    @property
    def presets(self) -> list[tuple[Preset, Size]]:
        return self._offers.possible

    @cached_property
    def full(self) -> FullLimit | None:
        return describe_start_limit(self._offers.limit, self.user)


def offer(room: PoolCapacity) -> str:
    """Say what the user could start in a pool now, or ""."""
    params = {"count": room.starts_whole, "models": ", ".join(room.models), "pool": room.pool}
    if room.starts_whole:
        return (
            ngettext(
                "%(count)s whole %(models)s in %(pool)s", "%(count)s whole %(models)s in %(pool)s", room.starts_whole
            )
            % params
        )
    if room.starts_slice_mib:
        params["memory"] = show_memory(room.starts_slice_mib)
        return _("a slice of up to %(memory)s in %(pool)s") % params
    return ""


def may_use(room: PoolCapacity) -> bool:
    """Whether the limits allow some of what a pool gives out: of split cards a slice, else a card."""
    return room.may_milli is None or room.may_milli >= (1 if room.shared else 1000)


def quota_line(
    quota: Quota, held: dict[tuple, tuple[int, int, int]], parents: dict[int, int | None], free: dict[str, int]
) -> QuotaLine:
    """Return a team's quota line; usage includes sub-teams."""
    below = list_subtree(quota.team_id, parents)
    used = sum(held[team, quota.pool_id][0] for team in below if (team, quota.pool_id) in held)
    amounts = used, quota.gpu_milli_guarantee, quota.gpu_milli_limit, free.get(quota.pool.name, 0)
    return QuotaLine(quota.team.name, quota.pool.name, *amounts)
