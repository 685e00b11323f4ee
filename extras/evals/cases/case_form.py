"""The written form of our own files of eval cases, as people type them: `docs/evals.md` shows it by example.

What stands here is the form alone, short forms included; `case_files.py` makes eval cases of it, and
`docs/evals.schema.json` is generated from it, for editors.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from skills_agent.evals.cases.case import ArgsMatch, CallMode

VERSION = 1

Word = str | int | float
"""A text; `356` without quotes is the text "356"."""
Words = Word | list[Word]
Count = Annotated[int, Meta(ge=0)]
Runs = Annotated[int, Meta(ge=1, le=100)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Skills = str | list[str]


class Form(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What all parts of a file are: a key that is not known is an error."""


class FromFile(Form):
    """A file to lay: what it holds, or where it is copied from."""

    text: Annotated[str | None, Meta(description="What the file holds.")] = None
    source: Annotated[
        str | None,
        Meta(description="A file or folder to copy, relative to this file; it stays in the skill's folder."),
    ] = msgspec.field(default=None, name="from")


LaidFiles = dict[str, str | FromFile] | list[str]


class CallForm(Form):
    """A call of a tool."""

    tool: Annotated[str, Meta(description="The tool's name; `*` stands for any characters.")]
    args: Annotated[dict[str, Any] | None, Meta(description="Its arguments; left out: any.")] = None
    match: Annotated[ArgsMatch, Meta(description="How the arguments are compared.")] = "superset"


class CallsForm(Form):
    """The calls of all turns."""

    mode: Annotated[CallMode, Meta(description="How the list is held against the calls made.")] = "superset"
    calls: Annotated[list[str | CallForm] | None, Meta(description="The list.")] = None
    order: Annotated[
        list[list[str | CallForm]], Meta(description="Chains: each call comes after the one before it.")
    ] = []
    forbidden: Annotated[list[str | CallForm], Meta(description="Calls that are not made.")] = []


class SkillsForm(Form):
    """The skills that are loaded; one of the keys."""

    all: Annotated[Skills | None, Meta(description="Each of these.")] = None
    any: Annotated[Skills | None, Meta(description="One of these at least.")] = None
    none: Annotated[Skills | None, Meta(description="None of these.")] = None
    only: Annotated[Skills | None, Meta(description="These, and no others.")] = None


class TextForm(Form):
    """What a text holds; each part given has to hold."""

    contains: Annotated[Words, Meta(description="All of these.")] = []
    contains_any: Annotated[Words, Meta(description="One of these at least.")] = []
    not_contains: Annotated[Words, Meta(description="None of these.")] = []
    regex: Annotated[Words, Meta(description="A part of the text fits each of these (RE2).")] = []
    not_regex: Annotated[Words, Meta(description="No part of the text fits any of these (RE2).")] = []
    equals: Annotated[Word | None, Meta(description="The whole text.")] = None
    json_schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema 2020-12 of the text.")] = None
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = False


class FileForm(TextForm):
    """A file of the workspace after the last turn: what it holds, as of a text."""

    exists: Annotated[bool, Meta(description="Whether it is there.")] = True
    equals_file: Annotated[
        str | None, Meta(description="A file with the same bytes, relative to this file.")
    ] = None


class ScriptForm(Form):
    """A program that judges the workspace: it exits with 0 where all is well."""

    path: Annotated[str, Meta(description="Relative to this file; `.py` runs under the agent's Python.")]
    args: Annotated[list[Word], Meta(description="Its arguments.")] = []
    seconds: Annotated[Seconds, Meta(description="When it is given up.")] = 30.0


class RubricForm(Form):
    """Points that a model grades, where a grader is chosen."""

    points: Annotated[str | list[str], Meta(description="Each a sentence that is true or false.")]
    votes: Annotated[int, Meta(description="How often each is asked.", ge=1, le=15)] = 3


class LimitsForm(Form):
    """What one run may take; more is a failed check."""

    calls: Annotated[Count | None, Meta(description="Calls of tools.")] = None
    model_calls: Annotated[Count | None, Meta(description="Calls of the model.")] = None
    tokens: Annotated[Count | None, Meta(description="Input and output together.")] = None
    seconds: Annotated[Seconds | None, Meta(description="Seconds.")] = None


class ExpectForm(Form):
    """What is expected; each part given has to hold."""

    skills: Annotated[
        str | list[str] | SkillsForm | None,
        Meta(description="Skills that are loaded: names, `none`, or one of all, any, none, only."),
    ] = None
    calls: Annotated[
        str | list[str | CallForm] | CallsForm | None,
        Meta(description="Calls of tools: a list that is made at least, `none`, or the long form."),
    ] = None
    limits: Annotated[LimitsForm | None, Meta(description="What one run may take.")] = None
    answer: Annotated[
        Word | list[Word] | TextForm | None, Meta(description="What the last answer contains.")
    ] = None
    files: Annotated[
        dict[str, str | FileForm],
        Meta(
            description="Files of the workspace after the last turn: `exists`, `absent`, or what they hold."
        ),
    ] = {}
    script: Annotated[
        str | list[str | ScriptForm] | ScriptForm, Meta(description="Programs that judge the workspace.")
    ] = []
    rubric: Annotated[
        str | list[str] | RubricForm | None, Meta(description="Points that a model grades.")
    ] = None


class ReplyCall(Form):
    """A call in a reply of the model `scripted`."""

    name: str
    args: dict[str, Any] = {}


class Reply(Form):
    """A reply of the model `scripted`."""

    content: str = ""
    tool_calls: list[ReplyCall] = []


class CaseForm(Form):
    """One case."""

    id: Annotated[Word | None, Meta(description="Unique in the file; made of the request if left out.")] = (
        None
    )
    name: Annotated[str, Meta(description="What people read; the request if left out.")] = ""
    skill: Annotated[str | None, Meta(description="The skill that it is about.")] = None
    kind: Annotated[
        Literal["task", "trigger"],
        Meta(description="A trigger case ends where the model has chosen skills: nothing else counts."),
    ] = "task"
    request: Annotated[str | None, Meta(description="What the person says.")] = None
    turns: Annotated[list[str], Meta(description="The same of several turns.")] = []
    load: Annotated[Skills, Meta(description="Skills that the person loads with the first turn.")] = []
    files: Annotated[
        LaidFiles, Meta(description="What lies in the fresh workspace: path and text, or where it is from.")
    ] = {}
    expect: Annotated[ExpectForm | None, Meta(description="What is expected.")] = None
    replies: Annotated[list[str | Reply], Meta(description="What the model `scripted` answers.")] = []
    repeat: Annotated[Runs | None, Meta(description="Runs in each arm.")] = None
    seconds: Annotated[Seconds | None, Meta(description="When a run is given up.")] = None
    tags: Annotated[Skills, Meta(description="Words to choose cases by.")] = []
    note: Annotated[str, Meta(description="For people and graders.")] = ""


class DefaultsForm(Form):
    """What holds for every case of the file that does not say otherwise."""

    load: Annotated[Skills, Meta(description="Skills that the person loads.")] = []
    files: Annotated[LaidFiles, Meta(description="Laid in every case, beside its own.")] = {}
    limits: Annotated[LimitsForm | None, Meta(description="What one run may take.")] = None
    repeat: Annotated[Runs | None, Meta(description="Runs in each arm.")] = None
    seconds: Annotated[Seconds | None, Meta(description="When a run is given up.")] = None
    tags: Annotated[Skills, Meta(description="Added to those of the case.")] = []


class TriggerForm(Form):
    """A request of a short list of trigger cases."""

    request: Annotated[str, Meta(description="What the person says.")]
    skills: Annotated[
        Skills | None, Meta(description="The skills that are chosen instead, and no others; `none`: none.")
    ] = None
    id: Annotated[Word | None, Meta(description="Unique in the file; made of the request if left out.")] = (
        None
    )
    tags: Annotated[Skills, Meta(description="Words to choose cases by.")] = []


class FileOfCases(Form):
    """A file of eval cases."""

    version: Annotated[Literal[1], Meta(description="Of the form: 1.")] = 1
    skill: Annotated[
        str | None, Meta(description="The skill that they are about; the one whose folder it is.")
    ] = None
    defaults: Annotated[DefaultsForm, Meta(description="What holds for every case.")] = msgspec.field(
        default_factory=DefaultsForm
    )
    cases: Annotated[list[CaseForm], Meta(description="The cases.")] = []
    should_trigger: Annotated[
        list[str | TriggerForm], Meta(description="Requests for which the skill is chosen.")
    ] = []
    should_not_trigger: Annotated[
        list[str | TriggerForm], Meta(description="Requests for which it is not chosen: near misses.")
    ] = []


def schema() -> dict[str, Any]:
    """Return the form as JSON Schema 2020-12."""
    made = msgspec.json.schema(FileOfCases)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Eval cases of skills-agent",
        **made,
    }
