"""What must be tried on a real card, one function each: it returns what it saw, or raises.

Wrong is what the slice must not do; NotHere, that this machine cannot show it. Every program runs as a job in a slice
of half the first card, unless its check says otherwise.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pynvml

from agent.gpu.cards import read_cards
from agent.gpu.memory_by_process import read_memory_by_process
from bench.hardware.lab import Broken, Lab, NotHere
from runtimes.contract.errors import Rejected

MIB = 1 << 20
NAMES = Path(__file__).resolve().parents[2] / "agent" / "slice" / "names"
TORCH, JAX, TENSORFLOW, VLLM = ("torch",), ("jax[cuda12]",), ("tensorflow[and-cuda]",), ("vllm",)
RUNTIMES = {"12": "nvidia-cuda-runtime-cu12", "13": "nvidia-cuda-runtime"}
ALLOCATORS = {"": {}, "expandable segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}
ALLOCATORS |= {"cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}
TOOLS = {"compute-sanitizer": "--version", "cuda-gdb": "--version", "nsys": "--version"}
AGAIN_WITHIN_S, SEEN_WITHIN_S = 30, 30


class Wrong(Exception):
    """The slice does not hold, or something does not work in it."""


@dataclass(frozen=True)
class Check:
    """packages: what it installs, by environment; they are what --download fetches."""

    name: str
    title: str
    run: Callable[[Lab], str]
    packages: tuple[tuple[str, tuple[str, ...]], ...] = ()


def check_mode(lab: Lab) -> str:
    words = "; ".join(f"GPU {card.index} {card.product}: {card.mode}, {card.evidence}" for card in lab.cards)
    return _so(lab.card.mode == "slice", words)


def check_runtime(version: str) -> Callable[[Lab], str]:
    def check(lab: Lab) -> str:
        python = lab.python(f"runtime{version}", f"{RUNTIMES[version]}=={version}.*")
        library = next(
            Path(python).parents[1].glob(f"lib/python*/site-packages/nvidia/**/libcudart.so.{version}"), None
        )
        if library is None:
            raise NotHere("The package has no shared runtime.")
        return _kept(lab, lab.ask(python, lab.program("runtime"), str(library)).answer)

    return check


def check_static_runtime(lab: Lab) -> str:
    python = lab.python("static", "cupy-cuda12x")
    return _kept(lab, lab.ask(python, lab.program("static_runtime")).answer)


def check_names(lab: Lab) -> str:
    """Names that the driver exports and our list lacks can be looked up, and not be linked against."""
    listed = set((NAMES / "libcuda.txt").read_text().split())
    exported = _exported(lab.driver.real["libcuda.so.1"])
    versions = {name.partition("@")[2] for name in exported} - {""}
    missing = sorted({name.partition("@")[0] for name in exported if name.startswith("cu")} - listed)
    said = f"{len(exported)} names, versions of symbols: {', '.join(sorted(versions)) or 'none'}"
    return _so(not missing, f"{said}; not in our list: {', '.join(missing) or 'none'}")


def check_lookups(lab: Lab) -> str:
    names = lab.programs / "names"
    names.write_text("\n".join(sorted({name.partition("@")[0] for name in _exported(lab.driver.real["libcuda.so.1"])})))
    find = 'for folder in $(echo $LD_LIBRARY_PATH | tr : " "); do [ -e $folder/driver ] && break; done'
    run = f"{find}; exec python3 {lab.program('lookups')} libcuda.so.1 $folder/driver/libcuda.so.1 {names}"
    answer = lab.ask("sh", "-c", run).answer
    said = f"driver API {answer['driver']}: {answer['same']} equal, {len(answer['hooked'])} answered by us"
    return _so(not answer["wrong"], f"{said}, wrong: {', '.join(answer['wrong']) or 'none'}")


def check_torch(lab: Lab) -> str:
    """The slice is what it sees, and its own error is what it gets: with each of its allocators."""
    python, seen = lab.python("torch", *TORCH), []
    for words, env in ALLOCATORS.items():
        answer = lab.ask(python, lab.program("torch_memory"), **env).answer
        seen.append(_kept(lab, answer) + (f" ({words})" if words else f", PyTorch {answer['torch']}"))
    return "; ".join(seen)


def check_jax(lab: Lab) -> str:
    answer = lab.ask(lab.python("jax", *JAX), lab.program("jax_memory")).answer
    return _below(lab, answer["limit"], f"JAX {answer['jax']}")


def check_tensorflow(lab: Lab) -> str:
    answer = lab.ask(lab.python("tensorflow", *TENSORFLOW), lab.program("tensorflow_memory")).answer
    return _below(lab, answer["limit"], f"TensorFlow {answer['tensorflow']}")


def check_vllm(lab: Lab) -> str:
    python = lab.python("vllm", *VLLM)
    answer = lab.ask(python, lab.program("vllm_memory"), "model", within_s=400).answer
    said = f"vLLM {answer['vllm']} took {answer['used'] // MIB} of {answer['total'] // MIB} MiB"
    return _so(answer["works"] and answer["total"] == lab.half_mib * MIB, said)


def check_compile(lab: Lab) -> str:
    answer = lab.ask(lab.python("torch", *TORCH), lab.program("torch_compiled"), HOME=".").answer
    return _so(answer["works"], f"PyTorch {answer['torch']} compiled a function and it is right")


def check_nccl(lab: Lab) -> str:
    if len(lab.cards) < 2:
        raise NotHere("It needs two cards.")
    answer = lab.ask(lab.python("torch", *TORCH), lab.program("nccl"), cards=lab.cards[:2]).answer
    return f"NCCL {answer['nccl']} added over {answer['processes']} processes"


def check_contexts(lab: Lab) -> str:
    """What a process takes beyond what it asked for, as the driver tells, and what nvidia-smi says inside."""
    before = _used_mib(lab)
    uuid = lab.start("python3", lab.program("hold"))
    said = lab.wait_to_hear(uuid, lab.left_s())
    outside = sum(_used_mib(lab).values()) - sum(before.values())
    lab.runtime.stop(uuid, 0, epoch=1)
    held = said["held"] // MIB
    inside = _smi_inside(lab)
    words = f"asked for {held} MiB, the driver tells {outside}: {outside - held} MiB for context and modules; {inside}"
    return _so(held <= lab.half_mib and not any(said["answers"]), words)


def check_kill(lab: Lab) -> str:
    """kill -9 at a full slice: how long until all of it can be had again."""
    uuid = lab.start("python3", lab.program("hold"))
    full = lab.wait_to_hear(uuid, lab.left_s())["held"]
    began = time.monotonic()
    lab.runtime.stop(uuid, 0, epoch=1)
    while (again := lab.ask("python3", lab.program("hold"), "once").answer["held"]) < full:
        if time.monotonic() - began > AGAIN_WITHIN_S:
            raise Wrong(f"After {AGAIN_WITHIN_S} s only {again // MIB} of {full // MIB} MiB could be had again.")
    return (
        f"{full // MIB} MiB could be had again after {time.monotonic() - began:.1f} s, a job's start and end included"
    )


def check_resize(lab: Lab) -> str:
    """What a program sees whose slice becomes larger and smaller while it runs; a full one does not shrink."""
    if not (lab.runtime.machine.isolation.separate_uids or lab.runtime.machine.isolation.namespaces):
        raise NotHere("Jobs share our account here, so no limit is changed while they run: try it as root.")
    half, more = lab.half_mib, lab.half_mib * 3 // 2
    uuid = lab.start("python3", lab.program("see"))
    for serial, mib in enumerate((half, more, half)):
        if serial:
            lab.runtime.resize(uuid, {lab.card.uuid: mib}, serial=serial)
        lab.wait_to_hear(uuid, min(lab.left_s(), SEEN_WITHIN_S), lambda said, mib=mib: said["total"] == mib * MIB)
    lab.runtime.stop(uuid, 0, epoch=1)
    full = lab.start("python3", lab.program("hold"))
    held = lab.wait_to_hear(full, lab.left_s())["held"] // MIB
    try:
        lab.runtime.resize(full, {lab.card.uuid: half // 2}, serial=1)
    except Rejected as refused:
        words = f"A program saw {half}, {more} and {half} MiB; with {held} MiB held it was not made {half // 2}"
        return f"{words}: {refused}"
    finally:
        lab.runtime.stop(full, 0, epoch=1)
    raise Wrong(f"A slice in which {held} MiB are held was made {half // 2} MiB.")


def check_tools(lab: Lab) -> str:
    found = [tool for tool in TOOLS if shutil.which(tool)]
    if not found:
        raise NotHere(f"None of {', '.join(TOOLS)} is installed.")
    seen = []
    for tool in found:
        path = shutil.which(tool) or tool
        seen.append(lab.ask("sh", "-c", f"{path} {TOOLS[tool]} >&2 && echo '{{}}'") and tool)
    return f"start in a slice: {', '.join(seen)}"


def check_reserved(lab: Lab) -> str:
    found = read_cards()
    assert found is not None
    each = "; ".join(
        f"GPU {card.index} {card.model}: {card.memory_mib} MiB, {card.reserved_mib} reserved" for card in found.cards
    )
    return f"driver {found.driver}: {each}"


def check_links(lab: Lab) -> str:
    """Our matrix against nvidia-smi's own."""
    found = read_cards()
    assert found is not None
    told = subprocess.run([_smi(), "topo", "-m"], capture_output=True, text=True, timeout=60, check=False).stdout
    rows = [line.replace("\x1b[4m", "").replace("\x1b[0m", "").split() for line in told.splitlines()]
    count = sum(not card.part_of for card in found.cards)  # instances of cards come after them
    theirs = [row[1 : 1 + count] for row in rows if row and row[0].startswith("GPU") and row[0][3:].isdigit()]
    ours = [list(row[:count]) for row in found.links[:count]]
    return _so(theirs[: len(ours)] == ours, f"ours {ours}, nvidia-smi's {theirs}")


CHECKS = (
    Check("mode", "The probe finds mode slice", check_mode),
    Check("runtime12", "CUDA runtime 12, shared", check_runtime("12"), (("runtime12", (f"{RUNTIMES['12']}==12.*",)),)),
    Check("runtime13", "CUDA runtime 13, shared", check_runtime("13"), (("runtime13", (f"{RUNTIMES['13']}==13.*",)),)),
    Check("static", "CUDA runtime 12, linked statically", check_static_runtime, (("static", ("cupy-cuda12x",)),)),
    Check("names", "The driver's names are in our list", check_names),
    Check("lookups", "Lookups equal the driver's", check_lookups),
    Check("contexts", "What a context costs; nvidia-smi inside", check_contexts),
    Check("kill", "kill -9 at a full slice", check_kill),
    Check("resize", "A slice becomes another size while it runs", check_resize),
    Check("reserved", "What the card keeps for itself", check_reserved),
    Check("links", "NVLink and PCIe as nvidia-smi tells", check_links),
    Check("tools", "Debuggers and profilers start", check_tools),
    Check("torch", "PyTorch sees the slice, three allocators", check_torch, (("torch", TORCH),)),
    Check("compile", "torch.compile", check_compile, (("torch", TORCH),)),
    Check("nccl", "NCCL over two cards", check_nccl, (("torch", TORCH),)),
    Check("jax", "JAX", check_jax, (("jax", JAX),)),
    Check("tensorflow", "TensorFlow", check_tensorflow, (("tensorflow", TENSORFLOW),)),
    Check("vllm", "vLLM with nine tenths", check_vllm, (("vllm", VLLM),)),
)
"""The cheap ones first: what the time does not allow is told as such."""


def _so(good: bool, words: str) -> str:
    if not good:
        raise Wrong(words)
    return words


def _kept(lab: Lab, answer: dict) -> str:
    refused = "refused" if answer["refused"] else "NOT refused"
    words = f"saw {answer['total'] // MIB} of {lab.card.memory_mib} MiB, more was {refused}"
    return _so(answer["total"] == lab.half_mib * MIB and answer["refused"], words)


def _below(lab: Lab, limit: int, who: str) -> str:
    words = f"{who} takes {limit // MIB} MiB of a slice of {lab.half_mib} MiB"
    return _so(lab.half_mib * MIB // 2 < limit <= lab.half_mib * MIB, words)


def _exported(library: str) -> list[str]:
    """Names of functions, with "@VERSION" where they have one."""
    if not shutil.which("nm"):
        raise NotHere("nm is not installed (Debian: apt install binutils).")
    command = ["nm", "-D", "--with-symbol-versions", "--defined-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    return [words[2] for line in lines if len(words := line.split()) == 3 and words[1] in "TtWi"]


def _smi() -> str:
    found = shutil.which("nvidia-smi")
    if found is None:
        raise NotHere("nvidia-smi is not installed.")
    return found


def _smi_inside(lab: Lab) -> str:
    if not shutil.which("nvidia-smi"):
        return "nvidia-smi is not installed"
    query = "nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits"
    try:
        uuid = lab.start("sh", "-c", query)
        lab.until(uuid, "exited", 60)
        seen = lab.log(uuid).split()
    except Broken as broken:
        raise Wrong(f"nvidia-smi inside a slice {broken}") from None
    return _so(str(lab.half_mib) in seen, f"nvidia-smi inside shows {' '.join(seen)} MiB")


def _used_mib(lab: Lab) -> dict[int, int]:
    pynvml.nvmlInit()
    used = read_memory_by_process(pynvml.nvmlDeviceGetHandleByUUID(lab.card.uuid))
    return {pid: mib for pid, mib in used.items() if pid != os.getpid()}
