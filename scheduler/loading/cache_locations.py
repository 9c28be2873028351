"""Which nodes hold data and images that waiting jobs fetch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from accounts.models import Team, User
from cluster.models import Cached
from datasets.naming import is_dataset_name
from jobs.jobfile.spec import JobSpec
from jobs.jobfile.values import split_source
from runtimes.images.names import make_image_key
from runtimes.storage.areas import AreaId, make_data_key
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CachedContent, Role, TaskPlacement
from scheduler.loading.row_cache import cached_rows

NodesByContent = dict[str, dict[int, int]]
"""{content key: {node index: bytes held there}}."""


class SourcesRow(NamedTuple):
    """A waiting job's `data` and `image`."""

    pk: int
    user_id: int
    team_id: int
    data: dict[str, str] | None
    image: str | None


@dataclass(frozen=True)
class CacheLocations:
    """Cached content, indices by key, and {job id: indices of what it reads}."""

    contents: tuple[CachedContent, ...] = ()
    number: dict[str, int] = field(default_factory=dict)
    of_job: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _shared: dict[tuple, tuple[Role, ...]] = field(default_factory=dict)

    def with_fetch(self, job_id: int, gang: tuple[Role, ...]) -> tuple[Role, ...]:
        """Return the gang with `fetch` set; similar jobs share one tuple."""
        return self.share_with_fetch(self.of_job.get(job_id, ()), gang)

    def share_with_fetch(self, fetch: tuple[int, ...], gang: tuple[Role, ...]) -> tuple[Role, ...]:
        if not fetch:
            return gang
        if (gang, fetch) not in self._shared:
            self._shared[gang, fetch] = tuple(replace(role, ask=replace(role.ask, fetch=fetch)) for role in gang)
        return self._shared[gang, fetch]


def load_cache_locations(places: Mapping[int, int], besides: Iterable[str] = ()) -> CacheLocations:
    """Load what waiting jobs fetch and who holds it. besides: further keys.

    Content on all nodes alike is omitted.
    """
    if len(places) < 2 or not Cached.objects.exists():
        return CacheLocations()
    columns = ("pk", "user_id", "team_id", "spec__data", "spec__image")
    rows = [row for row in cached_rows("queue", SourcesRow, *columns) if row.data or row.image]
    uids = dict(User.objects.filter(pk__in={row.user_id for row in rows}).values_list("pk", "uid"))
    gids = dict(Team.objects.filter(pk__in={row.team_id for row in rows}).values_list("pk", "gid"))
    reads = {row.pk: list_content_keys(row, uids[row.user_id], gids[row.team_id]) for row in rows}
    keys = {key for keys in reads.values() for key in keys} | set(besides)
    return build_cache_locations(reads, load_nodes_with(keys, places), len(places))


def held_bytes(snapshot: Snapshot) -> Callable[[int, TaskPlacement], int]:
    """Return a function (job id, place) -> bytes already on that node."""
    waiting = snapshot.waiting if snapshot.contents else ()
    fetch_of = {job.job: job.gang[0].ask.fetch for job in waiting if job.gang[0].ask.fetch}

    def held(job: int, place: TaskPlacement) -> int:
        contents = (snapshot.contents[number] for number in fetch_of.get(job, ()))
        return sum(int(content.bytes[content.nodes == place.node].sum()) for content in contents)

    return held


def list_content_keys(said: SourcesRow | JobSpec, uid: int, gid: int) -> tuple[str, ...]:
    """Return `cluster.Cached` keys of what a job fetches."""
    numbers = {"home": uid, "team": gid}
    sources = (split_source(text)[:2] for text in (said.data or {}).values() if not is_dataset_name(text))
    own = [(kind, path) for kind, path in sources if kind in numbers]  # volumes are the same on every machine
    keys = {make_data_key(AreaId(kind, numbers[kind]), path) for kind, path in own}  # type: ignore[arg-type]
    return tuple(sorted(keys | ({make_image_key(said.image)} if said.image else set())))


def load_nodes_with(keys: Iterable[str], places: Mapping[int, int]) -> NodesByContent:
    held: NodesByContent = {}
    for key, node, size in Cached.objects.filter(key__in=keys).values_list("key", "node_id", "bytes"):
        if node in places and size > 0:
            held.setdefault(key, {})[places[node]] = size
    return held


def build_cache_locations(reads: Mapping[int, tuple[str, ...]], held: NodesByContent, nodes: int) -> CacheLocations:
    telling = sorted(key for key, on in held.items() if len(on) < nodes or len(set(on.values())) > 1)
    number = {key: place for place, key in enumerate(telling)}
    contents = tuple(CachedContent(np.array([*held[key]]), np.array([*held[key].values()])) for key in telling)
    of_job = {job: tuple(number[key] for key in keys if key in number) for job, keys in reads.items()}
    return CacheLocations(contents, number, {job: fetch for job, fetch in of_job.items() if fetch})
