"""A run as a person reads it: what happened, in order."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from skills_agent.graph.cli.run_records import Record, Run, local

MAX_ARGS = 300


def story(run: Run) -> str:
    """Return a run as text. All of it is untrusted."""
    asked = run.asked
    summary = run.as_json()
    lines = [
        f"Run {run.run}: {run.outcome}, {local(run.started.get('time', ''))}, by {_who(asked)}",
        f"Asked: {asked.get('request', '(the beginning is not in the record)')}",
        *([f"With: {_settings(asked)}"] if "model" in asked else []),
        "",
    ]
    for event in run.events:
        text = _TEXTS.get(str(event.get("type")), _unknown)(event)
        again = "again: " if event.get("repeated") else ""
        lines += [f"{_clock(event)}  {event.get('node', ''):<9} {again}{each}" for each in text]
    tokens = f"{summary['input_tokens']} + {summary['output_tokens']} tokens"
    lines += ["", f"{summary['calls']} calls, {summary['refused']} refused, {tokens}"]
    return "\n".join(lines)


def _who(event: Mapping[str, Any]) -> str:
    caller = event.get("caller")
    if caller is None:
        return "somebody unnamed"
    return f"{caller} (verified)" if event.get("verified") else f"{caller} (as the request says)"


def _settings(event: Mapping[str, Any]) -> str:
    told = [f"model {event.get('model')}"]
    told += [f"{name} {event.get(name)}" for name in ("allowed_tools", "approval", "sandbox")]
    if yes := _list(event, "yes"):
        told.append(f"--yes {','.join(yes)}")
    return ", ".join(told)


def _clock(event: Record) -> str:
    return local(str(event.get("time", "")))[-8:]


def _started(event: Record) -> Iterator[str]:
    skills = _list(event, "skills")
    asked = f", asked for: {', '.join(skills)}" if skills else ""
    yield f"began: skills known: {event.get('known')} (catalog {_short(event.get('catalog'))}){asked}"
    if changed := _list(event, "changed"):
        yield f"different on disk now: {', '.join(changed)}"


def _resumed(event: Record) -> Iterator[str]:
    yield f"went on: by {_who(event)}, {_settings(event)}"


def _loaded(event: Record) -> Iterator[str]:
    why = f": {event['reason']}" if event.get("reason") else ""
    files = "1 file" if event.get("resources") == 1 else f"{event.get('resources')} files"
    yield (
        f"loaded {event.get('skill')} from {event.get('source')} ({_short(event.get('digest'))}), "
        f"{files}, asked for by the {event.get('asked_by')}{why}"
    )


def _refused(event: Record) -> Iterator[str]:
    yield f"did not load {event.get('skill')}: {event.get('refusal')}"


def _unloaded(event: Record) -> Iterator[str]:
    yield f"unloaded {event.get('skill')}"


def _model(event: Record) -> Iterator[str]:
    calls = _list(event, "calls")
    wants = f"wants {', '.join(calls)}" if calls else "has an answer"
    yield (
        f"asked {event.get('model')}: {event.get('input_tokens')} + {event.get('output_tokens')} tokens, "
        f"{event.get('seconds')} s; {wants}"
    )


def _summarized(event: Record) -> Iterator[str]:
    why = f": {event['failure']}" if event.get("failure") else ""
    yield f"summed up {event.get('turns')} earlier turns (by {event.get('by')}{why})"


def _judged(event: Record) -> Iterator[str]:
    yield f"{event.get('decision')} ({event.get('by')}): {_call(event)}: {event.get('reason')}"


def _asked(event: Record) -> Iterator[str]:
    yield f"asked a person: {_call(event)}: {event.get('question')}"


def _answered(event: Record) -> Iterator[str]:
    user = f" by {event['user']}" if event.get("user") else ""
    scope = (
        f" for the {event['scope']} {event.get('pattern', '')}".rstrip()
        if event.get("scope") != "call"
        else ""
    )
    said = f", saying: {event['message']}" if event.get("message") else ""
    yield f"answered{user}: {event.get('answer')}{scope}{said}: {_call(event)}: {event.get('decision')}"
    if event.get("decision") == "deny" and event.get("answer") != "reject":
        yield f"not run: {event.get('reason')}"


def _revoked(event: Record) -> Iterator[str]:
    scope = f"for the {event.get('scope')} {event.get('pattern', '')}".rstrip()
    yield f"revoked what was granted with {event.get('call_id')}: {event.get('tool')}, {scope}"


def _updated(event: Record) -> Iterator[str]:
    as_node = f" as {event['as_node']}" if event.get("as_node") else ""
    named = [*_list(event, "grants"), *_list(event, "skills")]
    which = f" ({', '.join(named)})" if named else ""
    yield f"changed from outside{as_node}: {', '.join(_list(event, 'channels'))}{which}"


def _forked(event: Record) -> Iterator[str]:
    without = [f"without skill {each}" for each in _list(event, "without_skills")]
    denied = [f"with call {each} refused" for each in _list(event, "denied")]
    changed = "".join(f", {each}" for each in [*without, *denied])
    yield f"copied from thread {event.get('source')} at checkpoint {event.get('at')}{changed}"


def _call_started(event: Record) -> Iterator[str]:
    yield f"starts {event.get('tool')}{_of_skill(event)}"


def _call_ended(event: Record) -> Iterator[str]:
    code = f", exit code {event['exit_code']}" if event.get("exit_code") is not None else ""
    stopped = f", stopped: {event['stopped']}" if event.get("stopped") else ""
    level = f", isolation {event['level']}" if event.get("level") else ""
    if event.get("reused"):
        yield f"{event.get('tool')}{_of_skill(event)}: not run again; the result of {event['reused']}"
        return
    yield (
        f"{event.get('tool')}{_of_skill(event)}: {event.get('status')}{code}{stopped}{level}, "
        f"{event.get('bytes')} bytes, {event.get('seconds')} s"
    )
    if event.get("error"):
        yield f"it said: {event['error']}"
    written = event.get("written")
    for each in written if isinstance(written, list) else []:
        if isinstance(each, Mapping):
            yield f"wrote {each.get('path')} ({each.get('size')} bytes)"


def _read(event: Record) -> Iterator[str]:
    yield f"read {event.get('path')} of {event.get('skill')}"


def _dropped(event: Record) -> Iterator[str]:
    yield f"not run: {event.get('tool')}: {event.get('reason')}"


def _failed(event: Record) -> Iterator[str]:
    yield f"failed: {event.get('error')}: {event.get('message')}"


def _ended(event: Record) -> Iterator[str]:
    why = f": {event['reason']}" if event.get("reason") else ""
    yield f"ended, {event.get('outcome')}{why}; the answer has {event.get('answer_bytes')} bytes"


def _torn(event: Record) -> Iterator[str]:
    yield f"a line of {event.get('bytes')} bytes was cut off here by the end of a process"


def _lost(event: Record) -> Iterator[str]:
    yield f"{event.get('lost')} events are missing here: {event.get('cause')}"


def _unknown(event: Record) -> Iterator[str]:
    yield f"{event.get('type')}"


_TEXTS: Mapping[str, Callable[[Record], Iterator[str]]] = {
    "run_started": _started,
    "run_resumed": _resumed,
    "skill_loaded": _loaded,
    "skill_refused": _refused,
    "skill_unloaded": _unloaded,
    "model_called": _model,
    "history_summarized": _summarized,
    "call_judged": _judged,
    "approval_asked": _asked,
    "approval_answered": _answered,
    "grant_revoked": _revoked,
    "state_updated": _updated,
    "thread_forked": _forked,
    "call_started": _call_started,
    "call_ended": _call_ended,
    "resource_read": _read,
    "call_dropped": _dropped,
    "run_failed": _failed,
    "run_ended": _ended,
    "torn_line": _torn,
    "events_lost": _lost,
}


def _call(event: Record) -> str:
    args = event.get("args")
    told = (
        ", ".join(f"{key}={_value(value)}" for key, value in args.items())
        if isinstance(args, Mapping)
        else _value(args)
    )
    return f"{event.get('tool')}({told[:MAX_ARGS]}{'...' if len(told) > MAX_ARGS else ''})"


def _list(event: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts: the file may be anybody's work by now."""
    found = event.get(key)
    return [str(each) for each in found] if isinstance(found, list) else []


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _of_skill(event: Record) -> str:
    return f" of {event['skill']}" if event.get("skill") else ""


def _short(digest: object) -> str:
    return str(digest or "none")[:12]
