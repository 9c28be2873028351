"""The chart as it is rendered, and what the API server says to it. Nothing is installed."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.deploy.helm.conftest import CHART
from tests.local_cluster import ROOT, Kubectl
from tests.runtimes.kubernetes.test_rights import manifests

ENGINE_PARTS = ("URL", "TOKEN", "USER", "PASSWORD", "CA")

pytestmark = pytest.mark.kubernetes

TRIAL = {"url": "http://localhost:8490", "bundled": {"enabled": True}}
WHOLE = {
    "install": "lab",
    "url": "https://gpu.example.net",
    "appsUrl": "https://*.gpu-apps.example.net",
    "existingSecret": "keys",
    "database": {"host": "db.example.net", "existingSecret": "db", "sslMode": "verify-full"},
    "valkey": {"existingSecret": "valkey"},
    "files": {"storageClass": "nfs"},
    "agent": {
        "enabled": True,
        "nodeSelector": {"cards": "yes"},
        "runtimeClass": "nvidia",
        "podLogs": "/data/pods",
        "dcgm": "http://$(HOST_IP):9400/metrics",
    },
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "portal", "appsTlsSecret": "apps"},
    "ssh": {"type": "LoadBalancer"},
    "mail": {"host": "mail.example.net", "user": "tessera", "existingSecret": "mail", "tls": True},
    "seriesEngine": {
        "writeUrl": "http://vm.x:8428/api/v1/write",
        "readUrl": "http://vm.x:8428",
        "existingSecret": "vm",
    },
    "settings": {"TESSERA_VISIBILITY": "private", "TESSERA_HOME_BYTES": 10**10},
    "networkPolicy": {"portalFrom": [{"namespaceSelector": {}}], "metricsFrom": [{"namespaceSelector": {}}]},
    "pods": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "annotations": {"a": "b"}},
}
WRONG = {
    "/url": {**TRIAL, "url": "gpu.example.net"},
    "/install": {**TRIAL, "install": "Our Lab"},
    "/seriesEngine/readUrl": {**TRIAL, "seriesEngine": {"readUrl": "vm:8428"}},
    "'replica' not allowed": {**TRIAL, "web": {"replica": 3}},
    "/ssh/port": {**TRIAL, "ssh": {"port": 22}},
    "'HOME'": {**TRIAL, "settings": {"HOME": "/"}},
    "or set bundled.enabled=true": {"url": "https://gpu.example.net"},
    "the Secret that has the database's password": {"url": "https://gpu.example.net", "database": {"host": "db"}},
    "ingress.tlsSecret": {**TRIAL, "url": "https://gpu.example.net", "ingress": {"enabled": True}},
}


def render(helm, values: dict) -> list[dict]:
    text = helm("template", "tessera", str(CHART), "--namespace", "lab-system", values=values)
    return [thing for thing in yaml.safe_load_all(text) if thing]


def pod_specs(things: list[dict]) -> dict[str, dict]:
    """Of the platform's own processes, by the name of what makes the pods."""
    return {
        thing["metadata"]["name"]: thing["spec"]["template"]["spec"]
        for thing in things
        if "template" in thing.get("spec", {}) and thing["kind"] != "DaemonSet"
    }


@pytest.mark.parametrize("values", [TRIAL, WHOLE], ids=["trial", "whole"])
def test_the_api_server_finds_nothing_wrong(helm, kubeconfig, values):
    things = render(helm, values)
    kubectl = Kubectl(kubeconfig, "default")
    for thing in things:
        thing["metadata"].pop("namespace", None)  # of the release, which is not made here
    kubectl("apply", "--dry-run=server", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": things})


@pytest.mark.parametrize("values", [TRIAL, WHOLE], ids=["trial", "whole"])
def test_helm_finds_nothing_wrong(helm, values):
    helm("lint", str(CHART), "--strict", values=values)


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_value_is_refused_and_named(helm, words):
    done = helm.run("template", "tessera", str(CHART), values=WRONG[words])
    assert done.returncode and words in done.stderr


def test_the_rights_are_those_of_the_file_under_the_installations_names(helm):
    wanted = [thing for thing in manifests("lab") if thing["kind"] != "Namespace"]
    found = render(helm, WHOLE)
    assert [thing for thing in wanted if thing not in found] == []


def test_the_agent_is_the_one_of_the_file_and_speaks_to_this_installation(helm):
    (ours,) = (thing for thing in render(helm, WHOLE) if thing["kind"] == "DaemonSet")
    (known,) = (
        thing
        for thing in yaml.safe_load_all((ROOT / "deploy/kubernetes/agent.yaml").read_text())
        if thing["kind"] == "DaemonSet"
    )
    spec, container = ours["spec"]["template"]["spec"], ours["spec"]["template"]["spec"]["containers"][0]
    assert ours["metadata"]["namespace"] == "lab-agents"
    assert {"--server=http://lab-web.lab-system.svc:8470", "--install=lab"} <= set(container["args"])
    assert (spec["nodeSelector"], spec["runtimeClassName"]) == ({"cards": "yes"}, "nvidia")
    volumes = known["spec"]["template"]["spec"]["volumes"]
    next(each for each in volumes if each["name"] == "pods")["hostPath"]["path"] = "/data/pods"
    assert spec["volumes"] == volumes
    assert container["securityContext"] == known["spec"]["template"]["spec"]["containers"][0]["securityContext"]


def test_every_variable_is_one_that_the_platform_reads(helm):
    settings = (ROOT / "platform/config/settings.py").read_text()
    names = {
        variable["name"]
        for spec in pod_specs(render(helm, WHOLE)).values()
        for container in spec["containers"]
        for variable in container["env"]
    }
    assert names > {"TESSERA_SECRET_KEY", "PGPASSWORD"}
    engines = {f"{engine}_{part}" for engine in re.findall(r'env_engine\("(\w+)"', settings) for part in ENGINE_PARTS}
    assert {name for name in names - engines if name not in settings} == {
        "PGSSLMODE",
        "TESSERA_POD_IP",
    }  # of libpq, of monitoring.presence


def test_some_process_takes_each_queue(helm):
    commands = [" ".join(spec["containers"][0].get("command", [])) for spec in pod_specs(render(helm, WHOLE)).values()]
    for queue in set(re.findall(r'"queue": "(\w+)"', (ROOT / "platform/config/celery.py").read_text())):
        assert any(re.search(rf"-Q \S*\b{queue}\b", command) for command in commands), queue


def test_every_process_has_a_probe_that_fails_where_it_is_stuck(helm, tmp_path):
    specs = pod_specs(render(helm, WHOLE))
    del specs["lab-setup"]  # a job: it ends
    probes = {name: spec["containers"][0]["livenessProbe"] for name, spec in specs.items()}
    asked = {name for name, probe in probes.items() if probe.get("httpGet", {}).get("path") == "/livez"}
    assert asked == {"lab-web", "lab-live", "lab-watch"} and probes.keys() - asked == {
        "lab-worker", "lab-sender", "lab-beat",
    }  # fmt: skip
    for name in probes.keys() - asked:
        container = specs[name]["containers"][0]
        file = next(each["value"] for each in container["env"] if each["name"] == "TESSERA_ALIVE")
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        check_by_age(probes[name]["exec"]["command"], file, tmp_path / "alive")
        assert container["startupProbe"]["exec"] == probes[name]["exec"]


def test_who_may_ask_for_metrics_reaches_every_process_that_tells_its_own(helm):
    things = render(helm, WHOLE)
    telling = {
        name: container
        for name, spec in pod_specs(things).items()
        for container in spec["containers"]
        if {"name": "metrics", "containerPort": 9090} in container.get("ports", ())
    }
    assert telling.keys() == {"lab-watch", "lab-worker", "lab-sender", "lab-beat"}
    for name in telling:  # so that /metrics/targets has an address that answers
        assert "TESSERA_POD_IP" in {variable["name"] for variable in telling[name]["env"]}
    for name in telling.keys() - {"lab-watch"}:  # which is told by its command
        assert {"name": "TESSERA_METRICS_LISTEN", "value": "0.0.0.0:9090"} in telling[name]["env"]
    (policy,) = (thing for thing in things if thing["metadata"]["name"] == "lab-metrics")
    (part,) = policy["spec"]["podSelector"]["matchExpressions"]
    assert {f"lab-{component}" for component in part["values"]} == telling.keys() and part["operator"] == "In"
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "metrics"}], "from": [{"namespaceSelector": {}}]}]
    assert not [thing for thing in render(helm, TRIAL) if thing["metadata"]["name"].endswith("-metrics")]


def check_by_age(command: list[str], file: str, here: Path) -> None:
    """What a probe says of a file that is missing, young and old, with another one in the place of its own."""
    assert any(file in word for word in command)
    words = [word.replace(file, str(here)) for word in command]

    def passes() -> bool:
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0

    here.unlink(missing_ok=True)
    assert not passes()
    here.touch()
    assert passes()
    os.utime(here, (time.time() - 400,) * 2)
    assert not passes()


def test_only_who_speaks_to_the_cluster_has_a_token(helm):
    specs = pod_specs(render(helm, WHOLE))
    having = {name for name, spec in specs.items() if spec["automountServiceAccountToken"]}
    assert having == {"lab-web", "lab-live", "lab-worker", "lab-watch", "lab-setup"}
    assert all(specs[name]["serviceAccountName"] == "lab" for name in having)


def test_no_process_may_become_more_than_it_is(helm):
    for values in (TRIAL, WHOLE):
        for name, spec in pod_specs(render(helm, values)).items():
            for container in spec["containers"]:
                fence = container["securityContext"]
                assert not fence["allowPrivilegeEscalation"] and fence["readOnlyRootFilesystem"], name
                assert fence["capabilities"]["drop"] == ["ALL"], name
                assert fence.get("runAsNonRoot") or name.split("-")[1] in {"web", "live", "worker"}, name


def test_nothing_runs_as_root_where_files_are_all_of_one_account(helm):
    specs = pod_specs(render(helm, {**WHOLE, "files": {"asPeople": False}}))
    assert all(
        container["securityContext"]["runAsNonRoot"] for spec in specs.values() for container in spec["containers"]
    )
