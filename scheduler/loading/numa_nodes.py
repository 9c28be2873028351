"""Load what is free on each NUMA node of each machine."""

import json
from collections.abc import Sequence

import numpy as np

from scheduler.loading.holdings import NONE, Holdings
from scheduler.loading.running_jobs import ArrayIndex


def build_numa(stored: Sequence[str], cpu_total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids [N, Z], padded with NONE; milli and MiB of each [N, Z, 2]).

    stored: Node.numa of each machine as JSON. cpu_total: milli of each machine, divided by the cores of its NUMA nodes.
    """
    machines = [[each for each in json.loads(text) if each["cpus"]] for text in stored]
    most = max(map(len, machines), default=0)
    ids, total = np.full((len(machines), most), NONE), np.zeros((len(machines), most, 2), dtype=np.int64)
    for at, (parts, milli) in enumerate(zip(machines, cpu_total.tolist(), strict=True)):
        cores = sum(len(each["cpus"]) for each in parts)
        for place, each in enumerate(parts):
            ids[at, place] = each["id"]
            total[at, place] = milli * len(each["cpus"]) // cores, each["memory_mib"]
    return ids, total


def index_numa(ids: np.ndarray, node_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return {(node's id, NUMA node): its place}, of nodes with several."""
    rows = zip(node_ids, ids.tolist(), strict=True)
    several = ((pk, row) for pk, row in rows if len(set(row) - {NONE}) > 1)
    return {(pk, one): place for pk, row in several for place, one in enumerate(row) if one != NONE}


def find_numa(ids: np.ndarray, nodes: Sequence[int], numa: Sequence[int | None]) -> np.ndarray:
    """Return the place of each NUMA node among those of its machine, NONE if it is not known."""
    wanted = np.array([NONE if one is None else one for one in numa], dtype=np.int64)
    return _find_places(ids, np.array(nodes, dtype=np.int64), wanted)


def count_free_numa(ids: np.ndarray, total: np.ndarray, holdings: Holdings, places: ArrayIndex) -> np.ndarray:
    """Return what nobody holds, [N, Z, 2]; what is held without a NUMA node counts evenly on all of the machine."""
    count, most, _ = total.shape
    if not most or not holdings.rows:
        return total
    at = holdings.places_of("node", places.node, count)
    near = _find_places(ids, np.minimum(at, count - 1), holdings.of("numa"))
    known = (at < count) & (near >= 0)
    own = holdings.sums(count * most, np.where(known, at * most + near, count * most))[:, 1:3].reshape(total.shape)
    loose = holdings.sums(count, np.where(known, count, at))[:, None, 1:3]
    return total - own - loose // np.maximum((ids != NONE).sum(axis=1), 1)[:, None, None]


def _find_places(ids: np.ndarray, nodes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    same = (ids[nodes] == wanted[:, None]) & (wanted >= 0)[:, None]
    return np.where(same.any(axis=1), same.argmax(axis=1) if ids.shape[1] else NONE, NONE)
