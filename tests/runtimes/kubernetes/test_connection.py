"""Whom a kubeconfig names, and what is refused in words."""

import json

import pytest

from runtimes.kubernetes.api.connection import BadKubeconfig, find_connection, read_kubeconfig


def config(path, cluster=(), user=(), **rest):
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **dict(cluster)}}],
        "users": [{"name": "u", "user": {"token": "secret", **dict(user)}}],
    }
    path.write_text(json.dumps(document | rest))
    return path


def test_a_server_and_a_token(tmp_path):
    found = read_kubeconfig(config(tmp_path / "config"))
    assert (found.server, found.authorization()) == ("https://10.0.0.1:6443", {"Authorization": "Bearer secret"})


def test_a_token_in_a_file_is_read_each_time(tmp_path):
    (tmp_path / "token").write_text("one\n")
    found = read_kubeconfig(config(tmp_path / "config", user={"tokenFile": "token"}))
    (tmp_path / "token").write_text("two\n")
    assert found.authorization() == {"Authorization": "Bearer two"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": {"server": "http://10.0.0.1"}}, "only https"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "trusts any server"),
        ({"user": {"exec": {"command": "aws"}}}, "starts a program"),
        ({"cluster": {"certificate-authority": "missing.crt"}}, "cannot be used"),
        ({"cluster": {"certificate-authority-data": "***"}}, "cannot be used"),
        ({"current-context": "elsewhere"}, "no context elsewhere"),
        ({"contexts": None}, "cannot be understood"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, change, words):
    with pytest.raises(BadKubeconfig, match=words):
        read_kubeconfig(config(tmp_path / "config", **change))


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(BadKubeconfig, match="cannot be read: No such file"):
        read_kubeconfig(tmp_path / "config")


def test_outside_a_cluster_a_kubeconfig_is_needed(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadKubeconfig, match="set KUBECONFIG"):
        find_connection()
