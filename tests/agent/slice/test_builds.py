"""Other compilers, another processor, and the sanitizers: the same checks pass, and they have nothing to say."""

import shutil

import pytest

from tests.agent_slice import LIMIT, MIB, SOURCES, Built, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AARCH64 = "aarch64-linux-gnu-gcc"


def built_with(tmp_path_factory, compiler: str, sanitize: str = "") -> Built:
    return Built(tmp_path_factory.mktemp("other"), compiler, sanitize).build()


@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_the_sanitizers_are_silent(built, tmp_path_factory, make_slice, sanitize):
    one = make_slice(built_with(tmp_path_factory, "gcc", sanitize))
    plain = ["setarch", "-R"] if shutil.which("setarch") else []  # ThreadSanitizer wants its addresses where they were
    for words in (
        ["cases-dlsym", LIMIT],
        ["cases-proc", LIMIT],
        ["threads", 9 * MIB],
        ["fork", 1000],
        ["churn", 9 * MIB, 5000],
    ):
        done = run([*plain, one.built.program, *words], env=one.environment())
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert not done.stderr, done.stderr[-4000:]
    assert one.used() == 0


def test_the_address_sanitizer_would_have_spoken(tmp_path):
    """The control: a program that reads what it freed."""
    (tmp_path / "bad.c").write_text(
        "#include <stdlib.h>\nint main(void) { char *p = malloc(1); free(p); return *p; }\n"
    )
    assert run(["gcc", "-fsanitize=address", "-w", tmp_path / "bad.c", "-o", tmp_path / "bad"]).returncode == 0
    assert "heap-use-after-free" in run([tmp_path / "bad"]).stderr


def test_clang_builds_it_and_the_checks_pass(built, tmp_path_factory, make_slice):
    if not shutil.which("clang"):
        pytest.skip("NO CLANG: the slice library was not built with it.")
    one = make_slice(built_with(tmp_path_factory, "clang"))
    assert one.run("cases-dlsym", LIMIT).returncode == 0
    assert one.run("cases-proc", LIMIT).returncode == 0


def test_aarch64_builds_and_the_checks_pass_in_an_emulator(built, tmp_path_factory, make_slice):
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not (shutil.which(AARCH64) and emulator):
        pytest.skip(f"NO {AARCH64} OR NO qemu-aarch64: the slice library was not built or run for aarch64.")
    other = built_with(tmp_path_factory, AARCH64)
    native = make_slice(built)  # slicectl of this machine writes the files, the emulated program reads them
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (native.path / name).unlink()
        (native.path / name).symlink_to(other.shims / name)
    for route in ("cases-dlsym", "cases-proc"):
        words = [
            emulator,
            "-L",
            "/usr/aarch64-linux-gnu",
            "-E",
            f"LD_LIBRARY_PATH={native.path}",
            other.program,
            route,
            LIMIT,
        ]
        done = run(words)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_driver_may_lie_beside_the_shim(built, tmp_path, make_slice):
    """DRIVER_DIR='$ORIGIN/...': for a place that is only known when the files are put there."""
    done = run(
        ["make", "-s", "-C", SOURCES, f"BUILD={tmp_path / 'build'}", "DRIVER_DIR=$$ORIGIN/driver", "SLICE_DIR=/nowhere"]
    )
    assert done.returncode == 0, done.stderr
    one = make_slice(built)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (one.path / name).unlink()
        shutil.copy(tmp_path / "build" / name, one.path / name)
    (one.path / "driver").symlink_to(built.driver)
    assert one.run("cases-dlsym", LIMIT).returncode == 0
