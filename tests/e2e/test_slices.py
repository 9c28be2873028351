"""Half of a card through the whole product, on the doubled driver: bin/start builds the library, REST, jobs, SSH."""

import shutil
import subprocess
import time

import pytest

from bench.stack import ENDED, Stack, running_stack
from tests.agent_slice import MIB
from tests.runtimes.local.doubled_driver import doubled_driver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HALF = 16255
SEEN = f"0 {HALF * MIB} {HALF * MIB}"


@pytest.fixture(scope="module")
def doubled():
    with doubled_driver(library=False) as doubled:
        yield doubled


@pytest.fixture(scope="module")
def stack(doubled):
    """A machine where NVML answers: the platform's loader finds the doubles first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(doubled.driver))
        with running_stack(notebooks=False) as running:
            yield running


def card_of(stack: Stack) -> dict:
    (node,) = stack.api("GET", "/nodes")["results"]
    return stack.api("GET", f"/nodes/{node['name']}")["gpus"][0]


def submit(stack: Stack, run: str) -> str:
    spec = {"run": run, "gpu": "1/2", "pool": "dev", "cpu": "50m", "memory": "128MiB"}
    return stack.api("POST", "/jobs", spec)["id"]


def lines_of(stack: Stack, job: str) -> list[str]:
    """What the job itself wrote: the warning of a full slice comes when it comes."""
    return [line for line in stack.text(f"/jobs/{job}/logs").splitlines() if not line.startswith("Tessera: ")]


@pytest.fixture(scope="module")
def sliced(stack):
    """The first start has built its library, and the node has tried it out and says what it saw."""
    card = card_of(stack)
    assert card["enforcement"] == "slice" and "saw 64 of 32510 MiB" in card["evidence"], card
    return stack


def test_a_program_sees_half_of_the_card_and_is_refused_the_next_mib(sliced, doubled):
    asks = f"{doubled.program} tell; for size in {HALF * MIB} {(HALF + 1) * MIB}; do {doubled.program} hold $size; done"
    job = submit(sliced, f"({asks}) </dev/null")
    assert sliced.wait_for(job, *ENDED)["state"] == "succeeded"
    assert lines_of(sliced, job) == [SEEN, "0", "2"]


def test_the_other_half_is_not_disturbed(sliced, doubled):
    full = submit(sliced, f"sleep 60 | {doubled.program} hold {HALF * MIB}")
    sliced.wait_for_line(full, "0\n")
    other = submit(sliced, f"{doubled.program} hold {HALF * MIB} </dev/null")
    assert sliced.wait_for(other, *ENDED)["state"] == "succeeded"
    assert lines_of(sliced, other) == ["0"]
    cards = {sliced.api("GET", f"/jobs/{job}")["tasks"][0]["gpus"][0]["uuid"] for job in (full, other)}
    assert len(cards) == 1
    sliced.api("POST", f"/jobs/{full}:stop")


@pytest.mark.skipif(not shutil.which("ssh"), reason="NO ssh: the way in was not tried with it")
def test_over_ssh_one_is_inside_the_same_slice(sliced, doubled, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    public = (tmp_path / "key.pub").read_text().strip()
    sliced.api("POST", "/me/ssh-keys", {"name": "laptop", "key": public})
    job = submit(sliced, f"sleep 60 | {doubled.program} hold {MIB}")
    sliced.wait_for(job, "running")  # its first line may come sooner, and SSH is refused until then
    sliced.wait_for_line(job, "0\n")
    options = {"StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "IdentityFile": tmp_path / "key"}
    told = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    command = [
        "ssh",
        "-F",
        "none",
        *told,
        "-p",
        str(sliced.port + 1),
        "-l",
        job,
        "127.0.0.1",
        f"{doubled.program} tell",
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == f"0 {(HALF - 1) * MIB} {HALF * MIB}", done.stderr
    sliced.api("POST", f"/jobs/{job}:stop")


def test_a_running_program_sees_its_new_limit_and_others_get_what_it_leaves(sliced, doubled):
    """Larger while it runs: then another half does not fit beside it. Smaller again: then it does."""
    larger = 32510 * 3 // 4
    end_all(sliced)
    job = submit(sliced, f"while sleep 0.2; do {doubled.program} tell; done")
    sliced.wait_for_line(job, f"{SEEN}\n")
    sliced.api("POST", f"/jobs/{job}:resize", {"gpu": "3/4"})
    sliced.wait_for_line(job, f"0 {larger * MIB} {larger * MIB}\n")
    task = wait_resized(sliced, job)
    assert (task["gpus"][0]["memory_mib"], task["resize"]["state"]) == (larger, "done")
    assert card_of_ended(sliced, submit(sliced, "true")) != task["gpus"][0]["uuid"]
    sliced.api("POST", f"/jobs/{job}:resize", {"gpu": "1/2"})
    assert wait_resized(sliced, job)["gpus"][0]["memory_mib"] == HALF
    assert card_of_ended(sliced, submit(sliced, "true")) == task["gpus"][0]["uuid"]
    assert lines_of(sliced, job)[-1] == SEEN
    sliced.api("POST", f"/jobs/{job}:stop")


def end_all(stack: Stack) -> None:
    """What other tests left, whatever became of them."""
    for job in stack.api("GET", "/jobs?state=queued,starting,running,stopping")["results"]:
        stack.api("POST", f"/jobs/{job['id']}:stop")
        stack.wait_for(job["id"], *ENDED)


def wait_resized(stack: Stack, job: str) -> dict:
    """Its task, as soon as the wish for another size is done or refused."""
    until = time.monotonic() + 20
    while (task := stack.api("GET", f"/jobs/{job}")["tasks"][0])["resize"]["state"] == "asked":
        assert time.monotonic() < until, task
        time.sleep(0.1)
    return task


def card_of_ended(stack: Stack, job: str) -> str:
    ended = stack.wait_for(job, *ENDED)
    assert ended["state"] == "succeeded", ended
    return ended["tasks"][0]["gpus"][0]["uuid"]
