"""The bugs that the simulation must find."""

from uuid import uuid4

from jobs import control, lifecycle
from jobs.models import Job
from scheduler import lease
from scheduler.commit import starting
from scheduler.core.queueing import grow, maintenance
from scheduler.loading import change_detection, snapshots
from scheduler.reconcile import compare, observations, task_specs
from tests.loop.acts import lend
from tests.loop.database import Database
from tests.loop.expressions import Reader
from tests.loop.mutants import (
    Bug,
    calling,
    replacing,
    returning,
    without_argument,
    without_call,
    without_if,
    without_test,
)


class Counted:
    """A counter of what cards gave, which nobody ever lowers."""

    def __init__(self) -> None:
        self.taken: dict[int, tuple[int, ...]] = {}

    def __call__(self, asks: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
        before = dict(self.taken)
        for pk, more in asks.items():
            self.taken[pk] = tuple(a + b for a, b in zip(self.taken.get(pk, (0, 0, 0)), more, strict=True))
        return before


def unlocked_jobs(pks: object) -> list[Job]:
    return list(Job.objects.filter(pk__in=pks).order_by("pk"))


BUGS = (
    # the interpreter of a plan
    Bug("a start is not fenced by its epoch", starting.start_jobs, without_call("check_epoch"), seed=8),
    Bug("the team's limit is read without its lock", starting.lock_limits, calling("lock_rows", list), seed=6),
    Bug("a start does not lock its job", starting.assign_tasks, calling("lock_jobs", unlocked_jobs), seed=38),
    Bug(
        "cards are counted instead of summed",
        starting.check_gpus,
        replacing("sum_cards(gpus)", "counted(asks)", counted=Counted()),
    ),
    Bug("only one card of a task is held", starting._holdings, replacing("place.cards", "place.cards[:1]")),
    Bug("a start forgets that nodes are cordoned", starting.check_nodes, without_test("READY"), seed=9),
    Bug("a start overlooks who is held", starting.assign_tasks, without_test("held_at"), seed=5),
    Bug("a start does not look for maintenance", starting.start_jobs, without_call("check_maintenance"), seed=26),
    Bug(
        "a start takes cards that are lent no more",
        starting.check_gpus,
        without_test("is_lent"),
        often=(lend,),
        seed=45,
    ),
    Bug("a start forgets which pool it is in", starting.assign_tasks, without_call("_enter_pool")),
    Bug(
        "the limits of another pool are asked",
        starting.start_jobs,
        replacing("_enter_pool(found[step.job_id], step)", "found[step.job_id]"),
        seed=5,
    ),
    Bug(
        "what a gang grows by is not held",
        starting.assign_tasks,
        replacing("placed", "[(t, p) for t, p in placed if p.rank < sum(role['min'] for role in t.job.gang)]"),
        seed=6,
    ),
    # the interpreter of a round of reconciling
    Bug("an observation is not fenced by its epoch", observations.record_batch, without_call("check_epoch")),
    Bug("an observation does not lock its job", observations.record_batch, calling("lock_jobs", unlocked_jobs), seed=9),
    Bug("tasks that move together leave their jobs behind", lifecycle.move_tasks, without_call("settle_jobs")),
    Bug(
        "containers get random names",
        task_specs._build,
        replacing("task.uuid.hex", "random_name()", random_name=lambda: uuid4().hex),
    ),
    # what reconciling decides
    Bug(
        "who is asked to end is asked once",
        compare._compare_one,
        replacing("row.stop or row.state == T.STOPPING", "row.stop and row.state != T.STOPPING"),
        seed=69,
    ),
    Bug(
        "what cannot be seen is taken for dead",
        compare._compare_one,
        replacing(
            "TaskObserved(row.uuid, row.job_id, T.LOST, '', view)",
            "TaskObserved(row.uuid, row.job_id, T.FAILED, 'node_lost', view)",
        ),
        seed=33,
    ),
    Bug("a killed program succeeds", compare.find_end, replacing("view.exit_code == 0", "not view.exit_code"), seed=10),
    Bug(
        "containers are forgotten before their end is kept",
        compare.compare,
        replacing("ended & views.keys()", "views.keys()"),
    ),
    Bug("containers are never forgotten", compare.compare, replacing("steps.append(Forget(uuid))", "None")),
    # how tasks and jobs move
    Bug(
        "cards are given back when the stop is asked",
        lifecycle._advance_tasks,
        replacing("move.to not in HOLDING", "move.to not in HOLDING - {TaskState.STOPPING}"),
    ),
    Bug(
        "a retry is counted twice",
        lifecycle._another_try,
        replacing("job.retries_left - 1", "job.retries_left - 2"),
    ),
    Bug("a stopped job is tried again", lifecycle._another_try, without_if("stop_requested_at"), seed=6),
    Bug(
        "who made room is not queued again",
        lifecycle._another_try,
        replacing("because in MADE_ROOM", "not because"),
        seed=18,
    ),
    Bug("a retry keeps the number of its attempt", lifecycle.requeue_job, replacing("job.attempt + 1", "job.attempt")),
    Bug("the next attempt has no tasks", lifecycle.requeue_job, without_call("begin_attempt")),
    Bug("an elastic gang waits with its most", lifecycle.begin_attempt, replacing("role['min']", "role['max']")),
    Bug("a gang grows in its first attempt", lifecycle.add_tasks, replacing("job.attempt", "1")),
    Bug("a request to stop is not written", control.end_jobs, without_call("update"), seed=5),
    Bug(
        "a role that is done does not end its job",
        lifecycle._begin_columns,
        replacing("done and job.stop_requested_at is None", "job.stop_requested_at is not None"),
    ),
    Bug(
        "who is stopped after a job was done fails it",
        lifecycle._derive,
        without_argument("derive_job_state", "done"),
        seed=5,
    ),
    # what a cycle decides, and by what
    Bug("a gang grows by its most", grow._add_tasks, replacing("role.max - role.min", "role.max"), seed=6),
    Bug("each maintenance stops jobs", maintenance.list_maintenance_evictions, without_test("stops"), seed=74),
    Bug(
        "parents do not count what their teams hold",
        snapshots.build_team_arrays,
        replacing("list(chain)", "place"),
        seed=6,
    ),
    Bug("an idle cycle never looks again", change_detection.IdlePeriod.covers, returning("True")),
    # what statements ask
    Bug("any term may write", lease.check_epoch, without_argument("filter", "epoch"), seed=4),
    Bug("whoever ever ran counts", starting.count_active, without_argument("filter", "state__in")),
    Bug("nothing is given back", lifecycle._advance_tasks, replacing("task.uuid", "None")),
)

BUGS_OF_THE_MODEL = (
    Bug("the model's updates write nothing", Database.update, without_call("_write")),
    Bug("the model's sums are what the largest has", Reader.aggregate, replacing("sum(known)", "max(known)")),
    Bug("the model finds no row that it has to lock", Database.lock, returning("[]")),
)
"""Lists of steps that are run on PostgreSQL, too, find these."""
