"""The expressions of the dashboards and rules that are delivered."""

import json
import re
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
RULES = ROOT / "deploy/prometheus/rules.yaml"
EXAMPLE = ROOT / "deploy/prometheus/prometheus.yaml"


def list_expressions(dashboard: Path) -> list[str]:
    """Return them as Grafana would send them: for all that its variables can be."""
    panels = json.loads(dashboard.read_text())["panels"]
    return [fill_in(target["expr"]) for panel in panels for target in panel["targets"]]


def fill_in(expression: str) -> str:
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


def read_yaml(path: Path):
    return YAML(typ="safe").load(path.read_text())


def list_rules() -> list[dict]:
    return [rule for group in read_yaml(RULES)["groups"] for rule in group["rules"]]


def find_names(expression: str) -> set[str]:
    """Return the metrics that an expression names, without what is in quotes or is a label."""
    bare = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:tessera|DCGM|process)_\w+", bare))
