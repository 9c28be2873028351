"""What there is before a life begins, drawn from its seed."""

from datetime import timedelta
from random import Random
from typing import Any

from accounts.models import Membership, Team, TeamRole, User
from cluster.models import Gpu, HighPriority, Node, Pool, Window
from quotas.models import Quota, UserLimit
from runtimes.contract.node import NodeView
from tests.loop.database import Database
from tests.loop.hours import window_row

V100 = {"model": "V100-32GB", "product": "Tesla V100-SXM2-32GB", "memory_mib": 32_768, "reserved_mib": 257}


def build_cluster(db: Database, dice: Random) -> None:
    """Two pools, some nodes, teams in two levels, three people, quotas, limits and hours of lending."""
    free = {"high_priority": HighPriority.FREE}
    pools = [
        fixed(Pool, 1, name="dev", shared=True, cpu_overcommit_percent=200, **free),
        fixed(Pool, 2, name="train", **free),
    ]
    org = fixed(Team, 1, name="org", gid=2000)
    teams = [fixed(Team, pk, name=name, gid=2000 + pk, parent=org) for pk, name in ((2, "nlp"), (3, "vision"))]
    lone = fixed(Team, 4, name="bio", gid=2004)
    people = [fixed(User, pk, username=name, uid=3000 + pk) for pk, name in ((1, "ada"), (2, "bob"), (3, "eve"))]
    db.fix(*pools, org, *teams, lone, *people)
    for team in (*teams, lone):
        for user in people:
            db.insert(Membership, {"team_id": team.pk, "user_id": user.pk, "role": TeamRole.MEMBER})
    for number in range(1, dice.randint(2, 4)):
        size = {"cpu_milli": dice.choice([8000, 16_000]), "memory_mib": 65_536, "address": "127.0.0.1"}
        node = db.insert(Node, {"name": f"n{number}", "pool_id": dice.choice([1, 2]), **size, "boot_id": "first"})
        for index in range(dice.choice([1, 2, 2, 4])):
            card = {"uuid": f"GPU-n{number}-{index}", "index": index, "simulated": True, "enforcement": "simulated"}
            db.insert(Gpu, {"node_id": node["id"], "pool_id": dice.choice([1, 1, 2]), **card, **V100})
    for team in (org, *teams, lone):
        for pool in pools:
            limit = dice.choice([None, None, 1000, 2000, 4000])
            guarantee = min(dice.choice([0, 0, 1000, 2000]), limit or 2000) if team is not org else 0
            amounts = {"gpu_milli_limit": limit, "gpu_milli_guarantee": guarantee}
            db.insert(Quota, {"team_id": team.pk, "pool_id": pool.pk, **amounts})
    for lender in {1, dice.choice([1, 2])}:
        begins = db.now + timedelta(seconds=dice.choice([0, 0, 20]))
        db.insert(Window, window_row(lender, begins, begins + timedelta(seconds=dice.randint(20, 200))))
    db.insert(UserLimit, {"user_id": None, "jobs_running": dice.choice([3, 100]), "jobs_waiting": 1000})


def fixed(model: Any, pk: int, **fields: Any) -> Any:
    return model(pk=pk, **fields)


def view_of(node: dict) -> NodeView:
    return NodeView(node["name"], "127.0.0.1", "first", node["cpu_milli"], node["memory_mib"], (), (), ())
