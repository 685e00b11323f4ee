"""What the journal has lost is unknown: an effect that a crash cut off is not repeated in silence."""

import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.errors import JournalError
from skills_agent.graph.user_folders import state_folder
from tests.agents import CutOff, call, calls
from tests.forked import run_forked

pytestmark = pytest.mark.slow

CONFIG: Any = {"configurable": {"thread_id": "t"}}
EARLIER, LATER = call("note", text="earlier"), call("note", text="later")
SCRIPT = [calls(EARLIER), calls(LATER), "done"]
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


def said(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    raise CutOff


def note_into(folder: Path, after: Mapping[str, Callable[[], None]] | None = None) -> BaseTool:
    """Return a tool whose effect is a line in a file; `after` is what happens behind that of a text."""

    @tool
    def note(text: str) -> str:
        """Note something."""
        with (folder / "notes").open("a") as file:
            file.write(f"{text}\n")
        (after or {}).get(text, lambda: None)()
        return f"noted {text}"

    note.metadata = {"risk": "write"}
    return note


class Place:
    """A folder with a workspace and the state of its agent, which can be copied, damaged and opened again."""

    def __init__(
        self,
        folder: Path,
        audit: Literal["on", "require", "off"] = "off",
        durability: Literal["sync", "async", "exit"] = "sync",
    ) -> None:
        self.folder, self.audit, self.durability = folder, audit, durability
        own: Any = {"bundled_skills": False, "audit": audit, "require_approval_for": frozenset({"run"})}
        self.settings = Settings(workspace=folder / "work", home=folder / "home", **own)
        (folder / "work").mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return state_folder(self.settings) / JOURNAL_FILE

    @property
    def notes(self) -> list[str]:
        return (self.folder / "notes").read_text().split() if (self.folder / "notes").exists() else []

    def invoke(
        self,
        message: Any,
        replies: Sequence[Any] = SCRIPT,
        after: Mapping[str, Callable[[], None]] | None = None,
    ) -> Any:
        with SqliteSaver.from_conn_string(str(self.folder / "threads.sqlite")) as saver:
            tools = [note_into(self.folder, after)]
            builder = build_graph(self.settings, model=ScriptedChatModel(replies), tools=tools)
            graph = builder.compile(checkpointer=saver)
            graph.invoke(message, CONFIG, durability=self.durability)
            return graph.get_state(CONFIG)

    def cut_off(self) -> "Place":
        """Run a turn in another process, which is killed after its second effect."""
        assert run_forked(self.invoke, said("go"), SCRIPT, {"later": kill}) == -signal.SIGKILL
        assert self.notes == ["earlier", "later"]
        return self

    def copied(self, folder: Path) -> "Place":
        """Return the same place elsewhere: the state folder is known by the workspace's path."""
        old = state_folder(self.settings)
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        place = Place(folder, self.audit, self.durability)
        (folder / old.relative_to(self.folder)).rename(state_folder(place.settings))
        return place


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.fixture(scope="module", params=["off", "on"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XDG_STATE_HOME", raising=False)
        return Place(tmp_path_factory.mktemp("template"), request.param).cut_off()


def question_of(state: Any) -> str:
    (question,) = state.interrupts
    return str(question.value["action_requests"][0]["description"])


def remove(journal: Path) -> None:
    for each in journal.parent.glob(f"{journal.name}*"):
        each.unlink()


def test_an_effect_whose_journal_was_removed_is_asked_about(template: Place, tmp_path: Path) -> None:
    place = template.copied(tmp_path)
    remove(place.journal)
    state = place.invoke(None)
    assert "unknown" in question_of(state)
    assert place.notes == ["earlier", "later"]
    assert place.invoke(APPROVE).values["answer"] == "done"
    assert place.notes == ["earlier", "later", "later"]


def test_an_older_copy_of_the_journal_shows(tmp_path: Path) -> None:
    """A copy from before the second effect was allowed knows nothing of it."""
    place = Place(tmp_path)
    place.invoke(said("go"), [calls(EARLIER), "done"])
    copies = {each: each.read_bytes() for each in place.journal.parent.glob("journal*")}
    script = [calls(EARLIER), "done", calls(LATER), "done"]
    with pytest.raises(CutOff):
        place.invoke(said("go on"), script, {"later": crash})
    remove(place.journal)
    for path, content in copies.items():
        path.write_bytes(content)
    assert "lost" in question_of(place.invoke(None, script))
    assert place.notes == ["earlier", "later"]


@pytest.mark.parametrize("seed", range(9))
def test_no_damage_of_the_journal_repeats_an_effect_in_silence(
    template: Place, tmp_path: Path, seed: int
) -> None:
    """Flip bits, cut files off, and blank pages: a question or an error, and never the effect again."""
    chance = random.Random(seed)
    place = template.copied(tmp_path)
    files = [place.journal, place.journal.with_name(f"{JOURNAL_FILE}-wal")]
    path = chance.choice([each for each in files if each.exists() and each.stat().st_size])
    content = bytearray(path.read_bytes())
    match seed % 3:
        case 0:
            for _ in range(chance.choice([1, 1, 1, 8])):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        case 1:
            del content[chance.randrange(len(content)) :]
        case _:
            start = chance.randrange(len(content))
            content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)
    try:
        question = question_of(place.invoke(None))
    except JournalError as error:
        question = str(error)
    assert "unknown" in question or "journal" in question
    assert place.notes == ["earlier", "later"]


def test_a_call_that_never_began_is_not_asked_about(tmp_path: Path) -> None:
    """The run ended between the verdict and the effect, and the audit knows that."""
    place = Place(tmp_path, "on")
    asks = {"require_approval_for": frozenset({"write"}), "origins": {}}
    place.settings = Settings(**{**vars(place.settings), **asks})
    state = place.invoke(said("go"), [calls(LATER)])
    assert state.interrupts
    remove(place.journal)  # The approval comes later: nothing has begun.
    assert place.invoke(APPROVE, [calls(LATER), "done"]).values["answer"] == "done"
    assert place.notes == ["later"]


def test_a_journal_that_is_removed_while_a_process_runs_is_made_again(tmp_path: Path) -> None:
    """As `git clean -fdx` does: what is written into an unlinked file is found by nobody."""
    place = Place(tmp_path)
    with pytest.raises(CutOff):
        place.invoke(said("go"), SCRIPT, {"earlier": lambda: remove(place.journal), "later": crash})
    assert "attempt 1" in question_of(place.invoke(None))
    assert place.notes == ["earlier", "later"]


def test_a_lost_journal_is_restored_from_the_audit_where_the_checkpoints_know_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "on", "exit").cut_off()
    remove(place.journal)
    state = place.invoke(said("go"), [calls(EARLIER), "done"])
    assert "lost" in question_of(state)
    assert place.notes == ["earlier", "later"]


@pytest.mark.parametrize("later_turn", [False, True])
def test_a_result_of_a_lost_timeline_expires_once_a_later_turn_has_ended(
    tmp_path: Path, later_turn: bool
) -> None:
    place = Place(tmp_path, durability="exit").cut_off()
    if later_turn:
        assert place.invoke(said("something else"), ["hello"]).values["answer"] == "hello"
    state = place.invoke(said("go"), [*(["hello"] if later_turn else []), calls(EARLIER), "done"])
    assert state.values["answer"] == "done"
    assert place.notes == ["earlier", "later", *(["earlier"] if later_turn else [])]
