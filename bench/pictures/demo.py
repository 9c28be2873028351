"""A platform with two teams that work: what the pictures show. Its cards are simulated, and pages say so."""

import time

from bench.stack import Stack

PASSWORD = "a picture for the readme"
GPUS = "8xA100-40GB"
PEOPLE = f"""
from accounts.services import add_member, create_team, create_user
from cluster.models import Pool
from quotas.models import Quota
teams = {{name: create_team(name=name, title=title) for name, title in (("nlp", "Language"), ("vision", "Vision"))}}
for team in teams.values():
    for pool in Pool.objects.all():
        Quota.objects.create(team=team, pool=pool, gpu_milli_guarantee=4000)
for name, team, role in (("ada", "nlp", "lead"), ("chen", "nlp", "member"), ("mira", "vision", "lead")):
    user = create_user(username=name, full_name=name.capitalize(), password={PASSWORD!r})
    add_member(user=user, team=teams[team], role=role)
"""
PROGRAM = """import math, random, sys, time
first, batches = int(sys.argv[1]), bytearray(90 << 20)
print(f"3,412 batches of 32, from step {first:,}")
for step in range(first, first + 9000, 20):
    until = time.perf_counter() + random.random() / 20
    while time.perf_counter() < until:
        pass
    loss = 2.1 * math.exp(-step / 9000) + random.random() / 20
    print(f"step {step:,}  loss {loss:.4f}  {random.randint(930, 990)} samples/s")
    time.sleep(0.5)
"""
WARM_S = 60
"""Until simulated cards have loaded their data and compute."""
WORK = (
    ("chen", "llama-sft", "2", "8h"),
    ("chen", "tokenizer", "1/4", "1h"),
    ("mira", "resnet-ablation", "1", "6h"),
    ("mira", "detector-eval", "1/2", "2h"),
    ("mira", "vit-pretrain", "2", "12h"),
    ("chen", "reward-model", "1", "5h"),
    ("mira", "segmenter", "1/2", "3h"),
    ("chen", "llama-eval", "4", "4h"),
    ("mira", "vit-large", "4", "20h"),
)
"""(who, name, cards, estimate); the last two wait."""


def fill(stack: Stack) -> None:
    """Make people, teams and their jobs, and wait until what fits runs and computes."""
    stack.manage("shell", "-v", "0", "-c", PEOPLE)
    admin, jobs = stack.token, []
    tokens = {name: stack.manage("make_token", name).strip() for name in ("ada", "chen", "mira")}
    try:
        for token in tokens.values():
            stack.token = token
            put = {"name": "copy-code", "run": f"cat > ~/train.py <<'END'\n{PROGRAM}END", "memory": "64MiB"}
            stack.wait_for(stack.api("POST", "/jobs", put)["id"], "succeeded", seconds=60)
        for who, name, gpu, estimate in WORK:
            stack.token = tokens[who]
            body = {"name": name, "run": "python3 ~/train.py 4000", "gpu": gpu, "time": estimate}
            jobs.append(stack.api("POST", "/jobs", body | {"cpu": "100m", "memory": "256MiB"})["id"])
    finally:
        stack.token = admin
    for job in jobs[:-2]:
        stack.wait_for(job, "running", seconds=60)
    time.sleep(WARM_S)
