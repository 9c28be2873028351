"""Amounts of GPU, CPU, memory and time: parsing, arithmetic and printing. The one place of the unit rule.

People write GB (10^9 bytes) or fractions; rows hold integers of MiB, percent, milli-CPU and seconds.

- A card's ``sellable`` MiB = NVML's total less NVML's reserve less the admin's margin.
- ``a/b`` of a card = floor(sellable * a / b) MiB and floor(100 * a / b) percent of compute.
- ``NGB`` of a card = ceil(N * 10^9 / 2^20) MiB and floor(100 * MiB / sellable) percent.
- Quota counts thousandths of a card: max(floor(1000 * MiB / sellable), 10 * percent, 1).

No floats. `parse_*` raise `InvalidInput` with one `FieldError` at `pointer`.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from math import gcd

from common.errors import FieldError, InvalidInput
from common.text import kind_of, shorten_text

MAX_GPUS = 10_000  # on one node
MAX_GPU_MODELS = 8
MAX_GPU_MEMORY_GB = 10_000
MIN_GPU_MEMORY_GB = Decimal("0.1")
MAX_GPU_PART = 100  # compute is kept in whole percents
MAX_CPU_MILLI = 100_000_000  # 100,000 cores
MAX_MEMORY_MIB = 2**30  # one PiB; fits a 32-bit column
MAX_DURATION_S = 366 * 24 * 3600 * 10

_INSTANCES_FROM, _INSTANCES_STRIDE = (
    1000,
    100,
)  # the same as in agent.gpu.mig_instances, which must not be imported here
MIB = 2**20
_MEMORY_BYTES = {
    "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9, "T": 10**12, "TB": 10**12,
    "MI": 2**20, "MIB": 2**20, "GI": 2**30, "GIB": 2**30, "TI": 2**40, "TIB": 2**40,
}  # fmt: skip
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_COUNT = re.compile(r"[0-9]{1,40}")
_PART = re.compile(r"([0-9]{1,40})/([0-9]{1,40})")
_GPU_MEMORY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,3})?)GB", re.IGNORECASE)
_MODEL = re.compile(r"[A-Z][A-Z0-9._-]{0,31}", re.IGNORECASE)
_PROFILE = re.compile(r"(?:[0-9]+C\.)?[0-9]+G\.[0-9]+GB.*")
_MODEL_PART = re.compile(r"(.*[^:,/])/([0-9]{1,40})")
_MEMORY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,6})?) ?([A-Z]{1,3})", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,6})?")
_DURATION = re.compile(r"(?:([0-9]{1,12})d)?(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m)?(?:([0-9]{1,12})s)?", re.IGNORECASE)
_VULGAR = {125: "⅛", 250: "¼", 375: "⅜", 500: "½", 625: "⅝", 750: "¾", 875: "⅞"}


@dataclass(frozen=True)
class GpuAsk:
    """A task's GPU request: whole cards, or one slice of one card.

    count: cards on its node, 1 for a slice. part: (a, b) in lowest terms, 0 < a < b. memory_gb: decimal GB. At most one
    of the two; either makes it a slice. models: acceptable, best first, upper case; empty = any.
    """

    count: int = 0
    part: tuple[int, int] | None = None
    memory_gb: Decimal | None = None
    models: tuple[str, ...] = ()

    @property
    def is_slice(self) -> bool:
        return self.part is not None or self.memory_gb is not None

    @property
    def text(self) -> str:
        names = ",".join(self.models)
        if self.part is not None and self.part[0] == 1 and names:
            return f"{names}/{self.part[1]}"
        if not self.is_slice and names and self.count == 1:
            return names
        return f"{names}:{self._amount()}" if names else self._amount()

    def _amount(self) -> str:
        if self.part is not None:
            return f"{self.part[0]}/{self.part[1]}"
        if self.memory_gb is not None:
            return f"{_plain(self.memory_gb)}GB"
        return str(self.count)


@dataclass(frozen=True)
class Slice:
    """A share of one card; a whole one is (sellable, 100)."""

    memory_mib: int
    compute_percent: int


# --- the unit rule -------------------------------------------------------------------------------------------------


def sellable_mib(total: int, reserved: int, margin: int = 0) -> int:
    """Return the MiB that a card offers. All are MiB."""
    return max(total - reserved - margin, 0)


def slice_of(ask: GpuAsk, sellable_mib: int) -> Slice | None:
    """Return what a request takes of a card; None if too small."""
    if ask.count < 1:
        raise ValueError("this asks for no GPU, so it takes nothing from a card")
    if sellable_mib < 1:
        return None
    if ask.part is not None:
        a, b = ask.part
        share = Slice(sellable_mib * a // b, 100 * a // b)
    elif ask.memory_gb is not None:
        mib = gb_to_mib(ask.memory_gb)
        share = Slice(mib, 100 * mib // sellable_mib)
    else:
        share = Slice(sellable_mib, 100)
    return share if 0 < share.memory_mib <= sellable_mib else None


def gpu_milli(share: Slice, sellable_mib: int) -> int:
    """Return a slice's thousandths of a card, for quota."""
    return max(1000 * share.memory_mib // sellable_mib, 10 * share.compute_percent, 1)


def gb_to_mib(gb: Decimal) -> int:
    return _ceil_div(int(gb * 10**9), MIB)


def mib_to_gb(mib: int) -> Decimal:
    """Return tenths of a GB, rounded down: so much can be asked for."""
    return Decimal(mib * MIB * 10 // 10**9) / 10


def matches_model(ask_model: str, card_model: str, product: str) -> bool:
    """Return whether a card is of the model asked for, whatever the case.

    card_model: short name; its leading words match ("V100" for "V100-32GB"). product: NVML's name; any run of its words
    matches ("A100" for "NVIDIA A100-SXM4-80GB"). A MIG instance matches only a full name, so "A100" gets a card.
    """
    asked, card, words = _split_name(ask_model), _split_name(card_model), _split_name(product)
    if not asked:
        return False
    if is_instance(product):
        return asked in (card, words)
    runs = (words[i : i + len(asked)] for i in range(len(words)))
    return card[: len(asked)] == asked or any(run == asked for run in runs)


def is_instance(product: str) -> bool:
    """Return whether it is a MIG instance: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"."""
    return "MIG" in product.split()


def rank_of(ask: GpuAsk, card_model: str, product: str) -> int | None:
    """Return the card's rank among the models that `ask` takes, 0 = first; None for no match.

    A MIG instance goes to requests for exactly one, by name: a CUDA program sees no more.
    """
    if is_instance(product) and (ask.is_slice or ask.count != 1 or not ask.models):
        return None
    wanted = (place for place, model in enumerate(ask.models) if matches_model(model, card_model, product))
    return next(wanted, None) if ask.models else 0


# --- reading -------------------------------------------------------------------------------------------------------


def parse_gpu(value: object, pointer: str = "/gpu") -> GpuAsk:
    """Parse ``1``, ``1/4``, ``10GB``, ``H100``, ``H100:8``, ``H100/4``, ``H100:10GB`` or ``H100,A100:2``."""
    text = _text_of(value, pointer, "gpu_amount").replace(" ", "")
    if ".." in text:
        raise _bad(pointer, "gpu_range", got=shorten_text(text))
    part_of = _MODEL_PART.fullmatch(text)
    if part_of and not _COUNT.fullmatch(part_of[1]) and ":" not in text:
        return _read_gpu_ask(f"1/{part_of[2]}", _models(part_of[1], pointer), pointer)
    names, colon, amount = text.partition(":")
    if colon and (":" in amount or "/" in names or _is_amount(names)):  # such as 10GB:2 or H100/4:2
        raise _bad(pointer, "gpu_several_slices", got=shorten_text(text))
    if colon:
        return _read_gpu_ask(amount, _models(names, pointer), pointer)
    if _is_amount(text):
        return _read_gpu_ask(text, (), pointer)
    return GpuAsk(count=1, models=_models(text, pointer))


def parse_cpu(value: object, pointer: str = "/cpu") -> int:
    """Parse cores, ``0.5`` or ``500m``, to milli-CPU."""
    text = _text_of(value, pointer, "number")
    milli = text[:-1] if text.endswith("m") and _COUNT.fullmatch(text[:-1]) else None
    if milli is None and not _NUMBER.fullmatch(text):
        raise _bad(pointer, "bad_cpu", got=shorten_text(text))
    amount = Decimal(milli) if milli is not None else Decimal(text) * 1000
    if amount != int(amount):
        raise _bad(pointer, "bad_cpu", got=shorten_text(text))
    return _within(pointer, int(amount), 1, MAX_CPU_MILLI, show=cpu_text)


def parse_memory(value: object, pointer: str = "/memory") -> int:
    """Parse ``16GB``, ``16GiB`` or ``16Gi``, also M and T, to MiB, rounded up."""
    text = _text_of(value, pointer, "memory_amount")
    if _NUMBER.fullmatch(text):
        raise _bad(pointer, "unit_missing", got=shorten_text(text))
    match = _MEMORY.fullmatch(text)
    unit = _MEMORY_BYTES.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise _bad(pointer, "bad_memory", got=shorten_text(text))
    mib = _ceil_div(int(Decimal(match[1]) * unit), MIB)
    return _within(pointer, mib, 1, MAX_MEMORY_MIB, show=memory_text)


def parse_duration(value: object, pointer: str = "/time") -> int:
    """Parse ``1h30m``, ``3d`` or seconds to seconds."""
    text = _text_of(value, pointer, "duration").lower().replace(" ", "")
    match = _DURATION.fullmatch(text)
    if _COUNT.fullmatch(text):
        seconds = int(text)
    elif match and text:
        seconds = sum(int(n or 0) * _SECONDS[unit] for n, unit in zip(match.groups(), "dhms", strict=True))
    else:
        raise _bad(pointer, "bad_duration", got=shorten_text(text))
    return _within(pointer, seconds, 1, MAX_DURATION_S, show=duration_text)


# --- writing -------------------------------------------------------------------------------------------------------


def show_gpu(milli: int) -> str:
    """Format thousandths of a card: "¼", "0.117"."""
    return _VULGAR.get(milli) or _plain(Decimal(milli) / 1000)


def show_place(index: int) -> str:
    """Format a card's index: "3"; a MIG instance "1:0"."""
    if index < _INSTANCES_FROM:
        return str(index)
    card, place = divmod(index - _INSTANCES_FROM, _INSTANCES_STRIDE)
    return f"{card}:{place}"


def show_memory(mib: int, *, up: bool | None = None) -> str:
    """Format MiB in decimal units: "17 GB". up: not to the nearest; False: the most to ask for that this many hold;
    True: the least that takes as many, so that what is asked for is shown as it was written.
    """
    for unit, tenth in (("TB", 10**11), ("GB", 10**8)):
        if mib * MIB >= 10 * tenth:
            return f"{_plain(Decimal(_count_steps(mib, tenth, up)) / 10)} {unit}"
    return f"{_count_steps(mib, 10**6, up)} MB"


def _count_steps(mib: int, step: int, up: bool | None) -> int:
    """Return how many steps of so many bytes it is. up: see show_memory."""
    if up:
        return max((mib - 1) * MIB // step + 1, 0)
    return (mib * MIB + (step // 2 if up is None else 0)) // step


def show_cpu(milli: int) -> str:
    return _plain(Decimal(milli) / 1000)


def show_duration(seconds: int) -> str:
    """Format seconds: "3d", "1h30m"."""
    if seconds < 1:
        return "0s"
    parts = _duration_parts(seconds)
    first = next(i for i, (_, n) in enumerate(parts) if n)
    return "".join(f"{n}{unit}" for unit, n in parts[first : first + 2] if n)


def cpu_text(milli: int) -> str:
    """Invert `parse_cpu` exactly."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def memory_text(mib: int) -> str:
    """Invert `parse_memory` exactly."""
    gb = mib * MIB // 10**9
    if mib % 1024 == 0:
        return f"{mib // 1024}GiB"
    return f"{gb}GB" if gb and gb_to_mib(Decimal(gb)) == mib else f"{mib}MiB"


def duration_text(seconds: int) -> str:
    """Invert `parse_duration` exactly."""
    return "".join(f"{n}{unit}" for unit, n in _duration_parts(seconds) if n) or "0s"


# --- the small print -----------------------------------------------------------------------------------------------


def _bad(pointer: str, code: str, **params) -> InvalidInput:
    return InvalidInput(errors=[FieldError(pointer, code, params)])


def _read_gpu_ask(amount: str, models: tuple[str, ...], pointer: str) -> GpuAsk:
    if part := _PART.fullmatch(amount):
        return _part_ask(int(part[1]), int(part[2]), models, pointer)
    if memory := _GPU_MEMORY.fullmatch(amount):
        gb = Decimal(memory[1])
        _within(pointer, gb, MIN_GPU_MEMORY_GB, Decimal(MAX_GPU_MEMORY_GB), show=lambda n: f"{_plain(n)}GB")
        return GpuAsk(count=1, memory_gb=Decimal(_plain(gb)), models=models)
    if not _COUNT.fullmatch(amount):
        raise _bad(pointer, "bad_gpu", got=shorten_text(amount))
    return GpuAsk(count=_within(pointer, int(amount), 1 if models else 0, MAX_GPUS), models=models)


def _part_ask(a: int, b: int, models: tuple[str, ...], pointer: str) -> GpuAsk:
    if b == 0:
        raise _bad(pointer, "bad_gpu", got=f"{a}/{b}")
    if a > b:
        raise _bad(pointer, "gpu_part_too_large", got=shorten_text(f"{a}/{b}"))
    if a * MAX_GPU_PART < b:
        raise _bad(pointer, "too_small", min=f"1/{MAX_GPU_PART}", got=shorten_text(f"{a}/{b}"))
    if a == b:
        return GpuAsk(count=1, models=models)
    divisor = gcd(a, b)
    return GpuAsk(count=1, part=(a // divisor, b // divisor), models=models)


def _models(text: str, pointer: str) -> tuple[str, ...]:
    names = [_spell_model(name) for name in text.split(",")]
    if len(names) > MAX_GPU_MODELS:
        raise _bad(pointer, "too_many", max=MAX_GPU_MODELS, got=len(names))
    for name in names:
        # "2,H100": an amount where a model belongs
        if not _MODEL.fullmatch(name):
            raise _bad(pointer, "bad_gpu", got=shorten_text(text))
    return tuple(dict.fromkeys(names))


def _spell_model(name: str) -> str:
    return _PROFILE.sub(lambda found: found[0].lower(), name.upper())


def _is_amount(text: str) -> bool:
    return bool(_COUNT.fullmatch(text) or _PART.fullmatch(text) or _GPU_MEMORY.fullmatch(text))


def _text_of(value: object, pointer: str, expected: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _bad(pointer, "wrong_type", expected=expected, got=kind_of(value))
    if isinstance(value, int) and abs(value) > 10**30:
        raise _bad(pointer, "number_out_of_range")
    text = value.strip() if isinstance(value, str) else format(Decimal(repr(value)), "f")
    if text.startswith("-"):
        raise _bad(pointer, "too_small", min=0, got=shorten_text(text))
    return text


def _within(pointer, value, low, high, show=str):
    if value > high:
        raise _bad(pointer, "too_large", max=show(high), got=shorten_text(show(value)))
    if value < low:
        raise _bad(pointer, "too_small", min=show(low), got=shorten_text(show(value)))
    return value


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _split_name(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _duration_parts(seconds: int) -> list[tuple[str, int]]:
    parts = []
    for unit, size in _SECONDS.items():
        parts.append((unit, seconds // size))
        seconds %= size
    return parts
