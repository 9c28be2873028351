"""Small worlds: one thing happens, one thing is looked at."""

from dataclasses import replace

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Placement, Plan, Policy, Refusal
from tests.worlds import build_ask, of_roles, wants, with_waiting, world

HOUR = 3600.0
ONE_CARD = {"gpu_milli": 1000}


def cycle(snapshot, now=100.0) -> Plan:
    return run_cycle(snapshot, Policy(), now)


def started(plan: Plan) -> list[int]:
    return [placement.job for placement in plan.starts]


def why(plan: Plan, job: int) -> list[str]:
    return [refusal.reason for refusal in plan.refusals[job]]


def cards(placement: Placement) -> list[int]:
    return [card.gpu for task in placement.tasks for card in task.cards]


def test_eight_slices_of_4gb_share_a_card_and_the_ninth_waits_and_says_why():
    plan = cycle(world("n1: V100-32GBx1", *[wants("ada", "4GB")] * 9))
    assert started(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    (refusal,) = plan.refusals[9]
    assert refusal.reason == "no_fit_now"
    assert refusal.params["free_mib"] == 1990 and refusal.params["need_mib"] == 3815


def test_a_slice_of_4gb_is_3815_mib_and_11_percent_of_a_v100():
    (start,) = cycle(world("n1: V100-32GBx1", wants("ada", "4GB"))).starts
    (card,) = start.tasks[0].cards
    assert (card.memory_mib, card.compute_percent, card.milli) == (3815, 11, 117)


def test_a_quarter_a_half_and_a_quarter_fill_a_card():
    jobs = [wants("ada", share) for share in ("1/4", "1/2", "1/4", "1/8")]
    assert started(cycle(world("n1: V100-32GBx1", *jobs))) == [1, 2, 3]


def test_a_card_has_no_more_slices_than_its_pool_allows():
    plan = cycle(world("n1: V100-32GBx1", *[wants("ada", "1GB")] * 9))
    assert started(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert plan.refusals[9][0].params["slices"] == plan.refusals[9][0].params["max_slices"] == 8


def test_a_card_with_memory_to_spare_and_no_compute_is_full():
    plan = cycle(world("n1: V100-32GBx1", wants("ada", "4GB@60"), wants("ada", "4GB@60")))
    assert started(plan) == [1]
    assert plan.refusals[2][0].params["free_percent"] == 40


def test_slices_pack_on_one_card_and_keep_the_other_whole():
    plan = cycle(world("n1: V100-32GBx2", wants("ada", "1/4"), wants("bob", "1/4"), wants("ada", "1")))
    assert [cards(start) for start in plan.starts] == [[0], [0], [1]]


def test_a_slice_goes_to_the_node_where_a_card_is_already_shared():
    plan = cycle(world("n1: V100-32GBx1\nn2: V100-32GBx1 | bob holds 1/2", wants("ada", "1/4")))
    assert cards(plan.starts[0]) == [1]


def test_a_slice_goes_to_the_fullest_card_that_has_room():
    fuller_node = "n1: V100-32GBx2 | bob holds 1 | bob holds 1/4"
    fuller_card = "n2: V100-32GBx2 | bob holds 3/4"
    assert cards(cycle(world(f"{fuller_node}\n{fuller_card}", wants("ada", "1/4"))).starts[0]) == [2]


def test_whole_cards_go_to_the_node_that_is_fuller():
    plan = cycle(world("n1: V100-32GBx4\nn2: V100-32GBx4 | bob holds 2", wants("ada", "2")))
    assert plan.starts[0].tasks[0].node == 1


def test_cpu_only_work_leaves_the_nodes_with_cards_alone():
    assert cycle(world("n1: V100-32GBx1\nc1: cpu", wants("ada", "cpu"))).starts[0].tasks[0].node == 1


def test_cpu_only_work_stays_on_the_home_nodes_of_its_pool():
    plan = cycle(world("n1 train: V100-32GBx1\nn2: cores 2", wants("ada", "cpu", cores=4)))
    assert started(plan) == []


def test_a_pool_that_is_not_shared_takes_whole_cards_only():
    plan = cycle(world("n1 train: V100-32GBx2", wants("ada", "1/4", pool="train"), wants("ada", "1", pool="train")))
    assert started(plan) == [2] and why(plan, 1) == ["impossible"]


def test_a_card_of_another_pool_is_not_touched():
    assert started(cycle(world("n1 train: V100-32GBx1\nn2: V100-32GBx1 | bob holds 1", wants("ada", "1")))) == []


def test_a_closed_node_gets_nothing_and_the_job_waits():
    plan = cycle(world("n1: closed V100-32GBx1", wants("ada", "1")))
    assert why(plan, 1) == ["no_fit_now"]


def test_a_team_at_its_limit_waits_while_another_team_starts():
    limit = {("ada", "dev"): ONE_CARD}
    plan = cycle(world("n1: V100-32GBx4 | ada holds 1", wants("ada", "1"), wants("eve", "1"), limit=limit))
    assert started(plan) == [2]
    numbers = {"team": "ada", "resource": "gpu_milli", "used": 1000, "limit": 1000, "ask": 1000}
    assert plan.refusals[1] == [Refusal("team_limit", numbers)]


def test_a_parent_at_its_limit_holds_its_children_back():
    limit, parents = {("lab", "dev"): ONE_CARD}, {"ada": "lab", "bob": "lab"}
    plan = cycle(world("n1: V100-32GBx4 | bob holds 1", wants("ada", "1"), limit=limit, parents=parents))
    assert plan.refusals[1][0].params["team"] == "lab"


def test_a_user_at_the_limit_of_memory_waits():
    plan = cycle(world("n1: V100-32GBx4", wants("ada", "1", memory_mib=9000), user_limit={"ada": {"memory_mib": 8000}}))
    assert plan.refusals[1][0].params == {"resource": "memory_mib", "used": 0, "limit": 8000, "ask": 9000}


def test_a_user_runs_so_many_jobs_at_once_and_no_more():
    plan = cycle(world("n1: V100-32GBx4", *[wants("ada", "1")] * 3, jobs_limit={"ada": 2}))
    assert started(plan) == [1, 2] and plan.refusals[3] == [Refusal("rate_policy", {"used": 2, "limit": 2})]


def test_a_held_job_waits_and_holds_up_nobody():
    plan = cycle(world("n1: V100-32GBx1", wants("ada", "1", held=True), wants("ada", "1")))
    assert started(plan) == [2] and why(plan, 1) == ["held"]


def test_a_job_for_later_waits_until_then():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", not_before=200.0))
    assert cycle(snapshot, now=199.0).refusals[1] == [Refusal("start_after", {"at": 200.0})]
    assert started(cycle(snapshot, now=200.0)) == [1]


def test_a_job_after_others_waits_for_them_and_holds_up_nobody():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1"), wants("ada", "1"))
    snapshot.waiting = (replace(snapshot.waiting[0], after=(7, 8)), snapshot.waiting[1])
    plan = cycle(snapshot)
    assert started(plan) == [2] and plan.refusals[1] == [Refusal("dependency", {"jobs": [7, 8]})]


def test_a_gang_that_does_not_fit_takes_nothing():
    plan = cycle(
        world("n1: V100-32GBx1\nc1: cpu\nn2: V100-32GBx1 | bob holds 1", wants("ada", "1", gang=2), wants("ada", "cpu"))
    )
    assert started(plan) == [2]
    assert plan.refusals[1] == [Refusal("gang_incomplete", {"have": 1, "need": 2})]


def test_a_gang_starts_together_on_several_nodes_with_ranks():
    plan = cycle(world("n1: V100-32GBx2\nn2: V100-32GBx2", wants("ada", "2", gang=2)))
    assert [(task.rank, task.node) for task in plan.starts[0].tasks] == [(0, 0), (1, 1)]


def test_a_gang_of_unlike_roles_gives_the_big_task_the_node_that_it_needs():
    snapshot = world("n1: V100-32GBx2\nn2: V100-32GBx1", wants("ada", "1"))
    small, big = build_ask(snapshot.kind_names, "1"), build_ask(snapshot.kind_names, "2")
    job = of_roles(snapshot.waiting[0], ("launcher", 1, small), ("worker", 1, big))
    (start,) = cycle(with_waiting(snapshot, job)).starts
    assert [(task.role, task.rank, task.node) for task in start.tasks] == [("launcher", 0, 1), ("worker", 1, 0)]


def test_no_node_has_enough_cards_though_the_cluster_has():
    plan = cycle(world("n1: V100-32GBx2 | bob holds 1\nn2: V100-32GBx1", wants("ada", "2")))
    numbers = {"resource": "gpus", "free": 2, "ask": 2, "best_node": "n1", "best": 1}
    assert plan.refusals[1] == [Refusal("no_fit_now", numbers)]


def test_a_node_short_of_cpu_says_so():
    plan = cycle(world("n1: V100-32GBx2 cores 8 | bob holds 1", wants("ada", "1", cores=8)))
    numbers = {"resource": "cpu_milli", "free": 7000, "ask": 8000, "best_node": "n1", "best": 7000, "beside": True}
    assert plan.refusals[1] == [Refusal("no_fit_now", numbers)]


def test_pieces_that_are_too_small_are_called_fragmented():
    plan = cycle(world("n1: V100-32GBx2 | bob holds 3/4 | bob holds 3/4", wants("ada", "1/2")))
    assert why(plan, 1) == ["fragmented", "no_fit_now"]


def test_the_models_asked_for_are_all_busy():
    plan = cycle(world("n1: A100x1 | bob holds 1\nn2: V100-32GBx1", wants("ada", "A100:1")))
    assert plan.refusals[1][0] == Refusal("model_unavailable", {"models": ["A100"]})


def test_the_model_liked_best_is_taken_first():
    nodes = "n1: A100x1 | bob holds 1/2\nn2: H100x1\nn3: T4x1"
    jobs = [wants("ada", "H100,A100/4"), wants("ada", "A100,H100/4"), wants("ada", "T4,A100/4")]
    assert [cards(start) for start in cycle(world(nodes, *jobs)).starts] == [[1], [0], [2]]


def test_the_second_choice_is_taken_where_the_first_is_busy():
    plan = cycle(world("n1: A100x1\nn2: H100x1 | bob holds 1", wants("ada", "H100,A100/4")))
    assert cards(plan.starts[0]) == [0]


def test_all_cards_of_a_task_are_of_one_kind():
    assert started(cycle(world("n1: A100x1 H100x1", wants("ada", "2")))) == []
    assert cards(cycle(world("n1: A100x1 T4x2", wants("ada", "A100,T4:2"))).starts[0]) == [1, 2]


def test_a_limit_of_quota_lets_the_cheaper_kind_through():
    """10 GB are 631 thousandths of a T4 and 116 of an H100."""
    limit = {("ada", "dev"): {"gpu_milli": 200}}
    plan = cycle(world("n1: T4x1\nn2: H100x1", wants("ada", "T4,H100:10GB"), limit=limit))
    assert cards(plan.starts[0]) == [1]


def test_a_limit_of_a_user_lets_the_cheaper_kind_through_too():
    plan = cycle(world("n1: T4x1\nn2: H100x1", wants("ada", "T4,H100:10GB"), user_limit={"ada": {"gpu_milli": 200}}))
    assert cards(plan.starts[0]) == [1]


def test_a_gang_takes_the_dearer_kind_only_as_far_as_its_quota_goes():
    limit = {("ada", "dev"): {"gpu_milli": 800}}
    plan = cycle(world("n1: T4x2\nn2: H100x1", wants("ada", "T4,H100:10GB", gang=2), limit=limit))
    assert cards(plan.starts[0]) == [0, 2]


def test_urgent_goes_before_high_before_normal_before_low():
    jobs = [wants("ada", "1", priority=word) for word in ("low", "normal", "high", "urgent")]
    plan = cycle(world("n1: V100-32GBx2", *jobs))
    assert started(plan) == [4, 3] and plan.positions == {2: (1, 2), 1: (2, 2)}


def test_twelve_hours_of_waiting_raise_a_job_by_one_class():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", priority="low"), wants("ada", "1", at=40000.0))
    assert started(cycle(snapshot, now=1.0 + 12 * HOUR - 1)) == [2]
    assert started(cycle(snapshot, now=1.0 + 12 * HOUR)) == [1]


def test_age_never_makes_a_job_urgent():
    urgent = wants("ada", "1", priority="urgent", at=1000 * HOUR)
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", priority="high"), urgent)
    assert started(cycle(snapshot, now=1000 * HOUR)) == [2]


def test_a_later_job_does_not_overtake_one_that_waits_for_the_same_cards():
    plan = cycle(world("n1: V100-32GBx2 | bob holds 1", wants("ada", "2"), wants("ada", "1"), wants("eve", "1/4")))
    assert started(plan) == []
    kept = Refusal("reserved_for_larger", {})
    assert plan.refusals[2] == [Refusal("ahead_in_queue", {"n": 1}), kept]
    assert plan.refusals[3] == [Refusal("ahead_in_queue", {"n": 2}), kept]
    assert plan.positions == {1: (1, 3), 2: (2, 3), 3: (3, 3)}


def test_a_later_job_starts_on_cards_of_a_kind_that_nobody_ahead_could_use():
    plan = cycle(world("n1: V100-32GBx1 | bob holds 1\nn2: T4x1", wants("ada", "V100-32GB:1"), wants("ada", "1")))
    assert started(plan) == [2] and cards(plan.starts[0]) == [1]


def test_a_job_with_a_choice_leaves_the_kind_that_one_ahead_waits_for():
    jobs = [wants("ada", "A100:2"), wants("eve", "A100,V100-32GB:1")]
    plan = cycle(world("n1: A100x2 | bob holds 1\nn2: V100-32GBx1", *jobs))
    assert started(plan) == [2] and cards(plan.starts[0]) == [2]


def test_cpu_only_work_goes_on_while_jobs_wait_for_cards():
    plan = cycle(world("n1: V100-32GBx1 | bob holds 1", wants("ada", "1"), wants("ada", "cpu")))
    assert started(plan) == [2]


def test_cpu_only_work_is_first_come_first_served_too():
    plan = cycle(world("c1: cores 4 | bob holds cpu", wants("ada", "cpu", cores=4), wants("eve", "cpu")))
    assert started(plan) == [] and why(plan, 2) == ["ahead_in_queue", "reserved_for_larger"]


def test_a_job_that_could_never_run_holds_up_nobody():
    plan = cycle(world("n1: V100-32GBx1", wants("ada", "4"), wants("ada", "1")))
    assert started(plan) == [2]
    assert plan.refusals[1] == [Refusal("impossible", {"field": "gpus", "asked": 4, "largest": 1})]


def test_a_team_within_its_guarantee_goes_before_one_that_came_earlier_without():
    plan = cycle(world("n1: V100-32GBx1", wants("eve", "1"), wants("ada", "1"), guarantee={("ada", "dev"): ONE_CARD}))
    assert started(plan) == [2]


def test_beyond_its_guarantee_a_team_queues_with_everybody():
    jobs = [wants("eve", "1"), wants("ada", "1"), wants("ada", "1")]
    plan = cycle(world("n1: V100-32GBx2", *jobs, guarantee={("ada", "dev"): ONE_CARD}))
    assert started(plan) == [2, 1] and why(plan, 3) == ["no_fit_now"]


def test_a_team_may_use_the_guarantee_of_the_team_above_it():
    jobs, parents = [wants("eve", "1"), wants("ada", "1")], {"ada": "lab"}
    plan = cycle(world("n1: V100-32GBx1", *jobs, parents=parents, guarantee={("lab", "dev"): ONE_CARD}))
    assert started(plan) == [2]


def test_a_guarantee_of_cpu_that_is_used_up_counts_where_it_is_set():
    guarantee = {("ada", "dev"): {"gpu_milli": 4000, "cpu_milli": 500}}
    jobs = [wants("eve", "1", preemptible=True), wants("ada", "1", preemptible=True)]
    plan = cycle(world("n1: V100-32GBx1", *jobs, guarantee=guarantee))
    assert started(plan) == [1]


def test_within_its_guarantee_means_on_whichever_kind_of_card_it_lands():
    """10 GB are 631 thousandths of a T4 and 116 of an H100; the guarantee covers only the second."""
    guarantee = {("ada", "dev"): {"gpu_milli": 500}}
    jobs = [wants("eve", "H100:1", preemptible=True), wants("ada", "T4,H100:10GB", preemptible=True)]
    plan = cycle(world("n1: T4x1 | bob holds 1\nn2: H100x1", *jobs, guarantee=guarantee))
    assert started(plan) == [1]


def test_the_snapshot_stays_as_it_was():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1"))
    cycle(snapshot)
    assert snapshot.gpu_free_mib.tolist() == [32510] and snapshot.user_jobs.tolist() == [0]


def test_nothing_waiting_in_an_empty_cluster_is_an_empty_plan():
    assert cycle(world("")) == Plan()
