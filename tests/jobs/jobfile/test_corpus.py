"""Bad job files. Each is refused, names its field, and the sentence says what to do."""

import cProfile
import time
from pathlib import Path

import pytest

from common.errors import FieldError, InvalidInput
from jobs.jobfile.load import MAX_DEPTH, load_jobfile
from jobs.jobfile.parse import parse_spec
from portal.wording.errors import FIELD_MESSAGES, describe_field_error

CORPUS = Path(__file__).parents[1] / "corpus"
RUN = b"run: python train.py\n"

# file: (pointer, code) of its only error
FILES = {
    "idle_too_soon": ("/idle/for", "too_small"),
    "alias_bomb": ("/a", "anchor"),
    "alias_unknown": ("/run", "alias"),
    "anchor": ("/run", "anchor"),
    "array_empty": ("/array", "array_without_values"),
    "array_env": ("/array/lr", "array_name_twice"),
    "array_from_five": ("/array", "array_from_zero"),
    "array_held": ("/hold", "array_held"),
    "array_large": ("/array", "array_too_large"),
    "array_none_at_once": ("/array/at_once", "too_small"),
    "array_reserved": ("/array/TESSERA_ARRAY_INDEX", "reserved_name"),
    "array_scalar": ("/array/lr", "bad_array_values"),
    "array_words": ("/array", "bad_array"),
    "bidi_label": ("/labels/owner", "bad_characters"),
    "bidi_name": ("/name", "bad_characters"),
    "binary_tag": ("/run", "tag"),
    "bool_as_text": ("/preemptible", "wrong_type"),
    "bool_off": ("/hold", "wrong_type"),
    "cpu_words": ("/cpu", "bad_cpu"),
    "data_absolute": ("/data/in", "bad_data"),
    "data_dataset": ("/data/in", "bad_dataset"),
    "data_list": ("/data", "wrong_type"),
    "data_over_system": ("/data/~1usr~1lib", "bad_data_target"),
    "data_target_absolute": ("/data/~1data~1imagenet", "bad_data_target"),
    "data_target_up": ("/data/..~1x", "bad_data_target"),
    "data_twice": ("/data/.~1in~1", "data_twice"),
    "data_no_volume": ("/data/in", "bad_data"),
    "data_up": ("/data/in", "bad_data"),
    "digest_short": ("/code", "bad_code"),
    "duplicate_env": ("/env/A", "duplicate_key"),
    "duplicate_key": ("/gpu", "duplicate_key"),
    "empty": ("", "empty"),
    "env_cuda": ("/env/CUDA_VISIBLE_DEVICES", "reserved_name"),
    "env_list": ("/env", "wrong_type"),
    "env_mps": ("/env/CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "reserved_name"),
    "env_name": ("/env/A-B", "bad_env_name"),
    "env_nested": ("/env/A", "wrong_type"),
    "env_nul": ("/env/A", "bad_characters"),
    "env_nvidia": ("/env/NVIDIA_VISIBLE_DEVICES", "reserved_name"),
    "env_preload": ("/env/LD_PRELOAD", "reserved_name"),
    "env_tessera": ("/env/TESSERA_TOKEN", "reserved_name"),
    "git_code": ("/code", "bad_git"),
    "gpu_float": ("/gpu", "bad_gpu"),
    "gpu_huge": ("/gpu", "too_large"),
    "gpu_list": ("/gpu", "wrong_type"),
    "gpu_more_than_a_card": ("/gpu", "gpu_part_too_large"),
    "gpu_negative": ("/gpu", "too_small"),
    "gpu_range": ("/gpu", "gpu_range"),
    "gpu_too_fine": ("/gpu", "too_small"),
    "html_gpu": ("/gpu", "bad_gpu"),
    "huge_digits": ("/gpu", "number_out_of_range"),
    "image_space": ("/image", "bad_image"),
    "infinity": ("/cpu", "not_a_number"),
    "key_of_list": ("", "key_not_text"),
    "kind_notebook": ("/kind", "notebook_not_here"),
    "kind_unknown": ("/kind", "unknown_value"),
    "latin1": ("", "not_utf8"),
    "list_at_top": ("", "not_a_map"),
    "main_alone": ("/main", "main_without_roles"),
    "main_ends": ("/roles/head/ends_job", "main_ends_job"),
    "main_no_run": ("/main/run", "required"),
    "main_role": ("/main/role", "unknown_role"),
    "max_time_below_time": ("/time", "time_above_max"),
    "memory_no_unit": ("/memory", "unit_missing"),
    "memory_unit": ("/memory", "bad_memory"),
    "merge_key": ("", "merge_key"),
    "missing_run": ("/run", "required"),
    "name_control": ("/name", "bad_characters"),
    "name_list": ("/name", "wrong_type"),
    "name_long": ("/name", "too_long"),
    "name_space": ("/name", "outer_space"),
    "name_zero_width": ("/name", "bad_characters"),
    "nan": ("/cpu", "not_a_number"),
    "notify_when": ("/notify/when/1", "unknown_value"),
    "nodes_huge": ("/nodes", "too_large"),
    "nodes_text": ("/nodes", "wrong_type"),
    "nodes_zero": ("/nodes", "too_small"),
    "nul": ("", "bad_characters"),
    "on_key": ("/on", "unknown_key"),
    "overflow_float": ("/cpu", "number_out_of_range"),
    "environment_bad": ("/environment", "bad_environment"),
    "environment_output": ("/outputs/venv", "environment_output"),
    "output_over_data": ("/outputs/a", "data_twice"),
    "output_twice": ("/outputs/b", "output_twice"),
    "output_version": ("/outputs/a", "bad_output"),
    "ports_low": ("/ports/0", "too_small"),
    "ports_text": ("/ports/0", "wrong_type"),
    "ports_twice": ("/ports/1", "port_twice"),
    "priority_typo": ("/priority", "unknown_value"),
    "python_object": ("/run", "tag"),
    "place_needless": ("/place/prefer", "place_needless"),
    "place_unknown": ("/place/same", "unknown_value"),
    "role_place": ("/roles/head/place", "unknown_key"),
    "retry_reason": ("/retry/when/0", "unknown_value"),
    "retry_too_many": ("/retry", "too_large"),
    "role_beside": ("/gpu", "beside_roles"),
    "role_both": ("/roles/worker/env/LR", "given_twice"),
    "role_code": ("/roles/head/code", "code_of_role_here"),
    "role_count": ("/roles/worker/nodes", "unknown_key"),
    "role_ends": ("/roles/head/ends_job", "unknown_value"),
    "role_data_twice": ("/roles/head/data/in", "given_twice"),
    "role_image": ("/roles/head/image", "bad_image"),
    "role_secret_in_env": ("/roles/head/secrets/HUB", "secret_in_env"),
    "role_secret_twice": ("/roles/head/secrets/HUB", "given_twice"),
    "role_secrets_many": ("/roles/head/secrets", "too_many"),
    "role_key": ("/roles/head/rum", "unknown_key"),
    "role_name": ("/roles/Head", "bad_role_name"),
    "role_no_run": ("/roles/worker/run", "required"),
    "role_twice": ("/roles/ps-a", "role_twice"),
    "roles_empty": ("/roles", "required"),
    "roles_list": ("/roles", "wrong_type"),
    "roles_tasks": ("/roles", "too_many_tasks"),
    "run_blank": ("/run", "required"),
    "run_list": ("/run", "wrong_type"),
    "scalar_at_top": ("", "not_a_map"),
    "surrogate": ("/name", "bad_characters"),
    "tab": ("", "tab"),
    "search_bare": ("/search/space", "required"),
    "search_beside_array": ("/search", "search_beside_array"),
    "search_env": ("/search/space/lr", "array_name_twice"),
    "search_grid": ("/search/space/lr", "grid_interval"),
    "search_grid_large": ("/search/space", "grid_too_large"),
    "search_interval": ("/search/space/lr", "empty_interval"),
    "search_log": ("/search/space/lr", "log_of_zero"),
    "search_metric": ("/search/metric", "bad_metric"),
    "search_no_rungs": ("/search/rungs", "required"),
    "search_no_trials": ("/search/trials", "required"),
    "search_parameter": ("/search/space/lr", "bad_parameter"),
    "search_rungs": ("/search/rungs", "bad_rungs"),
    "search_rungs_of_tpe": ("/search/rungs", "only_asha"),
    "serve_access": ("/serve/access", "unknown_value"),
    "serve_alone": ("/serve", "serve_without_service"),
    "serve_back_if": ("/serve/canary/back_if/errors", "bad_percent"),
    "serve_back_p95": ("/serve/canary/back_if/p95", "bad_factor"),
    "serve_canary": ("/serve/canary/share", "bad_share"),
    "serve_missing": ("/serve", "required"),
    "serve_nodes": ("/nodes", "not_in_service"),
    "serve_none": ("/serve/replicas", "no_replicas"),
    "serve_path": ("/serve/ready", "bad_http_path"),
    "tensorboard_option": ("/tensorboard", "bad_directory"),
    "time_clock": ("/time", "bad_duration"),
    "time_zero": ("/time", "too_small"),
    "token_scope": ("/token/0", "unknown_value"),
    "two_documents": ("", "several_documents"),
    "unclosed": ("", "yaml_syntax"),
    "unknown_key": ("/gpus", "unknown_key"),
    "unknown_key_far": ("/zzz", "unknown_key"),
    "utf16": ("", "not_utf8"),
    "workdir_absolute": ("/workdir", "workdir_outside"),
    "workdir_up": ("/workdir", "workdir_outside"),
    "yaml_control": ("", "bad_characters"),
}

DEEP = "/" + "/".join("0" * MAX_DEPTH)
# Too large to keep as files: bytes, pointer, code
GENERATED = {
    "ten_megabytes": (RUN + b"name: " + b"x" * 10_000_000, "", "file_too_large"),
    "long_scalar": (b"run: " + b"x" * 70_000, "/run", "too_long"),
    "deep_list": (b"[" * 200_000, DEEP, "too_deep"),
    "deep_dashes": (b"- " * 100_000, DEEP, "too_deep"),
    "deep_map": (b"{a: " * 50_000, "/" + "/".join("a" * MAX_DEPTH), "too_deep"),
    "many_values": (RUN + b"labels: [" + b"x," * 20_000 + b"]", "", "too_many_nodes"),
    "many_keys": (b"".join(b"k%d: 1\n" % i for i in range(20_000)), "", "too_many_nodes"),
    "brackets": (b"a: [" + (b"[" * 14 + b"]" * 14 + b",") * 3_000, "", "too_many_nodes"),
    "bangs": (b"!" * 200_000, "", "tag"),
    "env_many": (RUN + b"env:\n" + b"".join(b"  K%d: 1\n" % i for i in range(201)), "/env", "too_many"),
    "env_value": (RUN + b"env: {A: " + b"x" * 33_000 + b"}", "/env/A", "too_long"),
    "env_total": (
        RUN + b"env:\n" + b"".join(b"  K%d: %s\n" % (i, b"x" * 30_000) for i in range(5)),
        "/env",
        "too_long",
    ),
    "labels_many": (RUN + b"labels:\n" + b"".join(b"  k%d: a\n" % i for i in range(33)), "/labels", "too_many"),
    "roles_many": (
        b"roles:\n" + b"".join(b"  r%d: {run: a}\n" % i for i in range(17)),
        "/roles",
        "too_many",
    ),
    "newlines": (b"\n" * 250_000, "", "empty"),
}


def only_error_of(data: bytes) -> FieldError:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(load_jobfile(data))
    assert caught.value.status == 400
    [error] = caught.value.errors
    return error


def assert_names_field_and_remedy(error: FieldError, pointer: str, code: str):
    assert (error.pointer, error.code) == (pointer, code)
    assert code in FIELD_MESSAGES
    sentence = describe_field_error(error)
    assert "%(" not in sentence and "?" not in sentence.replace("”?", "")
    assert len(sentence) < 400
    assert sum(sentence.count(end) for end in (".", "?")) >= 2, f"says what is wrong, but not what to do: {sentence}"


def test_every_file_of_the_corpus_has_its_answer():
    assert {path.stem for path in CORPUS.glob("*.yaml")} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_answered_with_field_and_remedy(name):
    assert_names_field_and_remedy(only_error_of((CORPUS / f"{name}.yaml").read_bytes()), *FILES[name])


@pytest.mark.parametrize("name", GENERATED)
def test_a_huge_file_is_answered_fast(name):
    data, pointer, code = GENERATED[name]
    began = time.process_time()
    assert_names_field_and_remedy(only_error_of(data), pointer, code)
    assert time.process_time() - began < 5


NESTED = {  # 40 kB each
    "lists": b"run: " + b"[" * 40_000,
    "lists that end": b"run: " + b"[" * 20_000 + b"]" * 20_000,
    "maps": b"run: " + b"{a: " * 10_000,
    "lists and maps": b"run: " + b"[{" * 20_000,
    "many at the depth that is allowed": b"run: [" + (b"[" * 14 + b"]" * 14 + b",") * 1_380,
    "blocks": b"".join(b"a%d:\n" % n + b"".join(b" " * (i + 1) + b"a:\n" for i in range(14)) for n in range(262)),
}


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_file_is_refused_with_little_work(name):
    """A million calls are some 55 ms; without limits these took up to four and a half."""
    profile = cProfile.Profile()
    with pytest.raises(InvalidInput) as caught, profile:
        load_jobfile(NESTED[name])
    assert caught.value.errors[0].code in {"too_deep", "too_many_nodes", "key_not_text"}
    assert sum(entry.callcount for entry in profile.getstats()) < 1_000_000


@pytest.mark.parametrize("name, line", [("tab", 4), ("duplicate_key", 3), ("anchor", 1), ("latin1", 1), ("nan", 2)])
def test_an_error_of_the_text_names_its_line(name, line):
    assert only_error_of((CORPUS / f"{name}.yaml").read_bytes()).params["line"] == line
