"""Sizes that are offered to somebody who starts a notebook: slices of the cards that the person's teams may use."""

from dataclasses import dataclass

from accounts.models import User
from cluster.models import Gpu, Pool
from common.resources import gpu_milli, parse_gpu, slice_of
from quotas.models import Quota

SIZES = ("1/4", "1/2", "1", "0")


@dataclass(frozen=True)
class Preset:
    """gpu: as in a job file, "0" for none. gpu_milli, gpu_memory_mib: of the pool's first card, 0 without one."""

    team: str
    pool: str
    gpu: str
    model: str
    gpu_milli: int
    gpu_memory_mib: int


def presets_for(user: User) -> list[Preset]:
    """For each team and pool where this person may start something, shared pools first. Whether it fits now is the
    preview's to say."""
    quotas = Quota.objects.filter(team__memberships__user=user, team__memberships__role__in=("member", "lead"))
    rows = quotas.select_related("team", "pool").order_by("team__name", "pool__name")
    found: list[Preset] = []
    for quota in sorted(rows, key=lambda quota: not quota.pool.shared):
        most = quota.gpu_milli_limit
        found += [
            preset
            for preset in _sizes(quota.team.name, quota.pool)
            if preset.gpu_milli == 0 or most is None or preset.gpu_milli <= most
        ]
    return found


def _sizes(team: str, pool: Pool) -> list[Preset]:
    card = Gpu.objects.present().filter(pool=pool).order_by("pk").first()
    made = []
    for text in SIZES:
        ask = parse_gpu(text)
        if ask.count == 0:
            made.append(Preset(team, pool.name, text, "", 0, 0))
        elif card is not None and (pool.shared or not ask.is_slice) and (share := slice_of(ask, card.sellable_mib)):
            milli = gpu_milli(share, card.sellable_mib)
            made.append(Preset(team, pool.name, text, card.model, milli, share.memory_mib))
    return made
