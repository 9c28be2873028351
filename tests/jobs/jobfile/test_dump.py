"""A spec survives every way it is written down."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from accounts.scopes import JOB_SCOPES
from common.resources import GpuAsk
from common.text import RESERVED_ENV, RESERVED_ENV_PREFIXES, name_problem
from jobs.jobfile.description import CHECKPOINT_SIGNALS, ENDS_JOB, MAX_GRACE_S, PRIORITIES, RETRY_WHEN
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.search.space import Choices, Interval
from jobs.jobfile.search.wish import MODES, MOST_TRIALS, SearchWish
from jobs.jobfile.serving import ACCESS, BackIf, Canary, Hold, Serving
from jobs.jobfile.spec import (
    NOTIFY_WHEN,
    Checkpoint,
    JobSpec,
    MainProgram,
    NotifyWish,
    PlaceWish,
    RoleSpec,
    from_json,
    roles_of,
    to_json,
)
from secret_store.names import WORDS

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
tricky = st.sampled_from(
    [
        "a\nb", "a\n\nb", "  a\n b", "a: b", "a #b", "- a", "? x", "no", "1e3", "007", "~", "null", "'", '"', "\\",
        "a\n\tb", "a\x85b", "a\u2028b", "\ufeffa", "a\x1b[0m", "{a}", "[a]", "%x", "@x", "`x`", "a:", ": a", "a \nb",
        "a\n ", "&a", "*a", "|", ">", "---", "...", "a\n---\nb", "true", "0x1f", "!x", "a\xa0b", "\xa0a\nb", "a\r\nb",
        "a\rb", "end\\ ",
    ]
)  # fmt: skip
seen = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])
names = st.text(seen, min_size=1, max_size=60).filter(lambda text: name_problem(text) is None)
runs = (texts | tricky | st.lists(texts | tricky, min_size=2, max_size=4).map("\n".join)).map(
    lambda text: text.replace("\r\n", "\n").strip()
)
models = st.lists(st.sampled_from(["H100", "A100", "V100-32GB"]), max_size=2, unique=True).map(tuple)
asks = st.one_of(
    st.builds(GpuAsk, count=st.integers(1, 64), models=models),
    st.builds(GpuAsk, count=st.just(1), part=st.sampled_from([(1, 2), (1, 8), (3, 4), (2, 3)]), models=models),
    st.builds(GpuAsk, count=st.just(1), memory_gb=st.sampled_from([Decimal("1.5"), Decimal(40)]), models=models),
    st.just(GpuAsk()),
)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
env_names = words.filter(lambda n: n not in RESERVED_ENV and not n.startswith(RESERVED_ENV_PREFIXES))
labels = st.from_regex(r"[A-Za-z0-9]{1,9}", fullmatch=True)
asked = {
    "run": runs.filter(bool),
    "gpu": asks,
    "cpu_milli": st.none() | st.integers(1, 10**6),
    "memory_mib": st.none() | st.integers(1, 2**24),
    "shm_mib": st.none() | st.integers(1, 2**24),
    "rdma": st.booleans(),
    "nodes": st.integers(1, 100),
    "nodes_max": st.none() | st.integers(101, 200),
    "ports": st.lists(st.integers(1024, 65_535), unique=True, max_size=3).map(tuple),
}
GIT = "git+https://git.example/rl.git@main:" + "0f" * 20
role_names = st.sampled_from(["main", "worker", "no", "head-1", "ps", "true"])
roles = st.builds(
    RoleSpec,
    name=role_names,
    env=st.dictionaries(env_names.map("ROLES_OWN_{}".format), texts | tricky, max_size=3),
    image=st.none() | st.just("ray:2.9"),
    code=st.sampled_from([None, "sha256:" + "0f" * 32, GIT]),
    workdir=st.sampled_from([None, "", "head", "a b/c"]),
    secrets=st.dictionaries(env_names.map("ROLES_SECRET_{}".format), st.sampled_from(WORDS), max_size=3),
    data=st.dictionaries(st.just("in"), st.just("team:corpus:ro")),
    ends_job=st.sampled_from(["", *ENDS_JOB]),
    **asked,
)
common = {
    "name": names | tricky.filter(lambda text: name_problem(text) is None),
    "team": st.none() | names,
    "pool": st.none() | names,
    "image": st.none() | st.just("registry.local/llm/train:24.10"),
    "environment": st.none() | st.just("vision/sd-train@v3"),
    "code": st.sampled_from([None, ".", "sha256:" + "0f" * 32, GIT]),
    "env": st.dictionaries(env_names, texts | tricky, max_size=4),
    "outputs": st.dictionaries(st.just("out/model"), st.just("model:sentiment")),
    "token": st.lists(st.sampled_from(JOB_SCOPES), unique=True).map(tuple),
    "secrets": st.dictionaries(env_names.map("OF_SECRETS_{}".format), st.sampled_from(WORDS), max_size=3),
    "workdir": st.sampled_from(["", "src", "a b/c", "1", "实验"]),
    "priority": st.sampled_from(PRIORITIES),
    "time_s": st.none() | st.integers(1, 1000),
    "max_time_s": st.none() | st.integers(1000, 10**6),
    "retry_times": st.integers(0, 5),
    "retry_when": st.lists(st.sampled_from(RETRY_WHEN), unique=True).map(tuple),
    "preemptible": st.booleans(),
    "checkpoint": st.none()
    | st.builds(
        Checkpoint,
        st.sampled_from(["ckpt", "~/runs/1", "/out/no", "1e3", "a: b"]),
        st.sampled_from(["", *CHECKPOINT_SIGNALS]),
        st.integers(1, MAX_GRACE_S),
    ),
    "notify": st.none()
    | st.builds(
        NotifyWish,
        st.lists(st.sampled_from(NOTIFY_WHEN), unique=True).map(tuple),
        st.lists(names, unique=True, max_size=3).map(tuple),
    ),
    "place": st.sampled_from([None, PlaceWish("node"), PlaceWish("", "switch"), PlaceWish("switch", "node")]),
    "labels": st.dictionaries(labels, st.just("") | names, max_size=3),
    "hold": st.booleans(),
}
several = st.lists(roles, min_size=1, max_size=4, unique_by=lambda role: role.name).map(tuple)
mains = st.builds(MainProgram, role_names, runs.filter(bool), st.booleans())


def with_main(spec: JobSpec, main: MainProgram) -> JobSpec:
    """The spec with a main program, where one of its roles may have it."""
    fits = any(role.name == main.role and not (role.ends_job and main.ends_job) for role in spec.roles)
    return replace(spec, main=main) if fits else spec


servings = st.builds(
    Serving,
    port=st.integers(1024, 65_535),
    ready=st.sampled_from(["", "/", "/health?deep=1"]),
    replicas=st.sampled_from([(0, 1), (1, 1), (2, 30)]),
    target=st.integers(1, 100),
    idle_s=st.integers(1, 10**5),
    hold=st.builds(Hold, st.integers(1, 1000), st.integers(1, 3600)),
    access=st.sampled_from(ACCESS),
    canary=st.none()
    | st.builds(
        Canary,
        st.integers(1, 50),
        st.integers(1, 86_400),
        st.builds(BackIf, st.sampled_from([0.0, 0.5, 2.0, 100.0]), st.sampled_from([None, 1.0, 1.25, 99.0])),
    ),
)


def as_service(spec: JobSpec, serve: Serving) -> JobSpec:
    """A service that asks for what a job does, without what a service may not say."""
    usual = JobSpec(run="", name="")
    left_out = ("nodes", "nodes_max", "token", "time_s", "max_time_s", "retry_times", "retry_when", "hold", "outputs")
    dropped = {name: getattr(usual, name) for name in (*left_out, "notify", "place")}
    return replace(spec, kind="service", serve=serve, **dropped)


intervals = st.sampled_from([("1e-5", "1e-1", True), ("1", "4", False), ("-0.5", "2", False), ("16", "1024", True)])
choices = st.lists(st.text("ab1.e-", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
searches = st.builds(
    SearchWish,
    metric=st.sampled_from(["loss", "val/accuracy", "no"]),
    space=st.dictionaries(
        st.sampled_from(["OF_SPACE_A", "OF_SPACE_B"]),
        intervals.map(lambda said: Interval(*said)) | choices.map(lambda said: Choices(tuple(said))),
        min_size=1,
    ),
    count=st.integers(1, MOST_TRIALS),
    method=st.sampled_from(["random", "tpe"]),
    mode=st.sampled_from(MODES),
    at_once=st.integers(1, 1000),
    seed=st.integers(0, 99),
) | st.builds(
    SearchWish,
    metric=st.just("loss"),
    space=st.just({"OF_SPACE_A": Interval("0", "1")}),
    count=st.integers(1, 9),
    method=st.just("asha"),
    rungs=st.sampled_from([(1,), (3, 9, 27)]),
    reduction=st.integers(2, 10),
)

batches = st.builds(JobSpec, **common, **asked)
specs = (
    batches
    | st.builds(lambda spec, search: replace(spec, search=search, hold=False), batches, searches)
    | st.builds(as_service, batches, servings)
    | st.builds(with_main, st.builds(JobSpec, **common, roles=several), mains)
)


@given(specs)
@settings(max_examples=150, deadline=None)
def test_what_is_dumped_is_parsed_back(spec):
    assert parse_spec(load_jobfile(dump_yaml(spec).encode())) == spec


@given(specs)
@settings(max_examples=60, deadline=None)
def test_the_stored_form_is_read_back_and_is_a_job_file(spec):
    assert from_json(to_json(spec)) == spec
    assert parse_spec(to_json(spec)) == spec


@given(specs)
@settings(max_examples=40, deadline=None)
def test_another_yaml_reader_sees_the_same_text(spec):
    document = YAML(typ="safe", pure=True).load(dump_yaml(spec))
    written = [role["run"] for role in document["roles"].values()] if spec.roles else [document["run"]]
    assert written == [role.run for role in roles_of(spec)] and document["name"] == spec.name
    assert document.get("env", {}) == spec.env


def test_a_dump_reads_as_a_person_would_write_it():
    spec = JobSpec(run="set -e\npython train.py", name="sft", gpu=GpuAsk(1, part=(1, 4)), time_s=5400, retry_times=1)
    assert dump_yaml(spec) == (
        'name: sft\nrun: |-\n  set -e\n  python train.py\ngpu: 1/4\ntime: 1h30m\nretry: 1\n'
    )  # fmt: skip
