"""Prepare a fresh installation: team, quota, admin, demo job."""

from django.db import transaction

from accounts.models import PlatformRole, Team, TeamRole, User
from accounts.services import add_member, create_team, create_user
from cluster.capacity import pool_total
from cluster.models import Node, NodeState, Pool
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.models import Job
from jobs.submit import submit_job
from quotas.models import Quota
from quotas.services import get_default_limit
from runtimes.contract.node import OWN_NETWORK
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

TEAM, ADMIN = "research", "admin"

DEMO = """\
if [ -n "$TESSERA_GPU_MEMORY_MIB" ]; then
  echo "Hello from a quarter of a GPU, on $(hostname), as uid $(id -u)."
  echo "My slice: CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES, $TESSERA_GPU_MEMORY_MIB MiB of its memory."
else
  echo "Hello from $(hostname), as uid $(id -u). There is no GPU to share."
fi
for step in 1 2 3 4 5 6; do
  echo "step $step of 6: loss $(awk -v n=$step 'BEGIN { printf "%.3f", 2.3 / n }')"
  sleep 0.3
done
echo "Done. This log was written to your browser as it happened."
"""


@transaction.atomic
def prepare() -> tuple[User, bool]:
    """Return the first admin and whether it is new. Its team is guaranteed all cards."""
    get_default_limit()
    admin = User.objects.filter(platform_role=PlatformRole.ADMIN).order_by("pk").first()
    if admin is not None:
        return admin, False
    team = Team.objects.filter(name=TEAM).first() or create_team(name=TEAM, title="Research")
    admin = create_user(username=ADMIN, platform_role=PlatformRole.ADMIN, full_name="First admin")
    add_member(user=admin, team=team, role=TeamRole.LEAD)
    for pool in Pool.objects.all():
        Quota.objects.get_or_create(team=team, pool=pool, defaults={"gpu_milli_guarantee": pool_total(pool)[0]})
    return admin, True


def submit_demo(admin: User) -> Job:
    """Submit a job on a quarter of a GPU, if one is shared."""
    cards = Node.objects.filter(state=NodeState.READY, gpus__pool__shared=True, gpus__removed_at=None)
    gpu = parse_gpu("1/4") if cards.exists() else parse_gpu("0")
    spec = JobSpec(name="demo", run=DEMO, gpu=gpu)
    return submit_job(user=admin, spec=spec, check=check_possible, containers=runtime_has_containers())


def notes() -> list[str]:
    """Return notes on ready nodes for the start banner."""
    said = []
    for node in Node.objects.present().filter(state=NodeState.READY):
        if node.facts.get("isolation") == "shared account":
            said.append("jobs share the platform's account")
        if node.gpus.present().filter(simulated=True).exists():
            said.append(f"the GPUs of {node.name} are simulated: no NVIDIA card is known there")
        elif not node.gpus.present().exists():
            said.append(f"{node.name} has no GPU: jobs on cores run there")
        if (images := node.facts.get("images", "")).startswith("Images need"):
            said.append(f"jobs cannot bring images. {images}")
        if (network := node.facts.get("network", OWN_NETWORK)) != OWN_NETWORK:
            said.append(f"{network[0].lower()}{network[1:].removesuffix('.')}")
        if node.gpus.present().filter(enforcement="watchdog").exists():
            said.append("slices of GPU memory are not enforced, watched")
    return sorted(set(said))
