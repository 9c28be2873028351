"""The pod of a task: compared with files, and judged for every hostile value that a task can carry.

TESSERA_WRITE_GOLDEN=1 writes the files anew; read the difference before it is committed.
"""

import json
import os
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtimes.contract.errors import Rejected
from runtimes.contract.node import BALLOONS
from runtimes.contract.task import Checkpoint, GpuShare, Mount, Peer
from runtimes.images.names import RegistryLogin
from runtimes.kubernetes.cluster.namespaces import build_logins
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import (
    SUPERVISOR,
    build_pod,
    build_tombstone,
    check_install_config,
    escape_dollars,
)
from runtimes.report_file import read_tools
from runtimes.storage.areas import AreaId
from tests.runtimes.kubernetes.specs import (
    CARDS,
    CONFIG,
    MODES,
    ONE,
    STORED,
    TASKS,
    TWO,
    UUID,
    WITH_FILES,
    card,
    task,
)

PODS = Path(__file__).with_name("pods")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def shown(pod: dict) -> dict:
    """The texts of the supervisor and of the tools have tests of their own."""
    command = pod["spec"]["containers"][0]["command"]
    assert command[2] == escape_dollars(SUPERVISOR)
    command[2] = "(supervisor.sh)"
    notes = pod["metadata"]["annotations"]
    for name, text in read_tools().items():
        assert notes[f"file.tessera.sh/tools.{name}"] == text
        notes[f"file.tessera.sh/tools.{name}"] = f"({name})"
    return pod


@pytest.mark.parametrize("name", [*TASKS, *MODES, "with_files"])
def test_a_pod_is_as_its_file_says(name):
    spec, cards = MODES[name] if name in MODES else (TASKS.get(name, WITH_FILES), CARDS)
    pod = shown(build_pod(spec, STORED if spec is WITH_FILES else CONFIG, cards))
    path = PODS / f"{name}.json"
    if os.environ.get("TESSERA_WRITE_GOLDEN"):
        path.write_text(json.dumps(pod, indent=1) + "\n")
    assert pod == json.loads(path.read_text())


def test_a_share_of_a_card_is_asked_of_that_very_card():
    pod = build_pod(TASKS["a_quarter"], CONFIG, CARDS)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["tessera.sh/g-0"] == "79"


def test_shares_that_fit_the_ledger_fit_the_units_of_the_card():
    sellable = 32510
    for parts in range(1, 100):
        assert parts * names.count_card_units(sellable // parts) <= names.count_card_units(sellable)


def test_a_card_is_asked_for_by_the_number_that_it_has_now():
    moved = {ONE: card(ONE, 5), TWO: card(TWO, 1)}
    limits = build_pod(TASKS["a_quarter"], CONFIG, moved)["spec"]["containers"][0]["resources"]["limits"]
    assert "tessera.sh/g-5" in limits and "tessera.sh/g-0" not in limits


def test_a_whole_card_is_all_its_units_also_where_an_admin_keeps_some_back():
    most = TASKS["two_whole_cards"].gpus
    less = task(gpus=tuple(replace(share, memory_mib=share.memory_mib - 4096) for share in most))
    limits = build_pod(less, CONFIG, CARDS)["spec"]["containers"][0]["resources"]["limits"]
    assert limits["tessera.sh/g-0"] == limits["tessera.sh/g-1"] == str(names.count_card_units(81920 - 693))


def test_a_slice_that_leaves_less_than_a_unit_is_given_as_a_whole_card():
    """The device plugin sees no difference, so nothing else may be waited for."""
    most = replace(TASKS["a_quarter"].gpus[0], memory_mib=81220)
    for memory_mib, promised in (
        (81220, f"TESSERA_GPU_0={ONE}"),
        (20306, f"TESSERA_GPU_0={ONE} TESSERA_SLICE_BY=slice"),
    ):
        pod = build_pod(task(gpus=(replace(most, memory_mib=memory_mib),)), CONFIG, {ONE: card(ONE, mode="slice")})
        env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
        assert env["TESSERA_PROMISED"] == promised


def test_the_toolkit_gives_no_slices_and_no_mixture():
    toolkit, plugin = card(ONE, pin="toolkit"), card(TWO)
    for gpus, cards in (
        (TASKS["a_quarter"].gpus, {ONE: toolkit}),
        (TASKS["two_whole_cards"].gpus, {ONE: toolkit, TWO: plugin}),
    ):
        with pytest.raises(Rejected, match=r"n1"):
            build_pod(task(gpus=gpus), CONFIG, cards)


def test_a_task_without_cards_asks_for_the_balloon_of_its_cores():
    notes = build_pod(task(numa=(1, 1), cpu_pinning=BALLOONS), CONFIG, {})["metadata"]["annotations"]
    assert [value for name, value in notes.items() if "balloon" in name] == ["numa1"]


@pytest.mark.parametrize(("shm_mib", "size"), [(None, "2048Mi"), (512, "512Mi")])
def test_shared_memory_is_a_part_of_a_tasks_memory(shm_mib, size):
    volumes = build_pod(task(memory_mib=2048, shm_mib=shm_mib), CONFIG, {})["spec"]["volumes"]
    assert next(each for each in volumes if each["name"] == "shm")["emptyDir"] == {
        "medium": "Memory",
        "sizeLimit": size,
    }


def test_a_task_near_two_sockets_gets_no_balloon():
    spec, cards = MODES["balloons"]
    notes = build_pod(replace(spec, numa=(0, 1)), CONFIG, cards)["metadata"]["annotations"]
    assert not [name for name in notes if "balloon" in name]


def test_what_cannot_be_promised_is_refused_with_words():
    refused = {
        "root": task(uid=0),
        "no team": task(gid=0),
        "a card of another node": task(gpus=(GpuShare("GPU-ffffffff-0000", 0, 1024, 10, False),)),
        "data": task(mounts=(Mount(AreaId("home", 20001), "x", "x", False),)),
        "code": task(code_path="/srv/tessera/code/1.tar.gz"),
        "a peer that nobody knows": task(peers=(Peer("10.0.0.1"), Peer("10.0.0.2"))),
        "a role that is no name": task(peers=(Peer("10.0.0.1", "../passwd"),)),
        "an option for an image": task(image="--privileged"),
        "not a uuid": task(uuid="../../kube-system"),
    }
    for spec in refused.values():
        with pytest.raises(Rejected, match=r"[A-Z].*\."):
            build_pod(spec, CONFIG, CARDS)


def test_a_tombstone_never_gets_a_node_and_holds_nothing():
    pod = build_tombstone(UUID, CONFIG, "tessera-ended", epoch=7, end={"cause": "never_started", "detail": ""})
    assert pod["spec"]["schedulingGates"] and "finalizers" not in pod["metadata"]
    assert pod["metadata"]["namespace"] == "tessera-ended"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"install": "Tessera"}, "TESSERA_INSTALL"),
        ({"install": "a" * 21}, "at most 20"),
        ({"install": "x-"}, "TESSERA_INSTALL"),
        ({"image": ""}, "TESSERA_IMAGE"),
        ({"pull": "sometimes"}, "Always, IfNotPresent, Never"),
        ({"pull_secret": "A B"}, "TESSERA_PULL_SECRET"),
        ({"account": "tessera"}, "namespace:name"),
        ({"private": ("10.0.0.1", "mirror.corp")}, "TESSERA_JOBS_PRIVATE has 'mirror.corp'.*10.20.0.0/16"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_may_be(change, words):
    with pytest.raises(ValueError, match=words):
        check_install_config(replace(CONFIG, **change))


def test_an_ordinary_house_is_fine():
    assert check_install_config(replace(CONFIG, account="tessera-system:tessera", pull_secret="registry"))


ADA = (RegistryLogin("docker.io", "ada", "s3cret"), RegistryLogin("registry.corp:5000", "robot", "x:y"))


def test_logins_of_a_team_are_a_secret_that_only_kubelets_use():
    secret = build_logins("tessera-team-20000", CONFIG, ADA)
    known = json.loads(b64decode(secret["data"][".dockerconfigjson"]))["auths"]
    assert {host: b64decode(each["auth"]).decode() for host, each in known.items()} == {
        "docker.io": "ada:s3cret",
        "index.docker.io": "ada:s3cret",
        "registry.corp:5000": "robot:x:y",
    }
    pod = build_pod(replace(TASKS["cpu_only"], logins=ADA), replace(CONFIG, pull_secret="site"), CARDS)
    assert pod["spec"]["imagePullSecrets"] == [{"name": "site"}, {"name": "tessera-logins"}]
    assert "s3cret" not in json.dumps(pod) + repr(ADA)
    assert "imagePullSecrets" not in build_pod(TASKS["cpu_only"], CONFIG, CARDS)["spec"]


# what people write, whatever it is

HOSTILE = [
    "$(TESSERA_UPSTREAM_TOKEN)",
    "$$(HOME)",
    "$(cat /etc/shadow)",
    "`id`",
    "'; rm -rf / #",
    '"}],"hostNetwork":true,"x":[{"',
    "privileged: true",
    "{{ .Values.x }}",
    "../../../etc",
    "/var/run/docker.sock",
    "/proc/1/root",
    "a" * 70000,
    "\n- hostPath",
    "\u202e\u2066evil",
    "\ud800",
    "\x1b]52;c;AAAA\x07",
    "\0",
    "-n kube-system",
    "--privileged",
    "kube-system",
    "default",
    "nvidia.com/gpu",
    "tessera.sh/g-7",
    "all",
    "void",
    "0",
    "-1",
    "9" * 400,
    "NaN",
    "",
    " ",
    "=",
    "%00",
    "%2e%2e",
    "docker.io/evil@sha256:00",
    "http://169.254.169.254/",
    "file:///etc/passwd",
    "image with space",
    "system:masters",
    "Ā" * 300,
]
FIELDS = ("run", "label", "node", "workdir", "user", "team", "role", "image", "uuid")
ENV_NAMES = [
    "LD_PRELOAD",
    "ld_preload",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_DISABLE_CONTROL",
    "TESSERA_TASK",
    "TESSERA_TEAM",
    "LD_AUDIT",
    "GPU_CORE_UTILIZATION_POLICY",
    "ACTIVE_OOM_KILLER",
    "CUDA_TASK_PRIORITY",
    "CUDA_OVERSUBSCRIBE",
    "A=B",
    "a b",
    "",
    "1X",
    "X\nY",
    "ÄNV",
    "$(X)",
]
SPEC_KEYS = {
    "restartPolicy",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "affinity",
    "tolerations",
    "securityContext",
    "containers",
    "volumes",
    "activeDeadlineSeconds",
    "imagePullSecrets",
    "hostname",
    "subdomain",
}
CONTAINER_KEYS = {"name", "image", "imagePullPolicy", "command", "env", "resources", "securityContext", "volumeMounts"}


def hostile_specs():
    yield from (replace(TASKS["a_quarter"], **{field: value}) for field in FIELDS for value in HOSTILE)
    yield from (task(env={name: value}) for name in ENV_NAMES for value in ("all", "$(HOME)", "/evil.so"))
    yield from (task(env={"OK": value}) for value in HOSTILE)
    yield from (task(checkpoint=Checkpoint(value, "SIGUSR1", 5)) for value in HOSTILE)


def judge(pod: dict, spec) -> None:
    """Nothing that could break out, whatever was written."""
    inside, container = pod["spec"], pod["spec"]["containers"][0]
    assert set(inside) <= SPEC_KEYS and set(container) == CONTAINER_KEYS and len(inside["containers"]) == 1
    assert not inside["automountServiceAccountToken"] and inside["securityContext"]["runAsNonRoot"]
    assert (inside["securityContext"]["runAsUser"], inside["securityContext"]["runAsGroup"]) == (spec.uid, spec.gid)
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert all(set(volume) <= {"name", "emptyDir", "downwardAPI"} for volume in inside["volumes"])
    meta = pod["metadata"]
    assert meta["namespace"] == f"tessera-team-{spec.gid}" and meta["name"] == f"t-{spec.uuid}"
    assert all(LABEL.fullmatch(value) for value in meta["labels"].values())
    assert all(name.partition("/")[0] in ("tessera.sh", "file.tessera.sh") for name in meta["annotations"])
    held = {name for name in container["resources"]["limits"] if name not in ("cpu", "memory")}
    assert held == {names.name_card_resource(share.index) for share in spec.gpus}
    told = [(each["name"], each["value"]) for each in container["env"]]
    env = dict(told)
    assert len(env) == len(told) and env["NVIDIA_VISIBLE_DEVICES"] == "void" and env["TESSERA_TASK"] == spec.uuid
    assert env["CUDA_VISIBLE_DEVICES"] == ",".join(share.uuid for share in spec.gpus)
    assert not {"LD_PRELOAD", "LD_AUDIT", "CUDA_DISABLE_CONTROL"} & {name.upper() for name in env}


def test_two_hundred_hostile_tasks_change_nothing_that_matters():
    specs, built = list(hostile_specs()), 0
    for spec in specs:
        try:
            pod = build_pod(spec, CONFIG, CARDS)
        except Rejected:
            continue
        judge(pod, spec)
        built += 1
    assert len(specs) >= 200 and built >= 200


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=5), st.text(), st.text())
def test_any_text_is_taken_as_text(run, env, label, team):
    spec = task(run, env=env, label=label, team=team)
    try:
        pod = build_pod(spec, CONFIG, CARDS)
    except Rejected:
        assert "\0" in run + "".join(env.values())
        return
    judge(pod, spec)
    command = [expand(each, pod) for each in pod["spec"]["containers"][0]["command"]]
    assert command[:5] == ["/bin/sh", "-c", SUPERVISOR, "tessera", run]


def expand(text: str, pod: dict) -> str:
    """As the kubelet does: `$$` is one `$`, `$(NAME)` the value of NAME where there is such a name."""
    env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}

    def one(found: re.Match) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def test_what_a_slice_is_told_stands_in_its_environment():
    pod = build_pod(TASKS["a_quarter"], CONFIG, {ONE: card(ONE, mode="slice"), TWO: card(TWO)})
    env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
    assert (env["TESSERA_GPU_MEMORY_MIB"], env["TESSERA_GPU_COMPUTE_PERCENT"]) == ("20306", "25")
