"""`bin/start --cluster`: the demo job as a pod, and what is said where there is no cluster."""

import os
import re
import subprocess
import sys
from functools import partial

import pytest

from bench.stack import running_stack
from config.embedded import data_dir, on_cluster
from config.embedded.supervisor import Failure
from dev.cluster.parts.storage import CLASS, PROVISIONER
from dev.cluster.registry import default_image
from tests.local_cluster import local_place
from tests.runtimes.kubernetes.signed_in import WAYS
from tests.runtimes.kubernetes.world import leave_nothing, wait_slowly

BESIDE_OTHERS = True
LIVES_S = 20


def start(data, **environment) -> subprocess.CompletedProcess:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TESSERA_", "KUBECONFIG"))}
    command = [sys.executable, "-m", "config.embedded.start", "--cluster", "--demo-once", "--data", str(data)]
    command += ["--port", "18473"]
    return subprocess.run(command, env=ours | environment, capture_output=True, text=True, timeout=300)


def test_without_a_cluster_it_says_how_to_get_one(tmp_path):
    done = start(tmp_path / "data")
    assert done.returncode == 1
    assert "KUBECONFIG names none" in done.stderr and "bin/cluster up" in done.stderr


def test_a_cluster_that_does_not_answer_is_told_in_words(tmp_path):
    (tmp_path / "config").write_text("current-context: none\n")
    done = start(tmp_path / "data", KUBECONFIG=str(tmp_path / "config"))
    assert done.returncode == 1
    assert "cannot be understood" in done.stderr and "bin/cluster up" in done.stderr


@pytest.mark.parametrize(("mark", "cluster", "words"), [(True, False, "with --cluster"), (False, True, "without")])
def test_a_folder_of_the_other_kind_is_refused(tmp_path, mark, cluster, words):
    (tmp_path / "postgres").mkdir()
    data_dir.check_data(tmp_path, cluster=False)
    if mark:
        (tmp_path / data_dir.MARK).write_text("local-1")
    with pytest.raises(Failure, match=words):
        data_dir.check_data(tmp_path, cluster=cluster)


def test_an_installation_keeps_its_name_for_life(tmp_path, monkeypatch):
    monkeypatch.delenv("TESSERA_INSTALL", raising=False)
    name = on_cluster.cluster_environment(tmp_path)["TESSERA_INSTALL"]
    monkeypatch.setenv("TESSERA_INSTALL", "another")
    assert on_cluster.cluster_environment(tmp_path)["TESSERA_INSTALL"] == name != "another"


def test_a_volume_that_is_named_already_stays(monkeypatch):
    monkeypatch.setenv("TESSERA_STORAGE_CLASS", "")
    assert on_cluster.storage_environment(None, "mine") == {}


@pytest.mark.kubernetes
def test_files_lie_on_the_volume_of_bin_cluster_in_a_folder_of_the_installation(kubeconfig, monkeypatch):
    monkeypatch.delenv("TESSERA_STORAGE_CLASS", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    with on_cluster.connect() as api:
        found, shared = on_cluster.storage_environment(api, "mine"), local_place().shared
    if not shared.is_dir():
        pytest.skip("NO VOLUME: the cluster is not bin/cluster's.")
    assert (found["TESSERA_STORAGE_CLASS"], found["TESSERA_STORAGE"]) == (CLASS, str(shared))
    assert found["TESSERA_FILES"] == f"{shared}/mine/files" and found["TESSERA_CODE"] == f"{shared}/mine/code"
    assert (on_cluster.CLASS, on_cluster.ONE_DIRECTORY) == (CLASS, PROVISIONER)


@pytest.mark.kubernetes
@pytest.mark.timeout(400)
def test_the_demo_job_runs_on_a_simulated_quarter_of_the_clusters_gpu(tmp_path, kubeconfig):
    data, environment = tmp_path / "data", {"KUBECONFIG": str(kubeconfig), "TESSERA_IMAGE": default_image()}
    try:
        done = start(data, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "GPU 0 (8127 MiB of V100-32GB)" in done.stdout and "are simulated" in done.stdout
    finally:
        leave_nothing(kubeconfig, (data / data_dir.MARK).read_text())


@pytest.mark.kubernetes
@pytest.mark.timeout(400, func_only=True)
@pytest.mark.parametrize("way", WAYS)
def test_jobs_start_before_and_after_the_credential_of_a_program_is_refused(tmp_path, own_cluster, way):
    small = {"run": "echo here", "gpu": "0", "cpu": 0.1, "memory": "64MB"}
    with WAYS[way](own_cluster, LIVES_S, tmp_path) as signed_in:
        cluster = {"KUBECONFIG": str(signed_in.kubeconfig), "TESSERA_IMAGE": default_image()}
        with running_stack(cluster=cluster, notebooks=False) as stack:
            try:
                for _ in range(2):
                    job = stack.api("POST", "/jobs", small)["id"]
                    stack.wait_for(job, "succeeded", seconds=60)
                    newest = signed_in.runs() - 1  # this one or an older one started the job
                    wait_slowly(partial(signed_in.is_refused, newest))
                assert not re.search("Unauthorized|Traceback", (stack.data / "logs-of-platform/watch.log").read_text())
            finally:
                leave_nothing(own_cluster, (stack.data / data_dir.MARK).read_text(), within_s=60)
