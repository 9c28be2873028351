"""Shares, addresses for editors, one's profile, and names of jobs for SSH: against the real portal."""

import pytest

from cli.commands.access import ssh
from cli.failures import Failure
from cli.http.transport import Client
from cli.naming import find_gateway_name
from jobs.models import Job
from notebooks.models import Notebook
from sharing.models import NotebookToken, Share
from tests import make


@pytest.fixture
def job(cast):
    make.user("cleo", cast.nlp)
    job = make.job(cast.ada, name="train", gpu="1/4", pool="dev")
    make.start(job)
    return job


@pytest.fixture
def notebook(cast, job):
    Job.objects.filter(pk=job.pk).update(kind="interactive", name="lab")
    return Notebook.objects.create(user=cast.ada, team=cast.nlp, name="lab", spec={"gpu": "1/4"}, job=job)


@pytest.fixture
def client(ada, cast, portal):
    return Client(portal, make.token(cast.ada), quiet=True)


def test_a_job_is_shared_listed_and_closed_by_name(ada, job):
    assert ada("share", "ls", "train").stderr.startswith("train is open to nobody else.")
    said = ada("share", "add", "train", "cleo")
    assert said.stdout == f"cleo may enter train ({job.public_id}) as you until it ends.\n", said.stderr
    assert ada("share", "ls", job.public_id, "-o", "name").stdout == "cleo\n"
    assert ada("share", "ls", "train").stdout.splitlines()[1].split()[-1] == "never"
    assert ada("share", "rm", "train", "cleo").exit_code == 0 and not Share.objects.exists()
    assert ada("share", "rm", "train", "cleo").exit_code == 3


def test_a_stranger_to_the_team_is_refused_with_the_reason(ada, job):
    refused = ada("share", "add", "train", "eve")
    assert refused.exit_code == 2 and "eve" in refused.stderr and not Share.objects.exists()


def test_a_notebook_is_shared_as_the_job_that_it_runs_as(ada, job, notebook):
    for name in ("lab", notebook.public_id):
        assert ada("share", "add", name, "cleo").exit_code == 0
    assert Share.objects.get().job_id == job.pk
    Notebook.objects.update(job=None)
    never = ada("share", "add", notebook.public_id, "cleo")
    assert never.exit_code == 2 and "tessera nb start lab" in never.stderr
    assert ada("share", "ls", "n1").exit_code == 2, "a machine"


def test_an_address_is_printed_once_listed_and_ended(ada, notebook):
    made = ada("nb", "address", "lab", "--label", "laptop", "--days", "7")
    assert "/?token=tnb_" in made.stdout and made.stdout.count("\n") == 1, made.stderr
    assert "VS Code" in made.stderr and "PyCharm" in made.stderr
    listed = ada("nb", "addresses", "lab").stdout
    assert "laptop" in listed and made.stdout.strip().partition("token=")[2] not in listed
    number = str(NotebookToken.objects.get().pk)
    assert ada("nb", "end-address", "lab", number).exit_code == 0
    assert ada("nb", "end-address", "lab", number).exit_code == 3


def test_a_profile_is_shown_and_only_what_is_named_changes(ada, cast):
    said = ada("profile", "set", "--name", "Ada L.", "--time-zone", "Asia/Shanghai")
    assert "Ada L." in said.stdout and ada("profile", "show").stdout == said.stdout, said.stderr
    ada("profile", "set", "--time-zone", "")
    cast.ada.refresh_from_db()
    assert (cast.ada.full_name, cast.ada.time_zone) == ("Ada L.", "")
    refused = ada("profile", "set", "--time-zone", "Mars")
    assert refused.exit_code == 2 and "Mars" in refused.stderr
    assert ada("profile", "set").exit_code == 2


def test_ssh_means_a_running_job_by_its_name(ada, job, monkeypatch):
    ran = []
    gateway = ssh.Gateway("gate", 22, "ssh-ed25519 A", "tessera-gate")
    monkeypatch.setattr(ssh, "find_gateway", lambda session: gateway)
    monkeypatch.setattr(ssh, "exec_program", lambda *words: ran.append(words))
    for words in ("ssh train", "exec train -- ls", "cp a train:b"):
        assert ada(*words.split()).exit_code == 0
    assert [job.public_id in words for words in ran[:2]] == [True, True]
    assert ran[2][-1] == f"{job.public_id}@tessera-gate:b"


def test_ssh_means_one_task_by_the_name_of_its_job(client, cast, job):
    assert find_gateway_name(client, "train.main.0") == f"{job.public_id}.main.0"
    assert find_gateway_name(client, "train.main.7") == "train.main.7", "no such task: the gateway tells"
    dotted = make.job(cast.ada, name="v1.main.0", gpu="1/4", pool="dev")
    make.start(dotted)
    assert find_gateway_name(client, "v1.main.0") == dotted.public_id
    assert find_gateway_name(client, "v1.main.0.main.0") == f"{dotted.public_id}.main.0"


def test_a_name_that_is_a_job_and_a_task_enters_neither(client, cast, job):
    make.start(other := make.job(cast.ada, name="train.main.0", gpu="1/4", pool="dev"))
    with pytest.raises(Failure) as refused:
        find_gateway_name(client, "train.main.0")
    assert refused.value.exit_code == 2
    assert set(refused.value.lines[1:]) == {f"  {job.public_id}.main.0, running", f"  {other.public_id}, running"}


def test_tasks_of_several_jobs_of_a_name_are_listed(client, cast, job):
    make.start(make.job(cast.ada, name="train", gpu="1/4", pool="dev"))
    with pytest.raises(Failure) as refused:
        find_gateway_name(client, "train.main.0")
    assert len(refused.value.lines) == 3 and f"  {job.public_id}.main.0, running" in refused.value.lines


def test_a_running_notebook_goes_before_a_job_of_its_name(client, cast, notebook):
    make.start(make.job(cast.ada, name="lab", gpu="1/4", pool="dev"))
    assert find_gateway_name(client, "lab") == "lab"


def test_several_running_jobs_of_a_name_are_listed(client, cast, job, ada):
    make.start(make.job(cast.ada, name="train", gpu="1/4", pool="dev"))
    refused = ada("share", "add", "train", "cleo")
    assert refused.exit_code == 2 and job.public_id in refused.stderr and not Share.objects.exists()


def test_a_notebook_and_an_id_stay_what_they_are_for_ssh(client, notebook):
    for name in ("lab", "nobody", "job-9.main.1", notebook.public_id):
        assert find_gateway_name(client, name) == name


def test_a_token_that_may_not_read_jobs_still_names_notebooks(portal, cast, job):
    narrow = Client(portal, make.token(cast.ada, "profile:write"), quiet=True)
    assert find_gateway_name(narrow, "train") == "train"
