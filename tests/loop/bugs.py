"""Bugs for the simulation to find: each changes one place in the product's source, for the length of a test."""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType
from uuid import uuid4

import pytest
from loop.answers import replace_everywhere

from jobs import lifecycle
from scheduler import lease
from scheduler.commit import starting, store
from scheduler.core.queueing import grow, maintenance
from scheduler.loading import change_detection, snapshots
from scheduler.reconcile import compare, observations, task_specs


@dataclass(frozen=True)
class Bug:
    """In `module`, `old` (which stands there once) becomes `new`.

    seed: of the first life that is tried, for what shows in few.
    """

    name: str
    module: ModuleType
    old: str
    new: str
    seed: int = 0


BUGS = (
    # the interpreter of a plan
    Bug(
        "a start is not fenced by its epoch",
        starting,
        'check_epoch("cycle", epoch)\n    jobs = load_jobs',
        "jobs = load_jobs",
    ),
    Bug(
        "the team's limit is read without its lock",
        starting,
        "for row in lock_quota(team, job.pool_id)]",
        "for row in unlocked_quota(team, job.pool_id)]",
    ),
    Bug("a start does not lock its job", starting, "jobs = lock_jobs([step", "jobs = load_jobs([step"),
    Bug("cards are counted instead of summed", starting, "taken = sum_cards(gpus)", "taken = counted(asks)"),
    Bug(
        "only one card of a task is held",
        starting,
        "for card in place.cards:\n        share",
        "for card in place.cards[:1]:\n        share",
    ),
    Bug(
        "a start forgets that nodes are cordoned",
        starting,
        "node.state != NodeState.READY or node.removed",
        "node.removed",
    ),
    Bug("a start overlooks who is held", starting, "or locked.held_at is not None or", "or"),
    Bug("a start does not look for maintenance", starting, "    check_maintenance(jobs, nodes)\n", ""),
    Bug(
        "a start takes cards that are lent no more",
        starting,
        "for pool in lenders if now and is_lent(pool, pool_id, now, stays_s)}",
        "for pool in lenders}",
        seed=330,
    ),
    Bug(
        "what a gang grows by is not held",
        starting,
        "for task, place in placed for",
        "for task, place in placed if place.rank < sum(role['min'] for role in task.job.gang) for",
    ),
    # the interpreter of a round of reconciling
    Bug(
        "a observation is not fenced by its epoch",
        observations,
        'check_epoch("reconcile", epoch)\n    jobs = {',
        "jobs = {",
    ),
    Bug("a observation does not lock its job", observations, "for job in lock_jobs(", "for job in unlocked_jobs("),
    Bug(
        "tasks that move together leave their jobs behind",
        lifecycle,
        "settle_jobs([*{move.task.job_id: move.task.job for move in moves}.values()], actor=actor)",
        "pass",
    ),
    Bug("containers get random names", task_specs, "uuid=task.uuid.hex,", "uuid=random_name(),"),
    # what reconciling decides
    Bug(
        "who is asked to end is asked once",
        compare,
        "if row.stop or row.state == T.STOPPING:",
        "if row.stop and row.state != T.STOPPING:",
        seed=59,
    ),
    Bug(
        "what cannot be seen is taken for dead",
        compare,
        'T.LOST, "", view)]',
        'T.FAILED, "node_lost", view)]',
    ),
    Bug("a killed program succeeds", compare, "if view.exit_code == 0 else", "if not view.exit_code else"),
    Bug("containers are forgotten before their end is kept", compare, "ended & views.keys()", "views.keys()"),
    Bug("containers are never forgotten", compare, "steps.append(Forget(uuid))", "pass"),
    # how tasks and jobs move
    Bug(
        "cards are given back when the stop is asked",
        lifecycle,
        "in HOLDING and move.to not in HOLDING]",
        "in HOLDING and move.to not in HOLDING - {TaskState.STOPPING}]",
    ),
    Bug(
        "a retry is counted twice",
        lifecycle,
        '"retries_left": job.retries_left - 1',
        '"retries_left": job.retries_left - 2',
    ),
    Bug(
        "a stopped job is tried again",
        lifecycle,
        "    if job.stop_requested_at is not None:\n        return None\n    if because in MADE_ROOM:",
        "    if because in MADE_ROOM:",
    ),
    Bug(
        "who made room is not queued again",
        lifecycle,
        "if because in MADE_ROOM:",
        "if not because:",
    ),
    Bug(
        "a retry keeps the number of its attempt",
        lifecycle,
        '"attempt": job.attempt + 1,\n',
        '"attempt": job.attempt,\n',
    ),
    Bug("the next attempt has no tasks", lifecycle, "    begin_attempt(job)\n    hint", "    hint"),
    Bug(
        "an elastic gang waits with its most",
        lifecycle,
        'for _ in range(role["min"])]',
        'for _ in range(role["max"])]',
    ),
    Bug(
        "a gang grows in its first attempt",
        lifecycle,
        "attempt=job.attempt) for rank, role in roles.items())",
        "attempt=1) for rank, role in roles.items())",
    ),
    Bug("the job is not read anew", lifecycle, "    reload_job(job)\n", ""),
    Bug(
        "a role that is done does not end its job",
        lifecycle,
        "if done and job.stop_requested_at is None:",
        "if job.stop_requested_at is not None:",
    ),
    Bug(
        "who is stopped after a job was done fails it",
        lifecycle,
        "stopping=stopping, done=done)",
        "stopping=stopping)",
    ),
    # what a cycle decides, and by what
    Bug("a gang grows by its most", grow, "for _ in range(role.max - role.min):", "for _ in range(role.max):"),
    Bug("each maintenance stops jobs", maintenance, "if closing.stops and closing.at", "if closing.at"),
    Bug("parents do not count what their teams hold", snapshots, "held[list(chain)] +=", "held[place] +="),
    Bug(
        "an idle cycle never looks again",
        change_detection,
        "return mark == self.mark and now < self.until",
        "return True",
    ),
)

BUGS_OF_STATEMENTS = (
    Bug("any term may write", lease, 'AND epoch = %s FOR SHARE", [name, epoch]', 'FOR SHARE", [name]'),
    Bug("whoever ever ran counts", store, "filter(user=user_id, state__in=JOB_ACTIVE)", "filter(user=user_id)"),
    Bug(
        "nothing is given back",
        lifecycle,
        "filter(task__in=[task.uuid for task in tasks]).release()",
        "none().release()",
    ),
)
"""The model has its own statements, so the lists of steps find these, which the simulation never runs."""


def unlocked_quota(team_id: int, pool_id: int) -> list:
    return [row for row in snapshots.load_quotas() if (row.team_id, row.pool_id) == (team_id, pool_id)]


class Counted:
    """A counter of what cards gave, which nobody ever lowers."""

    def __init__(self) -> None:
        self.taken: dict[int, tuple[int, ...]] = {}

    def __call__(self, asks: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
        before = dict(self.taken)
        for pk, more in asks.items():
            self.taken[pk] = tuple(a + b for a, b in zip(self.taken.get(pk, (0, 0, 0)), more, strict=True))
        return before


def plant(patch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Compile the function in which `bug.old` stands from the changed source, and put it in the old one's place."""
    source = inspect.getsource(bug.module)
    assert source.count(bug.old) == 1, f"{bug.name}: {source.count(bug.old)} places"
    line = source[: source.index(bug.old)].count("\n") + 1
    owner, function = enclosing(ast.parse(source), line)
    first = min([function.lineno, *(mark.lineno for mark in function.decorator_list)])
    changed = "\n".join(source.splitlines()[first - 1 : function.end_lineno]).replace(
        bug.old.rstrip("\n"), bug.new.rstrip("\n")
    )
    place = bug.module.__dict__
    helpers = {
        "unlocked_quota": unlocked_quota,
        "unlocked_jobs": lambda pks: store.load_jobs([*pks]),
        "counted": Counted(),
        "random_name": lambda: uuid4().hex,
    }
    for name, helper in helpers.items():
        patch.setitem(place, name, helper)
    kept = place.get(function.name)
    exec(compile(textwrap.dedent(changed), bug.module.__name__, "exec"), place)
    planted = place[function.name]
    if owner is not None:
        del place[function.name]
        patch.setattr(place[owner.name], function.name, planted)
    else:
        place[function.name] = kept
        replace_everywhere(patch, kept, planted)


def enclosing(tree: ast.Module, line: int) -> tuple[ast.ClassDef | None, ast.FunctionDef]:
    """The function of the module, or the method of a class, in which this line stands."""
    for node in tree.body:
        if node.lineno <= line <= (node.end_lineno or 0):
            if isinstance(node, ast.ClassDef):
                return node, next(
                    f for f in node.body if isinstance(f, ast.FunctionDef) and f.lineno <= line <= f.end_lineno
                )
            assert isinstance(node, ast.FunctionDef)
            return None, node
    raise AssertionError(f"no function at line {line}")
