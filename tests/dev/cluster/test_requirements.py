import pytest

from dev.cluster import requirements
from dev.cluster.paths import Refusal
from dev.cluster.requirements import check_machine, install


def test_who_is_not_root_is_told_to_be(monkeypatch):
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    with pytest.raises(Refusal, match="Run this as root"):
        check_machine()


def test_missing_control_groups_are_named(monkeypatch):
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "list_controllers", lambda: {"cpu", "cpuset", "pids"})
    with pytest.raises(Refusal, match="The control groups memory are missing"):
        check_machine()


def test_without_apt_the_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(requirements.shutil, "which", lambda name: None)
    with pytest.raises(Refusal, match=r"by Debian's names: iptables\."):
        install({"iptables": "iptables"})


def test_what_is_there_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(requirements.shutil, "which", lambda name: None)
    install({str(tmp_path): "apt would be refused"})
