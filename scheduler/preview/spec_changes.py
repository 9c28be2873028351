"""Suggest changes of one job file field that could start a job sooner."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from common.errors import InvalidInput
from common.resources import MAX_GPU_PART, MIN_GPU_MEMORY_GB, GpuAsk, duration_text, matches_model, parse_gpu
from jobs.jobfile.spec import JobSpec, PlaceWish, place_json, span_of
from scheduler.loading.snapshots import Kind

MOST_HALVES = 3
MOST_MODELS = 3


@dataclass(frozen=True)
class Change:
    """A changed field. value, was: as the file writes them."""

    field: str
    value: str
    was: str
    spec: JobSpec


def list_change_families(
    spec: JobSpec, *, pool: str, pools: Iterable[str], kinds: Iterable[Kind], may_borrow: bool
) -> list[list[Change]]:
    """List groups of changes, the mildest first; roles stay, and priority, which helps one at the cost of others.

    pools: with a quota. may_borrow: preemptible jobs could use lent or borrowed cards.
    """
    families: list[list[Change]] = [
        [_borrow(spec)] if may_borrow else [],
        [_relax_place(spec)] if spec.place and spec.place.same else [],
        *([] if spec.roles else _list_smaller_tasks(spec, kinds)),
        *([Change("pool", other, pool, replace(spec, pool=other))] for other in pools if other != pool),
    ]
    return [family for family in families if family]


def _list_smaller_tasks(spec: JobSpec, kinds: Iterable[Kind]) -> list[list[Change]]:
    return [
        [_fewer(spec, count) for count in _list_halves(spec.nodes)],
        [_gpu_change(spec, ask) for ask in _list_smaller_requests(spec.gpu)],
        *([_gpu_change(spec, ask)] for ask in _other_models(spec.gpu, kinds)),
    ]


def _borrow(spec: JobSpec) -> Change:
    return Change("preemptible", "true", "" if spec.preemptible is None else "false", replace(spec, preemptible=True))


def _relax_place(spec: JobSpec) -> Change:
    """Prefer what all tasks must share."""
    assert spec.place is not None
    relaxed = PlaceWish(prefer=spec.place.same)
    was, value = (
        ", ".join(f"{key}: {level}" for key, level in place_json(one).items()) for one in (spec.place, relaxed)
    )
    return Change("place", value, was, replace(spec, place=relaxed))


def time_change(spec: JobSpec, time_s: float) -> Change:
    said = spec.time_s or spec.max_time_s
    was = duration_text(said) if said else ""
    return Change("time", duration_text(int(time_s)), was, replace(spec, time_s=int(time_s)))


def _fewer(spec: JobSpec, count: int) -> Change:
    fewer = replace(spec, nodes=count)
    return Change("nodes", str(span_of(fewer)), str(span_of(spec)), fewer)


def _gpu_change(spec: JobSpec, ask: GpuAsk) -> Change:
    return Change("gpu", ask.text, spec.gpu.text, replace(spec, gpu=ask))


def _list_halves(count: int) -> list[int]:
    """Return 4, 2, 1 for 8."""
    return [count >> step for step in range(1, MOST_HALVES + 1) if count >> step]


def _list_smaller_requests(ask: GpuAsk) -> list[GpuAsk]:
    """Return smaller requests: 4 cards become 2 and 1, one card 1/2 and 1/4, 10GB 5GB and 2.5GB."""
    if ask.memory_gb is not None:
        parts = [(ask.memory_gb / 2**step).quantize(Decimal("0.001")) for step in (1, 2)]
        return [_normalize(replace(ask, memory_gb=part)) for part in parts if part >= MIN_GPU_MEMORY_GB]
    if ask.count == 1:
        a, b = ask.part or (1, 1)
        return [_normalize(replace(ask, part=(a, b * n))) for n in (2, 4) if a * MAX_GPU_PART >= b * n]
    return [replace(ask, count=count) for count in _list_halves(ask.count)]


def _other_models(ask: GpuAsk, kinds: Iterable[Kind]) -> Iterator[GpuAsk]:
    """Yield requests that accept one more model."""
    others: dict[str, None] = {}
    if ask.models:
        for kind in kinds:
            if not any(matches_model(model, kind.model, kind.product) for model in ask.models):
                others[kind.model] = None
    for model in list(others)[:MOST_MODELS]:
        try:
            yield _normalize(replace(ask, models=(*ask.models, model)))
        except InvalidInput:  # no valid name, or too many models
            continue


def _normalize(ask: GpuAsk) -> GpuAsk:
    """Return the request in lowest terms."""
    return parse_gpu(ask.text)
