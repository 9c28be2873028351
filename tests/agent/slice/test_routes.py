"""Four routes to the driver, every hook on each: slice figures, and out of memory at the edge to the byte."""

import re
import sys

import pytest

from tests.agent_slice import CARDS, LIMIT, MIB, SOURCES, must, run

CTYPES = """
import ctypes, sys
library = ctypes.CDLL("libcuda.so.1")
cases = ctypes.CDLL(sys.argv[1])
limit = int(sys.argv[2])
FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
find = FIND(lambda name: ctypes.cast(getattr(library, name.decode()), ctypes.c_void_p).value)
cases.run_cases.argtypes = [FIND, ctypes.c_uint64]
failed = cases.run_cases(find, limit)
free, total, pointer = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
assert library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert (free.value, total.value) == (limit, limit)
assert library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(limit + 1)) == 2
sys.exit(failed)
"""


@pytest.fixture(scope="session")
def linked(built, tmp_path_factory):
    """The program as gcc -lcuda links it against the shim, with the driver's own name for the library."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "libcuda.so").symlink_to(built.shims / "libcuda.so.1")
    tests, program = SOURCES / "tests", folder / "program"
    built.compile(
        "-DLINKED", tests / "program.c", tests / "cases.c", "-Wl,--as-needed", "-Wl,--no-undefined", f"-L{folder}",
        "-lcuda", "-lpthread", "-ldl", "-o", program,
    )  # fmt: skip
    return program


def passed(done):
    found = re.search(r"(\d+) checks, (\d+) failed", done.stdout)
    assert found and done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(found[1]) > 500


@pytest.mark.parametrize("route", ["cases-dlsym", "cases-proc"])
def test_every_hook_by_looking_it_up(a_slice, route):
    passed(a_slice.run(route, LIMIT))


def test_every_hook_by_linking(a_slice, linked):
    assert "libcuda.so.1" in must(["readelf", "-d", linked])  # --as-needed kept it
    passed(run([linked, "cases-link", LIMIT], env=a_slice.environment()))


def test_every_hook_by_ctypes(a_slice, built, tmp_path):
    cases = tmp_path / "cases.so"
    built.compile("-shared", SOURCES / "tests" / "cases.c", "-o", cases)
    passed(run([sys.executable, "-c", CTYPES, cases, LIMIT], env=a_slice.environment()))


def test_the_checks_fail_on_the_bare_driver(a_slice, built):
    done = run([built.program, "cases-dlsym", LIMIT], env=a_slice.environment(built.driver))
    assert done.returncode == 1 and int(re.search(r"(\d+) failed", done.stdout)[1]) > 200


def test_half_a_v100_says_16255_mib(built, make_slice):
    half = make_slice(built, 16255 * MIB)
    assert half.run("tell").stdout == f"0 {16255 * MIB} {16255 * MIB}\n"


def test_every_hook_has_a_name_and_no_trampoline(built):
    hooked = set((built.shims / "cuda" / "hooked").read_text().split())
    names = set((SOURCES / "names" / "libcuda.txt").read_text().split())
    jumps = set(re.findall(r"NAME\((\w+)\)", (built.shims / "cuda" / "names.inc").read_text()))
    assert len(hooked) > 60 and hooked <= names and jumps == names - hooked
    exported = set(re.findall(r" T (cu\w+)", must(["nm", "-D", "--defined-only", built.shims / "libcuda.so.1"])))
    assert exported == names


def test_the_real_library_is_named_by_its_hidden_path_only(built):
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        dynamic = must(["readelf", "-d", built.shims / name])
        needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
        assert str(built.driver / name) in needed and name not in needed
        assert f"soname: [{name}]" in dynamic.lower()
        assert all("libc.so" in other for other in needed if not other.startswith("/")), needed


def test_a_pool_that_keeps_memory_is_charged_for_it(a_slice, built, tmp_path):
    """Pools that grow by 32 MiB: after one byte 32 MiB are held from the driver, and are given back when needed."""
    cases = tmp_path / "pools"
    built.compile(SOURCES / "tests" / "pools.c", "-o", cases, "-ldl")
    done = run([cases], env=a_slice.environment(DOUBLE_POOL_CHUNK=str(32 * MIB), DOUBLE_STATE=str(a_slice.state)))
    assert done.stdout.split("\n")[:-1] == [
        f"one byte: 0, free {LIMIT - 32 * MIB}",
        f"freed, not waited for: 0, free {LIMIT - 32 * MIB}",
        f"all of it, by trimming first: 0, free {0}",
        f"one byte more: 2, free {0}",
        f"a pool that would grow too far: 2, free {16 * MIB}",
        f"waited: 0, free {LIMIT}",
    ], done.stderr
    assert a_slice.books()[0] <= LIMIT + 32 * MIB  # the driver grew it by a chunk before it could be undone
    assert a_slice.used() == 0


def test_arrays_are_charged_what_the_driver_says_they_take(built, make_slice):
    one = make_slice(built)
    done = one.run("cases-dlsym", LIMIT, DOUBLE_ARRAY_ALIGN="65536")
    wrong = set(re.findall(r"FAIL (\w+):", done.stdout))  # those whose sizes are rounded up: not to the byte here
    assert wrong and wrong <= {"cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"}
    assert one.used() == 0


def test_several_cards_have_a_budget_each(a_slice, processes):
    processes.append(a_slice.held(LIMIT))
    cards = a_slice.show()["cards"]
    assert [card["uuid"] for card in cards] == CARDS[:2]
    assert [card["used_bytes"] for card in cards] == [LIMIT, 0]
