"""Code in Git repositories: which commit a ref is, what a task runs to have it, and what people are told."""

import subprocess
from pathlib import Path

import pytest

from common.errors import InvalidInput
from common.safe_http import Reply
from jobs.code.git_code import GitCode, build_fetch, read_git
from jobs.code.git_refs import MOST_BYTES, Unresolved, choose_commit, read_refs
from jobs.copying.copies import build_rerun
from portal.wording.errors import describe_field_error
from scheduler.reconcile.task_specs import build_task_spec
from secret_store.services import set_secret
from tests import make
from tests.fakes.git_server import CANARY, GIT, git, serve_repositories

A, B, C = "a" * 40, "b" * 40, "c" * 40


@pytest.fixture
def server(tmp_path):
    with serve_repositories(tmp_path / "served") as (address, _handler):
        yield address


@pytest.fixture
def cast(db, settings):
    settings.TESSERA_GIT_PRIVATE = ["127.0.0.0/8"]
    return make.cast()


def run_in(folder: Path, text: str, **env: str) -> subprocess.CompletedProcess:
    folder.mkdir()
    return subprocess.run(["sh", "-c", text], cwd=folder, env=GIT | env, capture_output=True, text=True, check=False)


def told(refused) -> tuple[str, str, str]:
    (error,) = refused.value.errors
    return error.pointer, error.code, describe_field_error(error)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("git+https://h.example/a/b.git@main", GitCode("https://h.example/a/b.git", "main")),
        ("git+https://h.example/a/b", GitCode("https://h.example/a/b", "HEAD")),
        (f"git+https://h.example/a@v1/x:{A}", GitCode("https://h.example/a", "v1/x", A)),
        (f"git+http://h.example:3000/~a/b@{B}", GitCode("http://h.example:3000/~a/b", B, B)),
        ("git+https://user:word@h.example/a@main", None),
        ("git+file:///etc@main", None),
        ("git+ssh://h.example/a@main", None),
        ("git+https://h.example/a@--upload-pack=x", None),
        ("git+https://h.example/a@main;id", None),
        ("git+https://h.example/$(id)@main", None),
        ("git+https://h.example/a@main\n", None),
    ],
)
def test_a_repository_is_read_and_nothing_else(text, code):
    assert read_git(text) == code
    assert code is None or read_git(code.text) == code


def line(text: str) -> bytes:
    return f"{len(text) + 4:04x}{text}".encode()


def test_a_ref_is_found_in_what_a_server_lists():
    body = line("# service=git-upload-pack\n") + b"0000" + line(f"{A} HEAD\0agent=git\n") + line(f"{A} refs/heads/v1\n")
    body += line(f"{B} refs/tags/v1\n") + line(f"{B} refs/tags/v2\n") + line(f"{C} refs/tags/v2^{{}}\n") + b"0000"
    kind = {"content-type": "application/x-git-upload-pack-advertisement"}
    refs = read_refs(Reply(200, kind, body))
    assert [choose_commit(refs, ref) for ref in ("HEAD", "v1", "v2", "refs/tags/v1")] == [A, A, C, B]
    for reply, why in (
        (Reply(404, {}, b""), "denied"),
        (Reply(301, {}, b""), "refused"),
        (Reply(200, {"content-type": "text/html"}, b"<html>"), "refused"),
        (Reply(200, kind, b"x" * (MOST_BYTES + 1)), "too_many_refs"),
    ):
        with pytest.raises(Unresolved, match=why):
            read_refs(reply)
    with pytest.raises(Unresolved, match="unknown_ref"):
        choose_commit(read_refs(Reply(200, kind, b"zzzz" + body)), "main")


def test_a_job_runs_the_commit_that_its_branch_was_when_it_was_accepted(cast, server, tmp_path):
    folder, named = tmp_path / "served" / "open", f"git+{server}/open/.git@main"
    first = git(folder, "rev-parse", "HEAD")
    job = make.job(cast.ada, pool="dev", run="sh say.sh", code=named, workdir="src", checkpoint="ckpt")
    assert job.spec["code"] == f"{named}:{first}"
    (folder / "src" / "say.sh").write_text("echo second\n")
    git(folder, "commit", "-q", "-a", "-m", "two")
    spec = build_task_spec(make.start(job)[0])
    assert (spec.code_path, spec.workdir, spec.checkpoint.dir) == (None, None, "src/ckpt")
    done = run_in(tmp_path / "work", spec.run)
    assert (done.stdout, done.stderr, done.returncode) == ("first\n", "", 0)
    assert build_rerun(cast.ada, job, exact=True).code == job.spec["code"]
    assert build_rerun(cast.ada, job, exact=False).code == named
    roles = {"head": {"run": "a", "code": f"git+{server}/open/.git@v1"}, "w": {"run": "b"}}
    assert make.job(cast.ada, pool="dev", roles=roles).spec["roles"]["head"]["code"].endswith(f"@v1:{first}")


def test_a_private_repository_is_read_by_a_secret_that_no_argument_shows(cast, server, tmp_path):
    named = f"git+{server}/private/.git@main"
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", run="a", code=named)
    assert told(refused)[:2] == ("/code", "git_denied") and "GIT_TOKEN" in told(refused)[2]
    set_secret(actor=cast.ada, name="GIT_TOKEN", value=CANARY)
    job = make.job(cast.ada, pool="dev", run="a", code=named, secrets={"GIT_TOKEN": "file"})
    lines = build_fetch(read_git(job.spec["code"]), "", private=True)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "GIT_TOKEN").write_text(CANARY)
    trace = tmp_path / "trace"
    env = {"TESSERA_SECRETS": str(tmp_path / "secrets"), "GIT_TRACE": str(trace)}
    done = run_in(tmp_path / "work", f"{lines}cat src/say.sh; cat .git/config", **env)
    assert done.stdout.startswith("echo first\n") and "TESSERA_SECRETS" in trace.read_text()
    assert CANARY not in done.stdout + done.stderr + trace.read_text() + lines + str(job.spec)
    assert "http.followRedirects=false" in lines
    away = run_in(tmp_path / "away", f"{build_fetch(read_git(job.spec['code']), '', private=False)}echo no")
    assert (away.stdout, away.returncode) == ("", 1) and "could not be fetched" in away.stderr


def test_what_cannot_be_resolved_is_told_at_its_field(cast, server, settings):
    named = f"git+{server}/open/.git"
    for code, problem in (
        (f"{named}@nothing", "git_unknown_ref"),
        (f"git+{server}/none@main", "git_denied"),
        ("git+http://127.0.0.1:9/x@main", "git_unreachable"),
    ):
        with pytest.raises(InvalidInput) as refused:
            make.job(cast.ada, pool="dev", roles={"w": {"run": "a", "code": code}})
        assert told(refused)[:2] == ("/roles/w/code", problem)
    settings.TESSERA_GIT_PRIVATE = []
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", run="a", code=f"{named}@main")
    assert told(refused)[:2] == ("/code", "git_forbidden")
    assert make.job(cast.ada, pool="dev", run="a", code=f"{named}@{A}").spec["code"] == f"{named}@{A}:{A}"
    set_secret(actor=cast.ada, name="GIT_TOKEN", value=CANARY)
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", run="a", code="git+http://h.example/a@main", secrets=["GIT_TOKEN"])
    assert told(refused)[:2] == ("/code", "git_token_in_clear") and CANARY not in str(refused.value.errors)
