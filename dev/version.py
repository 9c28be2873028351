"""The version is said in pyproject.toml; what is installed without that file has a copy, written by bin/check --fix."""

import re
import tomllib

from dev.code_metrics import ROOT

COPIES = (
    ("cli/http/transport.py", r'(?m)^VERSION = "(.+)"$'),
    ("agent/daemon/report.py", r'(?m)^VERSION = "(.+)"$'),
    ("agent/pyproject.toml", r'(?m)^version = "(.+)"$'),
    ("deploy/helm/tessera/Chart.yaml", r"(?m)^version: (.+)$"),
    ("deploy/helm/tessera/Chart.yaml", r"(?m)^appVersion: (.+)$"),
    ("deploy/kubernetes/agent.yaml", r"(?m)^ +image: tessera:(.+)$"),
)


def check(fix: bool = False) -> str:
    """Return which copies say another version, a line each."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return "\n".join(line for name, pattern in COPIES if (line := check_copy(name, pattern, version, fix)))


def check_copy(name: str, pattern: str, version: str, fix: bool) -> str:
    """Return what is wrong with one copy, "" if nothing is or it was mended."""
    path = ROOT / name
    text = path.read_text()
    found = re.search(pattern, text)
    if found is None:
        return f"{name} has no line {pattern}"
    if found[1] == version:
        return ""
    if not fix:
        return f"{name} says {found[1]}, pyproject.toml {version}; bin/check --fix writes it."
    path.write_text(text[: found.start(1)] + version + text[found.end(1) :])
    return ""
