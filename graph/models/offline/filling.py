"""From a usage and a request to the arguments of a call."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skills_agent.graph.models.offline.phrases import (
    group_of,
    measure_of,
    number_of,
    since_of,
    value_named,
)
from skills_agent.graph.models.offline.places import Kind, Slot, place
from skills_agent.graph.models.offline.request import Request, is_file_name
from skills_agent.graph.models.offline.usage import Option, Usage
from skills_agent.graph.models.offline.wishes import choice_of, text_of, wanted_switch, wanted_value
from skills_agent.graph.models.offline.words import words

MAX_CALLS = 5
"""More files than this are not each given a call of their own."""

_KEPT_LITERALS = frozenset({"format", "mode", "encoding", "style", "type", "level", "lang", "language"})
"""Options whose value in an example is the one to use: it depends on no file."""
_EXAMPLE = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)(?:[ =]|\", \")([^\s`\"'\[\]<>|,]+)")
_SAMPLE_STEMS = frozenset({"sampl", "demo", "exampl", "bundl"})


class Call(NamedTuple):
    """A script and what to pass it."""

    script: str
    args: tuple[str, ...]


class Filled(NamedTuple):
    """Calls that are ready, or what they still lack."""

    calls: tuple[Call, ...]
    missing: tuple[str, ...]
    """What the request would have to name, in words."""


class Material(NamedTuple):
    """What arguments can be made of."""

    request: Request
    earlier_files: tuple[str, ...] = ()
    """Files that an earlier request of the thread named."""
    assets: tuple[str, ...] = ()
    """Files of the skill that can stand in where a request asks for the example."""
    examples: Mapping[str, tuple[str, ...]] = {}
    """Values from the skill's examples, by flag, for options that a script turned out to require."""


def fill(usage: Usage, material: Material) -> Filled:
    """Return the calls that the request means; one for each file where the script takes one at a time."""
    files = _files(usage, material)
    if _takes_one(usage) and 1 < len(files) <= MAX_CALLS:
        filled = [_Filling(usage, material, [each]).run() for each in files]
        return Filled(
            tuple(call for each in filled for call in each.calls),
            tuple(dict.fromkeys(lack for each in filled for lack in each.missing)),
        )
    return _Filling(usage, material, list(files)).run()


def fits(usage: Usage, material: Material) -> float:
    """Return how well a usage suits a request; what it lacks and what nobody asked for count against it."""
    filled = fill(usage, material)
    request = material.request
    passed = " ".join(arg for call in filled.calls for arg in call.args)
    unused = sum(1 for each in (*request.files, *request.urls) if each not in passed)
    asked = sum(1 for option in usage.options if _asked(option, request))
    unasked = sum(1 for option in usage.options if not option.optional and not _asked(option, request))
    shown = {each.extension for each in _file_slots(usage) if each.extension}
    named = {_extension(each) for each in request.files}
    matching = 1.0 if shown & named else 0.0
    return (
        asked + matching - unused - 0.25 * unasked - 0.75 * len(filled.missing) - (0.5 if usage.bare else 0)
    )


def _asked(option: Option, request: Request) -> bool:
    if any(flag.name in option.flags for flag in request.flags):
        return True
    if option.value is None:
        return wanted_switch(option, request)
    return option.value.kind in {"file", "folder"} or wanted_value(option, option.value, request) is not None


def _files(usage: Usage, material: Material) -> tuple[str, ...]:
    """Return the files to work on: named now, else named before, else the skill's own example."""
    request = material.request
    if request.files:
        return request.files
    if request.folders and request.folders != (".",):
        return request.folders
    wanted = {each.extension for each in _file_slots(usage) if each.extension}
    if request.stems & _SAMPLE_STEMS:
        fitting = [
            each for each in material.assets if not wanted or each.rsplit(".", 1)[-1].lower() in wanted
        ]
        fitting.sort(key=lambda path: not any(mark in path.lower() for mark in ("sample", "demo", "example")))
        if fitting:
            return (fitting[0],)
    return material.earlier_files


def _extension(path: str) -> str:
    return path.rsplit(".", 1)[-1].lower()


def _file_slots(usage: Usage) -> list[Slot]:
    required = [option.value for option in usage.options if option.value and not option.optional]
    return [each for each in (*usage.arguments, *required) if each.kind == "file"]


def _takes_one(usage: Usage) -> bool:
    slots = [each for each in _file_slots(usage) if not each.optional]
    return len(slots) == 1 and not slots[0].repeated and not usage.bare


_VALUES: Mapping[Kind, Callable[[Request], str | None]] = {
    "output": lambda request: next(iter(request.outputs), None),
    "url": lambda request: next(iter(request.urls), None),
    "column": lambda request: group_of(request) or measure_of(request),
    "date": since_of,
    "text": lambda request: text_of(request) or None,
}


@dataclass(slots=True)
class _Filling:
    """One call in the making."""

    usage: Usage
    material: Material
    files: list[str]
    args: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)

    def run(self) -> Filled:
        """Fill options that the request spells out, then the usage's own, then those it asks for."""
        spelled = self._spelled_out()
        positional = self._arguments()
        for option in self.usage.options:
            self._option(self._with_description(option))
        for option in self.usage.extra.values():
            if not (self.chosen & set(option.flags)):
                self._option(option)
        args = (*positional, *self.args, *spelled)
        return Filled((Call(self.usage.script, args),), tuple(dict.fromkeys(self.missing)))

    @property
    def _request(self) -> Request:
        return self.material.request

    def _with_description(self, option: Option) -> Option:
        described = next((self.usage.extra[flag] for flag in option.flags if flag in self.usage.extra), None)
        if described is None:
            return option
        return replace(
            option,
            value=option.value or (None if not option.optional else described.value),
            optional=option.optional or described.default is not None,
            description=described.description,
            default=described.default,
        )

    def _known(self, flag: str) -> Option | None:
        own = next((option for option in self.usage.options if flag in option.flags), None)
        return own or self.usage.extra.get(flag)

    def _spelled_out(self) -> list[str]:
        spelled: list[str] = []
        for flag in self._request.flags:
            option = self._known(flag.name)
            self.chosen |= set(option.flags if option else ()) | {flag.name}
            spelled.append(flag.name)
            if flag.value is None:
                continue
            if option and option.value is None and flag.name not in self.usage.extra:
                if is_file_name(flag.value):
                    self.files.insert(0, flag.value)
                continue
            spelled.append(flag.value)
        return spelled

    def _arguments(self) -> list[str]:
        if self.usage.bare:
            return [*self.files, *(self._request.folders if not self.files else ())]
        taken: list[str] = []
        for each in self.usage.arguments:
            values = self._argument(each)
            if values is None and not each.optional:
                self.missing.append(_lack(each))
            taken += values or []
        return taken

    def _argument(self, each: Slot) -> list[str] | None:
        if each.kind == "literal":
            return None if each.optional else [each.text]
        if each.kind == "file" and each.repeated:
            files, self.files = self.files, []
            return files or None
        value = self._value(each)
        if value is None and each.kind == "number" and not each.stands_in and not each.optional:
            return [each.text]
        return None if value is None else [value]

    def _value(self, each: Slot) -> str | None:
        """Return what the request gives for a place, by the kind of thing that belongs there."""
        if each.kind == "file":
            return self._file(each)
        if each.kind == "choice":
            return choice_of(each.choices, self._request)
        if each.kind == "number":
            return number_of(self._request, (*words(each.text), "top", "first", "last", "limit"))
        if each.kind == "folder":
            folder = next(iter(self._request.folders), None)
            return folder if folder or each.optional else "."
        simple = _VALUES.get(each.kind)
        if simple:
            return simple(self._request)
        named = value_named(self._request, each.text.strip("<>{}$"))
        return named or next(iter(self._request.quoted), None)

    def _file(self, each: Slot) -> str | None:
        if not self.files:
            return None
        fitting = [path for path in self.files if _extension(path) == each.extension]
        path = (fitting or self.files)[0]
        self.files.remove(path)
        return path

    def _option(self, option: Option) -> None:
        if self.chosen & set(option.flags):
            return
        self.chosen |= set(option.flags)
        if option.value is None:
            if not option.optional or wanted_switch(option, self._request):
                self.args.append(option.name)
            return
        value = wanted_value(option, option.value, self._request)
        if value is None and not option.optional:
            value = self._required(option, option.value)
        if value is None:
            return
        if value in self.files:
            self.files.remove(value)
        self.args += [option.name, value]

    def _required(self, option: Option, slot: Slot) -> str | None:
        """Return a value for an option that the usage shows outside brackets; note what is lacking."""
        value = self._value(slot) if slot.stands_in or slot.kind in {"file", "folder"} else None
        if value is not None:
            return value
        examples = [each for flag in option.flags for each in self.material.examples.get(flag, ())]
        example = examples[0] if examples else None
        if slot.stands_in or slot.kind == "file":
            if example is None and not slot.choices:
                self.missing.append(_lack(slot, option.name))
            return example
        # An example's value is kept where it depends on no file.
        keeps = slot.kind == "number" or set(words(option.name)) & _KEPT_LITERALS
        return slot.text if keeps else None


def _lack(each: Slot, flag: str = "") -> str:
    shown = each.text.strip("<>{}$")
    named = f"{flag} {shown}".strip()
    kinds: Mapping[str, str] = {
        "file": "a file",
        "output": "a file to write",
        "url": "an address",
        "column": "a column",
        "number": "a number",
        "date": "a date or tag",
        "text": "a text",
        "choice": "a choice",
    }
    return f"{kinds.get(each.kind, 'a value')} for `{named}`"


def examples_in(instructions: str) -> Mapping[str, tuple[str, ...]]:
    """Return the values that the skill's own examples give to options, by flag."""
    found: dict[str, tuple[str, ...]] = {}
    for flag, value in _EXAMPLE.findall(instructions):
        shown = place(value, flag=flag)
        if not shown.stands_in and shown.kind not in {"file", "output"}:
            found[flag] = (*found.get(flag, ()), value)
    return found
