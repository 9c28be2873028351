"""Dashboards and rules name metrics that somebody tells, and every panel says what it is in."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.gpu.dcgm_fields import FIELDS, PREFIX, PROFILED, PROFILED_PREFIX, XID_ERRORS
from metrics.exposition import render_metrics
from scheduler.management.commands.watch import HELP_TEXTS
from scheduler.preview.platform_metrics import build_platform_families, build_task_families
from tests.deploy.dashboards import DASHBOARDS, EXAMPLE, find_names, list_expressions, list_rules, read_yaml

OF_THE_POOL = {"tessera_db_pool_wait_seconds_total", "tessera_db_pool_waiting"}
"""Told by a web process alone: tests have no pool of connections."""
OF_SHARES = {"tessera_share_busy_percent", "tessera_share_busy_seconds_total", "tessera_share_memory_bytes"}


@pytest.fixture(scope="module")
def told(django_db_setup, django_db_blocker) -> set[str]:
    """The names of all metrics, as a scrape has them."""
    with django_db_blocker.unblock():
        text = render_metrics(lambda: [*build_platform_families(), *build_task_families()]).decode()
    names = set(HELP_TEXTS) | OF_THE_POOL | OF_SHARES
    for family in text_string_to_metric_families(text):
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
        names |= {family.name + end for end in ends}
    names |= {PROFILED_PREFIX + field.name for field in PROFILED.values()}
    return names | {PREFIX + field.name for field in (*FIELDS, XID_ERRORS)}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_asks_for_what_is_told(dashboard, told):
    for expression in list_expressions(dashboard):
        names = find_names(expression)
        assert names and names <= told, f"{expression} names {names - told}"


def test_every_rule_watches_what_is_told_and_says_what_it_found(told):
    for rule in list_rules():
        assert find_names(rule["expr"]) <= told and find_names(rule["expr"]), rule["alert"]
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_the_five_dashboards_are_there_and_each_panel_has_a_place_and_a_unit():
    assert {path.stem for path in DASHBOARDS} == {"cluster", "node", "job", "idle", "platform"}
    for path in DASHBOARDS:
        found = json.loads(path.read_text())
        places = [tuple(panel["gridPos"].values()) for panel in found["panels"]]
        assert len(set(places)) == len(places) and all(x + width <= 24 for x, _, width, _ in places)
        assert all(panel["title"] and panel["fieldConfig"]["defaults"]["unit"] for panel in found["panels"])


def test_the_example_asks_where_the_portal_answers():
    jobs = {job["job_name"]: job for job in read_yaml(EXAMPLE)["scrape_configs"]}
    assert jobs["tessera"]["http_sd_configs"][0]["url"].endswith("/metrics/targets")
    assert jobs["tessera-tasks"]["params"] == {"tasks": ["1"]}


def test_names_in_quotes_are_no_metrics():
    assert find_names('rate(tessera_a_total{x=~"tessera_b"}[5m]) / DCGM_C') == {"tessera_a_total", "DCGM_C"}
