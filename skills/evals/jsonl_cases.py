"""Read JSON lines: datasets of LangSmith, samples of OpenAI's evals, and cases as `evals.json` has them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from skills_agent.skills.evals.assertions import texts_of
from skills_agent.skills.evals.case import EvalSet
from skills_agent.skills.evals.errors import NoEvalsError
from skills_agent.skills.evals.eval_place import EvalPlace
from skills_agent.skills.evals.evals_json import Item, read_items
from skills_agent.skills.evals.wild_files import replies_of

MAX_LITERAL: Final = 80
"""Characters of an expected text that an answer is held to letter by letter; a longer one is graded."""
_ANSWERS: Final = (
    "answer", "output", "response", "expected", "expected_output", "expected_answer", "reference", "text",
)  # fmt: skip
_TRAJECTORY: Final = ("trajectory", "expected_trajectory", "tools", "expected_tools")


def read_jsonl(place: EvalPlace, text: str) -> EvalSet:
    """Return the cases of a file of JSON lines. Raises EvalFileError where none is one."""
    skipped: list[str] = []
    items: list[Item] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            skipped.append(f"{place.file}:{number}: the line is no JSON.")
            continue
        items.append(Item(f":{number}", _as_case(row) if isinstance(row, Mapping) else row))
    if not items:
        reason = skipped[0].removeprefix(f"{place.file}:").rstrip(".") if skipped else "it is empty"
        raise NoEvalsError(str(place.file), f"it has no lines of JSON ({reason})")
    read = read_items(place, items, place.skill)
    return msgspec.structs.replace(read, skipped=(*skipped, *read.skipped))


def _as_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names that `evals.json` has."""
    case = dict(row)
    if isinstance(row.get("inputs"), Mapping):
        case |= dict(_of_langsmith(row))
    ideal = row.get("ideal")
    if "ideal" in row:
        del case["ideal"]
        case["assertions"] = [*_listed(row.get("assertions")), *_expected(texts_of(ideal))]
    return case


def _of_langsmith(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    inputs, outputs, metadata = (row.get(key) for key in ("inputs", "outputs", "metadata"))
    texts = (
        [value for value in inputs.values() if isinstance(value, str)] if isinstance(inputs, Mapping) else []
    )
    # Whatever the one input is called, it is the request.
    yield "input", inputs if len(texts) != 1 else texts[0]
    if isinstance(metadata, Mapping):
        yield from ((key, value) for key, value in metadata.items() if key not in {"id", "inputs", "outputs"})
    if isinstance(outputs, str):
        outputs = {"output": outputs}
    if isinstance(outputs, Mapping):
        answers = next((texts for key in _ANSWERS if (texts := texts_of(outputs.get(key)))), [])
        # A chat has its answer as messages, of which the last counts.
        answers = answers or [*replies_of(outputs)[-1:]]
        if not answers and len(outputs) == 1:
            answers = texts_of(next(iter(outputs.values())))
        yield "assertions", [*_expected(answers[:1])]
        yield (
            "expected_tools",
            next((texts for key in _TRAJECTORY if (texts := texts_of(outputs.get(key)))), []),
        )
        yield from ((key, outputs[key]) for key in ("expected_skill", "expected_skills") if key in outputs)


def _expected(answers: list[str]) -> Iterator[dict[str, Any]]:
    """Yield what an expected text comes to: one of several is enough."""
    if not answers:
        return
    if all(len(answer) <= MAX_LITERAL and "\n" not in answer.strip() for answer in answers):
        yield {"type": "contains_any", "values": [answer.strip() for answer in answers], "ignore_case": True}
    else:
        yield {"type": "rubric", "text": f"The answer says the same as this one: {answers[0].strip()}"}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
