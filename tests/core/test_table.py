"""Identical requests are computed once, and only touched nodes again."""

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Policy
from scheduler.core.placement import scores as table_module
from tests.worlds import wants, world


def test_only_touched_nodes_are_judged_again(monkeypatch):
    judged = []
    real_judge = table_module.score_nodes

    def counting_judge(snapshot, request, nodes, scores):
        judged.append(len(nodes))
        return real_judge(snapshot, request, nodes, scores)

    monkeypatch.setattr(table_module, "score_nodes", counting_judge)
    nodes = "\n".join(f"n{number}: V100-32GBx4" for number in range(50))
    plan = run_cycle(world(nodes, *[wants("ada", "1/4")] * 20), Policy(), 100.0)
    assert len(plan.starts) == 20
    assert judged == [50] + [1] * 19


def test_jobs_behind_others_that_ask_alike_cost_no_look_at_any_node(monkeypatch):
    judged = []
    real_judge = table_module.score_nodes
    monkeypatch.setattr(table_module, "score_nodes", lambda *given: judged.append(1) or real_judge(*given))
    run_cycle(world("n1: V100-32GBx1 | bob holds 1", *[wants("ada", "1")] * 30), Policy(), 100.0)
    assert len(judged) == 5  # the first as it is, could it ever run, and when for each of the first two
