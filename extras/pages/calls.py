"""One call on a page: its verdict and by whose word, what it changed, and its result."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element

from skills_agent.graph.audit.events import Record, call_text
from skills_agent.graph.audit.events import line_of as event_line
from skills_agent.graph.cli.printing import line_of
from skills_agent.graph.threads.threads import ThreadCall
from skills_agent.pages.html import element
from skills_agent.skills.text import count
from skills_agent.skills.text_diff import diff, lines_of

_SHORT: Final = 160
"""Characters of a call, and of the beginning of its result."""
_VERDICTS: Final = {"allow": "allowed it", "ask": "asked a person", "deny": "denied it"}
_ANSWERS: Final = {"approve": "approved", "edit": "edited and approved", "reject": "rejected"}
_ACTS: Final = {"added": "+", "changed": "~", "removed": "-"}
_KINDS: Final = {"+": "added", "-": "removed", "@": "place"}
"""How a line of a diff is drawn, by its first character."""


def call_card(call: ThreadCall, events: Sequence[Record], diffs: Mapping[str, str]) -> Element:
    """Return a call. `events` are those that name it; a fork has none of what was before it.

    `diffs` are those of what it changed, by path, as far as they are kept.
    """
    written = [*_written(call)]
    changed = [each for event in events for each in event.get("changes") or ()]
    changes = [*written, *(line for each in changed for line in _change(each, diffs))]
    # What is drawn below needs not be said twice.
    text = f"{call.tool} {call.args['path']}" if written else call_text(call.tool, call.args, _SHORT)
    args = json.dumps(call.args, ensure_ascii=False, indent=2, default=str)
    return element(
        "section",
        element("p", element("b", call.ruling, class_=f"chip {call.ruling}"), " ", element("code", text)),
        element("ul", *(element("li", _words(event)) for event in events), class_="why"),
        *([element("pre", *changes, class_="diff")] if changes else []),
        *([_folded("Arguments", args)] if len(text) == _SHORT else []),
        *([_folded(f"Result: {line_of(call.result, _SHORT)}", call.result)] if call.result else []),
        class_="call",
    )


def _folded(title: str, text: str) -> Element:
    return element("details", element("summary", title), element("pre", text))


def _words(event: Record) -> str:
    """Return what was decided about a call, by whom and why, or what came of it."""
    match event["type"]:
        case "call_judged":
            return f"{event['by']} {_VERDICTS[event['decision']]}: {event['reason']}"
        case "approval_answered":
            said = f": “{event['message']}”" if event["message"] else ""
            kind, pattern = event["scope"], event.get("pattern") or ""
            scope = "" if kind == "call" else f" for the {kind} {pattern}".rstrip()
            return f"{event.get('user') or 'a person'} {_ANSWERS[event['answer']]}{scope}{said}"
    return event_line(event)


def _written(call: ThreadCall) -> Iterator[Element]:
    """Yield what the arguments of a call say that a file shall be, as the lines of a diff."""
    match call.tool, call.args:
        case "edit_file", {"path": str(path), "edits": [*edits]}:
            yield _line(f"@@ {line_of(path)}")
            for edit in edits:
                yield from map(_line, _edited(edit))
        case "write_file", {"path": str(path), "content": str(content)}:
            yield _line(f"@@ {line_of(path)}")
            yield from (_line(f"+{line}") for line in lines_of(content))


def _edited(edit: Any) -> Iterator[str]:
    match edit:
        case {"old_string": str(old), "new_string": str(new)}:
            yield from (line for line in lines_of(diff(f"{old}\n", f"{new}\n")) if line[:1] != "@")


def _change(change: Mapping[str, Any], diffs: Mapping[str, str]) -> Iterator[Element]:
    """Yield what became of a file in the workspace of a program: the thread keeps no more of it."""
    size = count(change["lines"], "line") if change.get("lines") else count(change["size"], "byte")
    is_applied = change["decision"] == "allow"
    why = "" if is_applied else f", not applied: {line_of(change['why'])}"
    text = f"{_ACTS[change['act']]} {line_of(change['path'])} ({change['kind']}, {size}{why})"
    yield _line(text, str(change["act"]) if is_applied else "dropped")
    if is_applied:
        yield from map(_line, lines_of(diffs.get(change["path"], "")))


def _line(text: str, kind: str = "") -> Element:
    return element("span", text.removesuffix("\n"), class_=kind or _KINDS.get(text[:1], ""))
