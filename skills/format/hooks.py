"""Read `hooks`: what is to run when something happens, in a frontmatter and in the operator's settings."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import msgspec

from skills_agent.skills.format.values import FieldValue
from skills_agent.skills.policy.patterns import GRAMMAR, Entry, EntryNotUnderstoodError, split_entries
from skills_agent.skills.skill import Hook, HookEvent
from skills_agent.skills.text import one_line

EVENTS: Final[tuple[str, ...]] = get_args(HookEvent)
DENIABLE: Final = frozenset({"UserPromptSubmit", "PreToolUse", "PreSkillLoad", "Stop"})
"""Events that a hook can deny; at the others it can only speak."""
MAX_HANDLERS: Final = 32
_SHOWN: Final = 80
_BAR: Final = re.compile(r"\|(?![^(]*\))")


def read_hooks(value: FieldValue, parse: Callable[[str], Entry] = GRAMMAR.parse) -> tuple[Hook, ...]:
    """Return the handlers that have an effect here; `parse` reads an entry of a matcher. Nothing raises."""
    hooks: list[Hook] = []
    ignored: dict[str, str] = {}
    for written in _handlers(value.value):
        event, kind = written["event"] or "no mapping", written["type"] or "none"
        name = one_line(f"hooks: {event}" + (f" of type {kind}" if event in EVENTS else ""), _SHOWN)
        try:
            hook = msgspec.convert(written, Hook, strict=False)
        except msgspec.ValidationError as error:
            ignored[name] = "" if "enum" in str(error) else f" ({error})"
            continue
        if not getattr(hook, hook.type).strip() or len(hooks) == MAX_HANDLERS:
            ignored[name] = f" (there is no {hook.type}, or there are more than {MAX_HANDLERS} handlers)"
            continue
        for other in sorted(written.keys() - {*Hook.__struct_encode_fields__}):
            value.report("hooks-without-effect", f"`{one_line(other, 40)}` of a hook has no effect here.")
        for text in (hook.matcher, hook.condition):
            try:
                entries_of(text, parse)
            except EntryNotUnderstoodError as fault:
                value.report("hooks-not-understood", f"{fault} It is taken to mean every call.")
        hooks.append(hook)
    for name, why in ignored.items():
        value.report("hooks-without-effect", f"`{name}` has no effect here{why}.")
    value.without_effect += ignored
    return tuple(hooks)


def entries_of(matcher: str, parse: Callable[[str], Entry]) -> tuple[Entry, ...]:
    """Return what a matcher names, of which one is enough; nothing for one that takes in every call.

    Raises EntryNotUnderstoodError, also for a regular expression.
    """
    plain = matcher.strip()
    texts = () if plain in {"", "*"} else split_entries(_BAR.sub(",", plain))
    for text in texts:
        if "." in text.partition("(")[0]:
            raise EntryNotUnderstoodError(text, "a regular expression is not read here")
    return tuple(map(parse, texts))


def _handlers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each handler with its event and its matcher; what is no handler, as one without a type."""
    for event, groups in (value if isinstance(value, dict) else {"": value} if value else {}).items():
        for group in groups if isinstance(groups, list) else [groups]:
            known = group if isinstance(group, dict) else {}
            inner = known.get("hooks")
            for each in inner if isinstance(inner, list) and inner else [inner]:
                handler = {str(name): said for name, said in each.items()} if isinstance(each, dict) else {}
                written = {name: said for name, said in handler.items() if said is not None}
                kind = written.get("type") or ("command" if "command" in written else "")
                yield {**written, "type": kind, "event": str(event), "matcher": known.get("matcher") or ""}
