"""Shapes of a job file's values. Each reads a value, or says what is wrong with it, and describes it as JSON Schema."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from common.errors import FieldError, InvalidInput
from common.text import did_you_mean, kind_of, shorten_text

Path = tuple[str | int, ...]
Reader = Callable[[Any, str], Any]

# What a YAML parser may make of a plain scalar that the platform keeps as written, such as `name: 007`.
WRITTEN = ["string", "number", "boolean"]
# Other platforms' names.
ALIASES = {"nodes": "count", "replicas": "count", "command": "run", "num_nodes": "nodes"}


class Shape:
    """What may stand behind a key. `schema` refuses nothing that `read` takes.

    written: a plain YAML scalar stays text. schema(yaml=True): of what any YAML parser reads, False: of JSON.
    """

    written = False

    def read(self, value: Any, pointer: str) -> Any:
        raise NotImplementedError

    def schema(self, yaml: bool) -> dict[str, Any]:
        raise NotImplementedError

    def written_paths(self) -> Iterable[Path]:
        """List the paths of what stays text; "*" is any key."""
        return [()] if self.written else []


@dataclass(frozen=True)
class Plain(Shape):
    """A value with a grammar of its own: a reader, and what JSON Schema can say of it."""

    reader: Reader
    described: dict[str, Any]
    written: bool = False

    def read(self, value: Any, pointer: str) -> Any:
        return self.reader(value, pointer)

    def schema(self, yaml: bool) -> dict[str, Any]:
        if not (yaml and self.written):
            return self.described
        return {**self.described, "type": [*WRITTEN, "null"] if "null" in self.described["type"] else WRITTEN}


@dataclass(frozen=True)
class Choice(Shape):
    """One of the words `known`. elsewhere: {word that people look for here: the error that says where it is}."""

    known: tuple[str, ...]
    elsewhere: dict[str, str] = field(default_factory=dict)
    written: bool = False

    def read(self, value: Any, pointer: str) -> str:
        word = read_text(value, pointer)
        if word in self.elsewhere:
            fail(pointer, self.elsewhere[word], got=word)
        if word not in self.known:
            fail(pointer, "unknown_value", got=shorten_text(word), allowed=list(self.known), **_near(word, self.known))
        return word

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.known)}


@dataclass(frozen=True)
class Flag(Shape):
    def read(self, value: Any, pointer: str) -> bool:
        if not isinstance(value, bool):
            fail(pointer, "wrong_type", expected="true_or_false", got=kind_of(value))
        return value

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole(Shape):
    low: int
    high: int

    def read(self, value: Any, pointer: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            fail(pointer, "wrong_type", expected="whole_number", got=kind_of(value))
        if value > self.high:
            fail(pointer, "too_large", max=self.high, got=value)
        if value < self.low:
            fail(pointer, "too_small", min=self.low, got=value)
        return value

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Map(Shape):
    """Entries of any name. most_bytes: of all names and values. values_first: a wrong value is told before its name.

    stops: at the first error.
    """

    name: Shape
    value: Shape
    most: int
    most_bytes: int = 0
    values_first: bool = False
    stops: bool = False

    def entries(self, value: Any, pointer: str) -> dict[str, Any]:
        given = read_map(value, pointer)
        if len(given) > self.most:
            fail(pointer, "too_many", max=self.most, got=len(given))
        return given

    def read(self, value: Any, pointer: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        errors: list[FieldError] = []
        for key, item in self.entries(value, pointer).items():
            where = pointer + pointer_of([key])
            try:
                if self.values_first:
                    self.value.read(item, where)
                name = self.name.read(key, where)
                if name in made:
                    fail(where, "data_twice", target=shorten_text(key))
                made[name] = self.value.read(item, where)
            except InvalidInput as error:
                errors += error.errors
                if self.stops:
                    break
        if self.most_bytes:
            total = sum(len(name.encode()) + len(text.encode()) + 2 for name, text in made.items())
            if total > self.most_bytes:
                errors.append(FieldError(pointer, "too_long", {"max": self.most_bytes, "got": total}))
        refuse(errors)
        return made

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {
            "type": "object",
            "maxProperties": self.most,
            "propertyNames": self.name.schema(yaml=False),
            "additionalProperties": self.value.schema(yaml),
        }

    def written_paths(self) -> Iterable[Path]:
        return [("*", *path) for path in self.value.written_paths()]


@dataclass(frozen=True)
class Field:
    """One key. doc: a sentence for people. usual: what holds without it. into: its name in what is read, if another."""

    key: str
    shape: Shape
    doc: str = ""
    usual: str = ""
    into: str = ""
    required: bool = False
    examples: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        return self.into or self.key

    def schema(self, yaml: bool) -> dict[str, Any]:
        told = {"title": self.key, "description": self.doc}
        more = {"examples": list(self.examples)} if self.examples else {}
        schema = self.shape.schema(yaml)
        return {**told, **(schema if self.required else or_null(schema)), **more}


@dataclass(frozen=True)
class Keys(Shape):
    """A map of known keys. short: the key that a value alone stands for. make: gets what was read."""

    fields: tuple[Field, ...]
    short: str = ""
    make: Callable[..., Any] = dict
    by_key: dict[str, Field] = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "by_key", {one.key: one for one in self.fields})

    def read(self, value: Any, pointer: str) -> Any:
        if self.short and not isinstance(value, dict):
            one = self.by_key[self.short]
            return self.make(**{one.name: one.shape.read(value, pointer)})
        found, errors = self.collect({} if value is None else read_map(value, pointer), pointer)
        refuse(errors)
        return self.make(**found)

    def collect(self, given: dict, pointer: str) -> tuple[dict[str, Any], list[FieldError]]:
        """Return (values by name, errors of the others). A key without a value is ignored."""
        found, errors = {}, self._find_refused_keys(given, pointer)
        for one in self.fields:
            if given.get(one.key) is None:
                continue
            try:
                found[one.name] = one.shape.read(given[one.key], pointer + pointer_of([one.key]))
            except InvalidInput as error:
                errors += error.errors
        missing = [one.key for one in self.fields if one.required and given.get(one.key) is None]
        return found, errors + [FieldError(pointer + pointer_of([key]), "required") for key in missing]

    def schema(self, yaml: bool) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {one.key: one.schema(yaml) for one in self.fields},
            "additionalProperties": False,
        }
        if required := [one.key for one in self.fields if one.required]:
            schema["required"] = required
        alone = self.by_key[self.short].shape.schema(yaml=False) if self.short else {}
        if "anyOf" in alone:
            return {"anyOf": [*alone["anyOf"], schema]}
        return {**alone, **schema, "type": [alone["type"], "object"]} if alone else schema

    def written_paths(self) -> Iterable[Path]:
        return [(one.key, *path) for one in self.fields for path in one.shape.written_paths()]

    def _find_refused_keys(self, given: dict, pointer: str) -> list[FieldError]:
        errors = []
        for key in given:
            where = pointer + pointer_of([key])
            if key not in self.by_key:
                meant = self.by_key.get(ALIASES.get(key, ""))
                near = {"did_you_mean": meant.key} if meant else _near(key, self.by_key)
                errors.append(FieldError(where, "unknown_key", {"key": shorten_text(key), **near}))
        return errors


def fail(pointer: str, code: str, **params) -> NoReturn:
    raise InvalidInput(errors=[FieldError(pointer, code, params)])


def refuse(errors: list[FieldError]) -> None:
    if errors:
        raise InvalidInput(errors=errors)


def read_text(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        fail(pointer, "wrong_type", expected="text", got=kind_of(value))
    return value


def read_map(value: Any, pointer: str) -> dict:
    if not isinstance(value, dict):
        fail(pointer, "wrong_type", expected="map", got=kind_of(value))
    return value


def pointer_of(path: Iterable[str | int]) -> str:
    """Return a JSON pointer (RFC 6901): ("env", "A/B") is /env/A~1B."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null beside what `schema` allows."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    nullable = {**schema, "type": list(dict.fromkeys([*types, "null"]))}
    return nullable | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def _near(word: str, known: Iterable[str]) -> dict[str, str]:
    near = did_you_mean(word, known)
    return {"did_you_mean": near} if near else {}
