"""When a task is warned of its GPU memory, and when it is ended: figures in, sentences out."""

from agent.gpu.policy import GpuPolicy
from runtimes.local.shim.gpu_watch import Account

CARD = "GPU-1"


def hear(policy: GpuPolicy, *used: int, **more: int) -> list[str]:
    """What it said to each of these looks: the end, else the warning, else nothing."""
    said = []
    for mib in used:
        warnings, verdict = policy.evaluate({CARD: {"used_mib": mib, **more}})
        said.append(verdict or "".join(warnings))
    return said


def test_the_end_comes_after_so_many_looks_in_a_row():
    policy = GpuPolicy({CARD: 1000}, 3, kept=False)
    assert not any("GPU memory" in words for words in hear(policy, 1001, 1001, 1000, 1001, 1001))
    assert hear(policy, 1001) == ["It used 1001 MiB of GPU memory on GPU-1; its slice is 1000 MiB."]


def test_a_warning_comes_again_only_after_it_was_well_below():
    said = hear(GpuPolicy({CARD: 1000}, 3, kept=False), 949, 950, 999, 920, 960, 899, 950)
    assert [bool(words) for words in said] == [False, True, False, False, False, False, True]


def test_in_a_slice_of_ours_a_few_modules_are_no_escape_and_a_driver_of_its_own_is():
    limit = 16255
    policy = GpuPolicy({CARD: limit}, 1, kept=True)
    assert "slice is" not in hear(policy, limit + 800, counted_mib=limit)[0]
    (words,) = hear(policy, limit + 900, counted_mib=10)
    assert words.endswith("its slice is 16255 MiB. Through the library of its slice it had 10 MiB.")


def test_the_account_counts_where_the_driver_tells_nothing():
    policy = GpuPolicy({CARD: 1000}, 1, kept=True)
    hear(policy, 0, counted_mib=700, refused=2)
    card = policy.cards[CARD]
    assert card == {"limit_mib": 1000, "used_mib": 700, "peak_mib": 700, "refused": 2, "watched": True}


def test_a_resized_slice_is_followed_where_its_programs_cannot_have_done_it():
    for guarded, limit in ((True, 500), (False, 1000)):
        policy = GpuPolicy({CARD: 1000}, 1, kept=True, guarded=guarded)
        hear(policy, 0, limit_mib=500)
        assert policy.limits[CARD] == limit


def corrected(*looks: tuple[int, int, int]) -> list[int]:
    """What is charged besides after each look. looks: (account before, NVML, account after), MiB."""
    account, charged = Account.__new__(Account), []
    account.missing = {}
    for before, held, after in looks:

        def ask(charges=None, after=after):
            charged.extend((charges or {}).values())
            return {CARD: {"counted_mib": after, "refused": 0}}

        account.ask = ask
        account.correct({CARD: held}, {CARD: {"counted_mib": before, "refused": 0}})
    return charged


def test_what_nvml_knows_beyond_the_account_is_charged_from_the_second_look_on():
    assert corrected((100, 400, 100), (100, 500, 100), (100, 350, 100)) == [0, 300, 250]


def test_what_was_freed_while_we_looked_is_not_missing():
    """NVML saw it still, or a moment's allocation was seen by NVML alone: a request that fits is not refused for it."""
    assert corrected((9000, 9000, 100), (100, 9000, 9000), (100, 9000, 100), (100, 300, 100)) == [0, 0, 0, 200]


def test_that_nobody_looks_is_said_once_and_that_somebody_does_again():
    policy = GpuPolicy({CARD: 1000}, 1, kept=False)
    (words,) = policy.mark_unwatched("it ended with -9")
    assert "not watched at the moment: it ended with -9." in words and not policy.cards[CARD]["watched"]
    assert policy.mark_unwatched("it ended with -9") == []
    assert hear(policy, 10, 10) == ["The GPU memory of this task is watched again.", ""]
    assert policy.cards[CARD]["watched"]
