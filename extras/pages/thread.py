"""A thread as one page: what was said and done, the path of each turn, and what it took."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO
from xml.etree.ElementTree import Element

from skills_agent.graph.audit.events import Record, event
from skills_agent.graph.cli.printing import local_time, waiting_text
from skills_agent.graph.cli.transcript import cost_text
from skills_agent.graph.machine import sandbox_here
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.steps import ThreadStep
from skills_agent.graph.threads.threads import ThreadRecord
from skills_agent.graph.user_folders import state_folder
from skills_agent.nodes.prompt import plan_text
from skills_agent.pages.calls import call_card
from skills_agent.pages.html import element, facts, html_page
from skills_agent.pages.markdown import markdown
from skills_agent.pages.pictures import pictures_of
from skills_agent.skills.text import count, one_line
from skills_agent.state.records import LoadedSkill

_TITLE: Final = 120
_WHO: Final = {"user": "Person", "agent": "Agent", "request": "Asked for"}


def write_page(file: TextIO, record: ThreadRecord, steps: Sequence[ThreadStep], graph: CompiledAgent) -> None:
    """Write the page of a thread, with its steps and the graph that made them."""
    events: dict[str, list[Record]] = defaultdict(list)
    for each in (one for step in steps for one in step.events):
        events[str(each.get("call_id"))].append(each)
    for grant in record.grants:  # A fork keeps the answers that were given before it.
        if "approval_answered" not in {each["type"] for each in events[grant["id"]]}:
            events[grant["id"]].append(event("approval_answered", grant, answer=grant["decision"]))
    title = one_line(record.summary.question, _TITLE) or f"Thread {record.summary.thread}"
    page = html_page(
        title,
        element("h1", title),
        *_head(record, steps),
        *_conversation(record, events, pictures_of(steps, graph.get_graph()), graph),
        *([element("h2", "Plan"), element("pre", plan_text(record.plan))] if record.plan else []),
    )
    file.write(page)


def _head(record: ThreadRecord, steps: Sequence[ThreadStep]) -> Iterator[Element]:
    head, again = record.summary, f"skills-agent resume {record.summary.thread}"
    calls = (one for step in steps for one in step.events if one["type"] == "model_called")
    pairs = {
        "Thread": f"{head.thread}, {count(head.turns, 'turn')}, {local_time(head.when)}",
        "Models": ", ".join(dict.fromkeys(str(one["model"]) for one in calls)),
        "Spent": cost_text(record.usage["thread"]) if record.usage else "",
        **{f"Skill {skill['name']}": _skill(skill) for skill in record.skills},
        "To go on": "" if head.status == "done" else again,
        "Held": waiting_text(record.held, again) if record.held else "",
    }
    yield element("p", element("b", head.status, class_=f"chip {head.status}"))
    yield facts(pairs)


def _conversation(
    record: ThreadRecord,
    events: Mapping[str, Sequence[Record]],
    pictures: Mapping[str, Element],
    graph: CompiledAgent,
) -> Iterator[Element]:
    """Yield each message, and the pictures of a turn where the next one begins, and whether it was stopped.

    What a fork has from before it has none.
    """
    picture: Element | None = None
    diffs, has_answer = _diffs(record, graph), True
    stopped = element("p", "Stopped before there was an answer.", class_="why")
    for message in record.messages:
        if message.role == "user" and not has_answer:
            yield stopped
        has_answer = message.role == "agent" and bool(message.text.strip())
        begun = pictures.get(message.id, picture)
        if picture is not None and begun is not picture:
            yield picture
        picture = begun
        yield element(
            "article",
            element("h2", _WHO[message.role]),
            *([markdown(message.text)] if message.text.strip() else []),
            *(call_card(call, events.get(call.id, ()), diffs[call.id]) for call in message.calls),
            class_=f"said {message.role}",
        )
    if record.summary.status == "unfinished":
        yield stopped
    if picture is not None:
        yield picture


def _diffs(record: ThreadRecord, graph: CompiledAgent) -> Mapping[str, Mapping[str, str]]:
    """Return the diffs of what each call changed, by its id and the path: those of the last runs are kept."""
    services, thread = graph.services, record.summary.thread
    journal = services.journal_of(graph.saver_of(thread), graph.store)
    kept = sandbox_here().diffs(state_folder(services.settings), services.settings.workspace)
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for call in (call for message in record.messages for call in message.calls):
        entry = journal.get(thread, call.id)
        own = {path: text for (key, path), text in kept.items() if entry and key == entry.key}
        found[call.id] = services.audit.redaction.whole(own)
    return found


def _skill(skill: LoadedSkill) -> str:
    unloaded = ", unloaded" if skill["unloaded"] else ""
    return f"{skill['digest']}, from {skill['source']}, asked for by the {skill['asked_by']}{unloaded}"
