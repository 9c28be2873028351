from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.gpu.mig_instances import index_of
from common.errors import InvalidInput
from common.resources import (
    GpuAsk,
    Slice,
    cpu_text,
    duration_text,
    gb_to_mib,
    gpu_milli,
    matches_model,
    memory_text,
    parse_cpu,
    parse_duration,
    parse_gpu,
    parse_memory,
    rank_of,
    sellable_mib,
    show_cpu,
    show_duration,
    show_gpu,
    show_memory,
    show_place,
    slice_of,
)

V100 = 32_510


def code_of(reader, *args):
    with pytest.raises(InvalidInput) as caught:
        reader(*args)
    [error] = caught.value.errors
    return error.code


def test_a_v100_sells_what_nvml_leaves():
    assert sellable_mib(32_768, 258) == V100
    assert sellable_mib(32_768, 258, 500) == 32_010
    assert sellable_mib(100, 200) == 0


def test_half_of_a_v100_is_the_figure_of_the_demonstration():
    assert slice_of(parse_gpu("1/2"), V100) == Slice(16_255, 50)
    assert slice_of(parse_gpu("1/4"), V100) == Slice(8_127, 25)


def test_eight_slices_of_4_gb_fit_and_a_ninth_does_not():
    share = slice_of(parse_gpu("4GB"), V100)
    assert share == Slice(3_815, 11)
    assert V100 - 8 * share.memory_mib == 1_990
    assert 9 * share.memory_mib > V100


def test_a_quarter_a_half_and_a_quarter_fill_a_card():
    shares = [slice_of(parse_gpu(text), V100) for text in ("1/4", "1/2", "V100/4")]
    assert sum(s.memory_mib for s in shares) <= V100
    assert sum(s.compute_percent for s in shares) == 100


def test_a_whole_card_is_everything():
    assert slice_of(parse_gpu("H100:8"), V100) == Slice(V100, 100)
    assert gpu_milli(Slice(V100, 100), V100) == 1000


def test_a_slice_larger_than_the_card_cannot_come_from_it():
    assert slice_of(parse_gpu("40GB"), V100) is None
    assert slice_of(parse_gpu("1/4"), 0) is None
    assert slice_of(parse_gpu("1/100"), 50) is None


def test_asking_a_card_for_nothing_is_a_bug():
    with pytest.raises(ValueError):
        slice_of(parse_gpu(0), V100)


@pytest.mark.parametrize(
    "share, milli",
    [
        (Slice(8_127, 25), 250),
        (Slice(16_255, 50), 500),
        (Slice(3_815, 11), 117),
        (Slice(10, 0), 1),
        (Slice(10_836, 33), 333),
    ],
)
def test_quota_counts_thousandths_of_a_card(share, milli):
    assert gpu_milli(share, V100) == milli


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1_000, 300_000))
@settings(max_examples=200)
def test_parts_that_make_one_card_never_oversell_it(a, b, sellable):
    a, b = min(a, b), max(a, b)
    share = slice_of(GpuAsk(1, part=(a, b)), sellable)
    times = b // a
    assert times * share.memory_mib <= sellable and times * share.compute_percent <= 100
    assert gpu_milli(share, sellable) <= 1000


@pytest.mark.parametrize(
    "text, ask, canonical",
    [
        (0, GpuAsk(0), "0"),
        (1, GpuAsk(1), "1"),
        ("2", GpuAsk(2), "2"),
        ("1/4", GpuAsk(1, part=(1, 4)), "1/4"),
        ("2/8", GpuAsk(1, part=(1, 4)), "1/4"),
        ("3/4", GpuAsk(1, part=(3, 4)), "3/4"),
        ("4/4", GpuAsk(1), "1"),
        ("10GB", GpuAsk(1, memory_gb=Decimal(10)), "10GB"),
        ("10 gb", GpuAsk(1, memory_gb=Decimal(10)), "10GB"),
        ("1.50GB", GpuAsk(1, memory_gb=Decimal("1.5")), "1.5GB"),
        ("100GB", GpuAsk(1, memory_gb=Decimal(100)), "100GB"),
        ("H100", GpuAsk(1, models=("H100",)), "H100"),
        ("h100:8", GpuAsk(8, models=("H100",)), "H100:8"),
        ("H100/4", GpuAsk(1, part=(1, 4), models=("H100",)), "H100/4"),
        ("H100:1/4", GpuAsk(1, part=(1, 4), models=("H100",)), "H100/4"),
        ("H100:3/4", GpuAsk(1, part=(3, 4), models=("H100",)), "H100:3/4"),
        ("H100/1", GpuAsk(1, models=("H100",)), "H100"),
        ("V100-32GB:2", GpuAsk(2, models=("V100-32GB",)), "V100-32GB:2"),
        ("V100-32GB", GpuAsk(1, models=("V100-32GB",)), "V100-32GB"),
        ("H100, A100:2", GpuAsk(2, models=("H100", "A100")), "H100,A100:2"),
        ("H100,A100,H100", GpuAsk(1, models=("H100", "A100")), "H100,A100"),
        ("H100,A100/8", GpuAsk(1, part=(1, 8), models=("H100", "A100")), "H100,A100/8"),
        ("A100:10GB", GpuAsk(1, memory_gb=Decimal(10), models=("A100",)), "A100:10GB"),
    ],
)
def test_the_gpu_grammar(text, ask, canonical):
    assert parse_gpu(text) == ask
    assert ask.text == canonical
    assert parse_gpu(canonical) == ask


@pytest.mark.parametrize(
    "text, code",
    [
        ("40GB..80GB:2", "gpu_range"),
        ("4..8", "gpu_range"),
        ("10GB:2", "gpu_several_slices"),
        ("H100/4:2", "gpu_several_slices"),
        ("H100:10GB:2", "gpu_several_slices"),
        ("", "bad_gpu"),
        ("1/0", "bad_gpu"),
        ("0/4", "too_small"),
        ("5/4", "gpu_part_too_large"),
        ("1/101", "too_small"),
        ("1/" + "9" * 39, "too_small"),
        ("9" * 30, "too_large"),
        (10**4000, "number_out_of_range"),
        (-1, "too_small"),
        (10_001, "too_large"),
        ("H100:0", "too_small"),
        ("H100:", "bad_gpu"),
        (":8", "bad_gpu"),
        ("H100,,A100", "bad_gpu"),
        ("A,B,C,D,E,F,G,H,I", "too_many"),
        ("0.01GB", "too_small"),
        ("99999GB", "too_large"),
        ("1.5", "bad_gpu"),
        (0.5, "bad_gpu"),
        (True, "wrong_type"),
        (None, "wrong_type"),
        (["H100"], "wrong_type"),
        ("٣", "bad_gpu"),
        ("H100\u202e", "bad_gpu"),
        ("<script>", "bad_gpu"),
        ("two", None),
    ],
)
def test_nonsense_for_a_gpu_is_answered(text, code):
    if code is None:  # a word may be a model: whether one like it exists is the cluster's to say
        assert parse_gpu(text).models == ("TWO",)
    else:
        assert code_of(parse_gpu, text) == code


@pytest.mark.parametrize(
    "asked, yes",
    [
        ("V100", True),
        ("v100-32gb", True),
        ("V100-16GB", False),
        ("A100", False),
        ("V10", False),
        ("SXM2", True),
        ("Tesla-V100", True),
        ("", False),
        ("32GB", True),
    ],
)
def test_a_model_is_matched_by_whole_words(asked, yes):
    assert matches_model(asked, "V100-32GB", "Tesla V100-SXM2-32GB") is yes


PART = ("A100-40GB-1g.5gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")


@pytest.mark.parametrize(
    ("asked", "rank"),
    [
        ("1", None),
        ("A100", None),
        ("A100-40GB", None),
        ("A100-40GB-1g", None),
        ("A100-40GB-1g.5gb", 0),
        ("a100-40gb-1G.5GB", 0),
        ("H100,A100-40GB-1g.5gb", 1),
        ("A100-40GB-1g.5gb:2", None),
        ("A100-40GB-1g.5gb/2", None),
        ("A100-40GB-1g.5gb:4GB", None),
        ("A100-40GB-1g.5gb-me", None),
        ("4GB", None),
    ],
)
def test_an_instance_is_given_whole_and_only_to_those_who_name_it(asked, rank):
    assert rank_of(parse_gpu(asked), *PART) == rank
    assert parse_gpu(parse_gpu(asked).text) == parse_gpu(asked)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("a100-40gb-1G.5GB", "A100-40GB-1g.5gb"),
        ("A100-40GB-1C.2G.10GB-ME", "A100-40GB-1c.2g.10gb-me"),
        ("a100-40gb", "A100-40GB"),
    ],
)
def test_a_model_is_written_as_its_card_is_called(asked, text):
    assert parse_gpu(asked).text == text


@pytest.mark.parametrize(("asked", "rank"), [("1", 0), ("1/2", 0), ("A100:4", 0), ("H100,A100", 1), ("V100", None)])
def test_a_card_stands_where_its_model_does(asked, rank):
    assert rank_of(parse_gpu(asked), "A100-40GB", "NVIDIA A100-SXM4-40GB") == rank


def test_who_names_an_instance_gets_no_card():
    assert rank_of(parse_gpu("A100-40GB-1g.5gb"), "A100-40GB", "NVIDIA A100-SXM4-40GB") is None


@pytest.mark.parametrize("value, milli", [(2, 2000), (0.5, 500), ("0.5", 500), ("500m", 500), (0.1, 100), (1e-3, 1)])
def test_cpu_is_read_to_milli(value, milli):
    assert parse_cpu(value) == milli


@pytest.mark.parametrize(
    "value, code",
    [
        (0, "too_small"),
        ("1e3", "bad_cpu"),
        (0.00001, "bad_cpu"),
        (10**9, "too_large"),
        ("two", "bad_cpu"),
        (float("nan"), "bad_cpu"),
        (float("inf"), "bad_cpu"),
        (-2, "too_small"),
        ({}, "wrong_type"),
        ("1.5m", "bad_cpu"),
    ],
)
def test_nonsense_for_cpu_is_answered(value, code):
    assert code_of(parse_cpu, value) == code


@pytest.mark.parametrize(
    "value, mib",
    [
        ("16GB", 15_259),
        ("16GiB", 16_384),
        ("16Gi", 16_384),
        ("512MiB", 512),
        ("1.5 GiB", 1_536),
        ("1TB", 953_675),
        ("1MB", 1),
        ("16g", 15_259),
    ],
)
def test_memory_is_read_to_mib(value, mib):
    assert parse_memory(value) == mib


@pytest.mark.parametrize(
    "value, code",
    [
        (16, "unit_missing"),
        ("16", "unit_missing"),
        ("0GB", "too_small"),
        ("16XB", "bad_memory"),
        ("", "bad_memory"),
        ("9" * 19 + "TB", "too_large"),
        (None, "wrong_type"),
        (True, "wrong_type"),
        ("-1GB", "too_small"),
    ],
)
def test_nonsense_for_memory_is_answered(value, code):
    assert code_of(parse_memory, value) == code


@pytest.mark.parametrize(
    "value, seconds",
    [
        ("18h", 64_800),
        ("90m", 5_400),
        ("1h30m", 5_400),
        ("3d", 259_200),
        (45, 45),
        ("45", 45),
        ("1d 2h", 93_600),
        ("10S", 10),
    ],
)
def test_a_duration_is_read_to_seconds(value, seconds):
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value, code",
    [
        ("10:30", "bad_duration"),
        ("", "bad_duration"),
        ("1.5h", "bad_duration"),
        (0, "too_small"),
        ("9999999d", "too_large"),
        ("soon", "bad_duration"),
        ("30m1h", "bad_duration"),
        (False, "wrong_type"),
        (-1, "too_small"),
        (0.5, "bad_duration"),
    ],
)
def test_nonsense_for_a_duration_is_answered(value, code):
    assert code_of(parse_duration, value) == code


@given(st.integers(1, 10**8))
@settings(max_examples=200)
def test_exact_forms_read_back(n):
    assert parse_cpu(cpu_text(n)) == n
    assert parse_memory(memory_text(n)) == n
    assert parse_duration(duration_text(n)) == n


@pytest.mark.parametrize(
    "milli, text", [(0, "0"), (250, "¼"), (500, "½"), (117, "0.117"), (1000, "1"), (1500, "1.5"), (10_000, "10")]
)
def test_gpus_are_shown_as_cards(milli, text):
    assert show_gpu(milli) == text


def test_a_card_is_called_as_nvidia_calls_it_and_an_instance_by_its_card_and_place():
    assert [show_place(index) for index in (0, 15, index_of(0, 0), index_of(2, 5), index_of(15, 13))] == [
        "0", "15", "0:0", "2:5", "15:13"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "mib, text",
    [(3_815, "4 GB"), (16_255, "17 GB"), (8_127, "8.5 GB"), (512, "537 MB"), (0, "0 MB"), (1_430_512, "1.5 TB")],
)
def test_memory_is_shown_in_decimal_units(mib, text):
    assert show_memory(mib) == text


def test_cpu_and_durations_are_shown_short():
    assert [show_cpu(n) for n in (2000, 500, 250)] == ["2", "0.5", "0.25"]
    assert [show_duration(n) for n in (0, 45, 5400, 259_200, 187_261)] == ["0s", "45s", "1h30m", "3d", "2d4h"]


@given(st.integers(10, 9999))
def test_a_slice_is_shown_as_it_was_asked_for_and_one_mib_less_as_less(tenths):
    gb = Decimal(tenths) / 10
    need = gb_to_mib(gb)
    text = show_memory(need, up=True)
    assert text == show_memory(need, up=False) != show_memory(need - 1, up=False)
    assert text == f"{gb.normalize():f} GB"
