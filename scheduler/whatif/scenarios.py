"""What could have been otherwise: changes of a history, each of which gives another history. Pure.

Words of `--what`, several of them in one scenario with commas between:

  nodes+4, nodes-2           machines more or fewer, like most of the first pool
  nodes.dev+1                of pool dev
  quota.nlp=24               the guarantee of team nlp in cards, in its only pool; a lower limit is raised to it
  quota.nlp.train.limit=48   guarantee, limit (none: no limit) or weight, in pool train
  pool.train.short_first=true    any setting of a pool's policy, as the API names them
  jobs+20/day, jobs-50%      more jobs, drawn from those of the history; or fewer of them, by chance
  jobs.preemptible=true      what batch jobs are, whatever they said

What is set so holds all the time: later changes of the same setting are left out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from django.core.exceptions import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cluster.models import NodeState, Pool
from cluster.services import POLICY
from jobs.models import JobKind
from monitoring.history.file_format import History, JobLine, QuotaLine

DAY_S = 86_400.0
MOST_NODES, MOST_JOBS = 10_000, 100_000
QUOTA_FIELDS = {"guarantee": "gpu_milli_guarantee", "limit": "gpu_milli_limit", "weight": "weight"}
SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
WORDS = "nodes+4, quota.TEAM=24, pool.POOL.SETTING=VALUE, jobs+20/day, jobs-50%, jobs.preemptible=true or FILE.yaml"

Change = Callable[[History, Random], History]


@dataclass(frozen=True)
class Scenario:
    """Changes of a history under one name. chance: whether they are drawn, so that each seed gives another history."""

    name: str
    changes: tuple[Change, ...]
    chance: bool = False

    def apply(self, history: History, seed: int) -> History:
        """Raises ValueError, which names the change and the remedy."""
        dice = Random(seed)  # noqa: S311 (no secret is drawn)
        for change in self.changes:
            history = change(history, dice)
        return history


def read_scenario(text: str) -> Scenario:
    """Read words, or a YAML file {name, what: [words]}. Raises ValueError, OSError."""
    if text.endswith((".yaml", ".yml")):
        name, words = _read_file(Path(text))
    else:
        name, words = text, [word.strip() for word in text.split(",")]
    found = [_read_word(word) for word in words]
    return Scenario(name, tuple(change for change, _ in found), any(chance for _, chance in found))


def _read_file(path: Path) -> tuple[str, list[str]]:
    try:
        data = YAML(typ="safe").load(path.read_text())
    except YAMLError as error:
        raise ValueError(f"{path.name} is not YAML: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path.name} is not a mapping of name and what")
    if unknown := sorted(map(str, data.keys() - {"name", "what"})):
        raise ValueError(f"{path.name}: unknown: {', '.join(unknown)}; known: name, what")
    words = data.get("what")
    if not isinstance(words, list) or not words:
        raise ValueError(f"{path.name}: what is a list of changes, such as [nodes+4, quota.nlp=24]")
    return str(data.get("name") or path.stem), [str(word) for word in words]


def _read_word(word: str) -> tuple[Change, bool]:
    """Return the change, and whether it is drawn."""
    for pattern, read, chance in READERS:
        if found := re.fullmatch(pattern, word):
            return read(word, **found.groupdict()), chance
    raise ValueError(f"{word!r} is no change. Known are {WORDS}")


def _read_nodes(word: str, pool: str | None, sign: str, count: str) -> Change:
    if int(count) > MOST_NODES:
        raise ValueError(f"{word}: {MOST_NODES} machines at most")
    return lambda history, dice: _change_nodes(history, word, pool, int(sign + count))


def _change_nodes(history: History, word: str, pool: str | None, count: int) -> History:
    pool = _known(word, "pool", pool or history.pools[0].name, [one.name for one in history.pools])
    own = [machine for machine in history.machines if machine.pool == pool and machine.state]
    if not own:
        raise ValueError(f"{word}: pool {pool} has no machine to go by. Name another: nodes.POOL+1")
    if count < 0:
        if len(own) < -count:
            raise ValueError(f"{word}: pool {pool} has only {len(own)} machines")
        return _without_machines(history, {machine.name for machine in own[count:]})
    shapes = [tuple((card["model"], card["memory_mib"]) for card in machine.cards) for machine in own]
    usual = own[shapes.index(Counter(shapes).most_common(1)[0][0])]
    cards = [{**card, "healthy": True} for card in usual.cards]
    more = [replace(usual, name=f"new-{n}", state=NodeState.READY.value, cards=cards) for n in range(1, count + 1)]
    return replace(history, machines=(*history.machines, *more))


def _without_machines(history: History, gone: set[str]) -> History:
    """Return it without machines. What ran there at the beginning runs nowhere: it waits from then on."""
    kept = tuple(machine for machine in history.machines if machine.name not in gone)
    changes = tuple(c for c in history.changes if c.of not in ("machine", "card") or c.which[0] not in gone)
    planned = tuple(
        replace(one, machines=[name for name in one.machines if name not in gone]) for one in history.maintenances
    )
    return replace(history, machines=kept, changes=changes, maintenances=planned)


def _read_quota(word: str, team: str, pool: str | None, what: str | None, value: str) -> Change:
    field = QUOTA_FIELDS[what or "guarantee"]
    if value == "none":
        if what != "limit":
            raise ValueError(f"{word}: only a limit can be none. Give a number")
        return lambda history, dice: _set_quota(history, word, team, pool, {field: None})
    number = float(value)
    amount = round(number) if what == "weight" else round(1000 * number)
    if what == "weight" and not 1 <= amount <= 1000:
        raise ValueError(f"{word}: a weight is 1 to 1000")
    return lambda history, dice: _set_quota(history, word, team, pool, {field: amount})


def _set_quota(history: History, word: str, team: str, pool: str | None, values: dict[str, Any]) -> History:
    _known(word, "team", team, [one.name for one in history.teams])
    pools = [quota.pool for quota in history.quotas if quota.team == team]
    if pool is None and len(pools) != 1:
        where = f"has quota in {', '.join(pools)}" if pools else "has no quota"
        raise ValueError(f"{word}: {team} {where}. Name the pool: quota.{team}.POOL=24")
    pool = _known(word, "pool", pool or pools[0], [one.name for one in history.pools])
    before = next((q for q in history.quotas if (q.team, q.pool) == (team, pool)), QuotaLine(team, pool, {}))
    others = tuple(quota for quota in history.quotas if quota is not before)
    row = replace(before, values=_raise_limit({**before.values, **values}, values))
    changes = [
        replace(one, values=_raise_limit({k: v for k, v in one.values.items() if k not in values}, values))
        if one.of == "quota" and one.which == [team, pool] and one.values is not None
        else one
        for one in history.changes
    ]
    return replace(history, quotas=(*others, row), changes=tuple(changes))


def _raise_limit(row: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """A limit is not below a guarantee that is set."""
    least, limit = values.get("gpu_milli_guarantee", 0), row.get("gpu_milli_limit")
    return row | ({"gpu_milli_limit": least} if limit is not None and limit < least else {})


def _read_pool(word: str, pool: str, setting: str, value: str) -> Change:
    if setting not in POLICY:
        raise ValueError(f"{word}: a pool has no setting {setting}. Known are {', '.join(POLICY)}")
    try:
        field: Any = Pool._meta.get_field(setting)
        found = field.clean(_plain(value), Pool())
    except ValidationError as error:
        raise ValueError(f"{word}: {' '.join(error.messages)}") from None
    return lambda history, dice: _set_policy(history, word, pool, {setting: found})


def _plain(value: str) -> Any:
    return SWITCHES.get(value, None if value == "none" else value)


def _set_policy(history: History, word: str, pool: str, values: dict[str, Any]) -> History:
    _known(word, "pool", pool, [one.name for one in history.pools])
    pools = [replace(one, policy={**one.policy, **values}) if one.name == pool else one for one in history.pools]
    for one in pools:
        try:
            Pool(name=one.name, **one.policy).clean()
        except ValidationError as error:
            raise ValueError(f"{word}: {' '.join(error.messages)}") from None
    changes = [
        replace(one, values={k: v for k, v in (one.values or {}).items() if k not in values})
        if one.of == "pool" and one.which == [pool]
        else one
        for one in history.changes
    ]
    return replace(history, pools=tuple(pools), changes=tuple(changes))


def _read_more_jobs(word: str, count: str) -> Change:
    return lambda history, dice: _draw_jobs(history, word, float(count), dice)


def _draw_jobs(history: History, word: str, per_day: float, dice: Random) -> History:
    """Draw jobs of the history again, each at its hour of another day, as they come about as before."""
    begins, ends = history.header.begins, history.header.ends
    days = (ends - begins) / DAY_S
    count = round(per_day * days)
    came = [job for job in history.jobs if begins <= job.submitted_at < ends and _is_known(job)]
    if not came or count > MOST_JOBS:
        raise ValueError(f"{word}: " + (f"{MOST_JOBS} jobs at most" if came else "the history has no job to draw from"))
    first = max(job.id for job in history.jobs) + 1
    more = (_moved(dice.choice(came), first + n, history, dice) for n in range(count))
    return replace(history, jobs=(*history.jobs, *more))


def _is_known(job: JobLine) -> bool:
    """Whether it ended by itself, so that its length is known."""
    return bool(job.attempts) and job.attempts[-1].freed_at is not None


def _moved(job: JobLine, number: int, history: History, dice: Random) -> JobLine:
    begins, ends = history.header.begins, history.header.ends
    days = max(int((ends - begins) / DAY_S), 1)
    at = begins + (job.submitted_at - begins) % DAY_S + DAY_S * dice.randrange(days)
    by_s = at - job.submitted_at
    attempts = [
        replace(one, queued_at=one.queued_at + by_s, **_shift(one, by_s), seats=[], lost=[]) for one in job.attempts
    ]
    return replace(job, id=number, submitted_at=at, attempts=attempts, holds=[], ended_at=(job.ended_at or at) + by_s)


def _shift(attempt: Any, by_s: float) -> dict[str, float | None]:
    names = ("assigned_at", "started_at", "saved_at", "freed_at")
    return {name: None if getattr(attempt, name) is None else getattr(attempt, name) + by_s for name in names}


def _read_fewer_jobs(word: str, percent: str) -> Change:
    share = float(percent) / 100
    if not 0 <= share <= 1:
        raise ValueError(f"{word}: 0 to 100 % of the jobs can be left out")
    return lambda history, dice: replace(
        history, jobs=tuple(job for job in history.jobs if _stays(job, history) or dice.random() >= share)
    )


def _stays(job: JobLine, history: History) -> bool:
    return job.submitted_at < history.header.begins


def _read_preemptible(word: str, value: str) -> Change:
    if value not in SWITCHES:
        raise ValueError(f"{word}: it is true or false")
    return lambda history, dice: replace(
        history,
        jobs=tuple(_let_be_stopped(job, SWITCHES[value]) if job.kind == JobKind.BATCH else job for job in history.jobs),
    )


def _let_be_stopped(job: JobLine, may: bool) -> JobLine:
    return replace(job, preemptible=may, choices=[{**choice, "preemptible": may} for choice in job.choices])


def _known(word: str, what: str, name: str, names: Iterable[str]) -> str:
    known = list(names)
    if name not in known:
        raise ValueError(f"{word}: the history has no {what} {name}. It has {', '.join(known)}")
    return name


NAME, NUMBER = r"[\w.-]+?", r"\d+(?:\.\d+)?"
READERS: tuple[tuple[str, Callable[..., Change], bool], ...] = (
    (r"nodes(?:\.(?P<pool>[\w-]+))?(?P<sign>[+-])(?P<count>\d{1,9})", _read_nodes, False),
    (
        rf"quota\.(?P<team>{NAME})(?:\.(?P<pool>[\w-]+?))??(?:\.(?P<what>guarantee|limit|weight))?"
        rf"=(?P<value>{NUMBER}|none)",
        _read_quota,
        False,
    ),
    (r"pool\.(?P<pool>[\w-]+)\.(?P<setting>\w+)=(?P<value>[\w.-]+)", _read_pool, False),
    (rf"jobs\+(?P<count>{NUMBER})/day", _read_more_jobs, True),
    (rf"jobs-(?P<percent>{NUMBER})%", _read_fewer_jobs, True),
    (r"jobs\.preemptible=(?P<value>\w+)", _read_preemptible, False),
)
