"""MPI in pods: a job file's launcher starts programs in its workers by ssh, as each of them runs under `restricted`."""

import pytest

from dev.cluster.images import MPI, make_image
from dev.cluster.registry import push
from jobs.models import Job
from jobs.states import JobState, TaskState
from tests import make
from tests.local_cluster import local_place
from tests.runtimes.kubernetes.world import world_with_files

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db, pytest.mark.timeout(1200, func_only=True)]
BESIDE_OTHERS = True
T = TaskState

MEET = """\
cat >~/meet.py <<'PY'
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
here = (world.rank, os.environ["TESSERA_ROLE"], os.environ["ROLE_RANK"], os.uname().nodename == os.environ["HOSTNAME"])
all_of_us, ranks = world.gather(here), world.allreduce(world.rank + 1)
if world.rank == 0:
    print(ranks, *all_of_us, sep="\\n")
PY
mpirun --hostfile $TESSERA_HOSTS/worker -n 2 python3 ~/meet.py
"""


@pytest.fixture(scope="module")
def world(kubeconfig):
    with world_with_files(kubeconfig) as world:
        yield world


def test_mpirun_finds_its_workers_by_the_host_file_and_all_ranks_meet(world, scene, cast):
    launcher = {"run": MEET, "cpu": "200m", "memory": "128MiB", "ends_job": "all"}
    worker = {"run": "$TESSERA_HOSTS/listen.sh", "ports": [2222], "cpu": "200m", "memory": "128MiB", "count": 2}
    image = push(MPI, make_image(local_place(), MPI))
    job = make.job(cast.ada, image=image, retry=0, roles={"launcher": launcher, "worker": worker})
    make.start(job, state=T.ASSIGNED)
    first, *others = job.newest_tasks.order_by("rank")
    scene.until(first, T.SUCCEEDED, T.FAILED, deadline_s=180)
    said = world.log(first.uuid.hex).decode()
    assert first.state == T.SUCCEEDED, said
    lines = [line for line in said.splitlines() if "plm:rsh: Warning: setpgid" not in line]  # Open MPI's own race
    assert lines == ["3", "(0, 'worker', '0', True)", "(1, 'worker', '1', True)"]
    for task in others:
        assert scene.until(task, T.STOPPED, T.SUCCEEDED, T.FAILED).state == T.STOPPED
    assert Job.objects.get(pk=job.pk).state == JobState.SUCCEEDED
