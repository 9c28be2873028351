"""Jobs that are made of earlier ones, and what differs between two."""

import pytest

from common.errors import Conflict, InvalidInput
from jobs.code.upload import keep_code, pack_one_file
from jobs.copying.copies import build_rerun, copy_file, rerun_job
from jobs.copying.differences import Difference, compare_files
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import to_json
from jobs.models import JobKind
from secret_store.services import set_secret
from tests import make

PINNED = "docker.io/library/busybox:1.36@sha256:" + "a" * 64


@pytest.fixture
def cast(db, settings, tmp_path):
    settings.TESSERA_CODE = tmp_path
    return make.cast()


def resubmit(person, parent, *, exact: bool):
    return rerun_job(user=person, parent=parent, exact=exact, check=lambda draft: None, containers=True)


def test_an_exact_copy_has_the_same_file_with_the_bytes_of_image_and_code(cast):
    code = keep_code(user=cast.ada, pieces=[pack_one_file("train.py", b"print(1)")])
    asked = {"image": PINNED, "code": code.digest, "env": {"SEED": "1"}, "gpu": "1/4", "pool": "dev"}
    parent = make.job(cast.ada, hold=True, start_at="2026-12-01T22:00+08:00", **asked)
    job = resubmit(cast.ada, parent, exact=True)
    assert compare_files(parent.spec, job.spec) == [
        Difference("hold", True, False), Difference("start_at", "2026-12-01T22:00:00+08:00", None)
    ]  # fmt: skip
    assert job.parent == parent and list(parent.copies.all()) == [job]


def test_otherwise_its_image_is_looked_up_anew_and_code_of_others_is_left_out(cast):
    code = keep_code(user=cast.ada, pieces=[pack_one_file("train.py", b"print(1)")])
    parent = make.job(cast.ada, image=PINNED, code=code.digest, pool="dev")
    assert resubmit(cast.bob, parent, exact=False).spec["code"] is None
    assert build_rerun(cast.ada, parent, exact=False).image == PINNED.partition("@")[0]
    with pytest.raises(InvalidInput) as refused:
        resubmit(cast.bob, parent, exact=True)
    assert (refused.value.errors[0].pointer, refused.value.errors[0].code) == ("/code", "unknown_code")


def test_a_copy_waits_for_no_job_that_the_first_waited_for(cast):
    make.job(cast.ada, name="prepare", pool="dev")
    parent = make.job(cast.ada, after="prepare", pool="dev")
    assert resubmit(cast.ada, parent, exact=True).spec["after"] == {}


def test_a_copy_finds_anew_whose_a_secret_is(cast):
    set_secret(actor=cast.ada, name="HUB", value="adas-own-value")
    parent = make.job(cast.ada, secrets=["HUB"], pool="dev")
    assert parent.spec["secrets"] == {"HUB": "own:variable"}
    assert copy_file(cast.bob, parent)["secrets"] == {"HUB": "variable"}
    set_secret(actor=cast.bob, name="HUB", value="bobs-own-value")
    of_role = make.job(cast.ada, pool="dev", roles={"head": {"run": "true", "secrets": ["HUB"]}})
    assert copy_file(cast.bob, of_role)["roles"]["head"]["secrets"] == {"HUB": "variable"}
    assert resubmit(cast.bob, parent, exact=False).spec["secrets"] == {"HUB": "own:variable"}


def test_the_job_of_a_notebook_is_not_run_again(cast):
    parent = make.job(cast.ada, pool="dev")
    parent.kind = JobKind.INTERACTIVE
    with pytest.raises(Conflict):
        build_rerun(cast.ada, parent, exact=True)


def differences(one: dict, other: dict) -> dict[str, tuple]:
    stored = [to_json(parse_spec({"run": "true", "name": "a", **file})) for file in (one, other)]
    return {found.field: (found.before, found.after) for found in compare_files(*stored)}


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({}, {}, {}),
        ({"gpu": 1}, {"gpu": "1/2"}, {"gpu": ("1", "1/2")}),
        ({"env": {"A": "1", "B": "2"}}, {"env": {"B": "3", "C": "4"}},
         {"env.A": ("1", None), "env.B": ("2", "3"), "env.C": (None, "4")}),
        ({"ports": [8080]}, {"ports": [8080, 8081]}, {"ports": ([8080], [8080, 8081])}),
        ({"checkpoint": "ckpt"}, {}, {"checkpoint": (None, None)}),
        ({"run": "a"}, {"run": None, "roles": {"head": {"run": "a"}}},
         {"run": ("a", None), "roles.head.run": (None, "a")}),
    ],
)  # fmt: skip
def test_each_field_that_differs_is_named(one, other, found):
    told = differences(one, other)
    if "checkpoint" in one:
        assert told == {"checkpoint.dir": ("ckpt", None)}
    else:
        assert {field: told[field] for field in found} == found
