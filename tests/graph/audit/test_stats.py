"""What became of skills, counted over records of runs."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.audit.stats import Counting, SkillStats


def record(kind: str, thread: str = "a", turn: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "thread": thread,
        "run": f"{thread}.{turn}",
        "time": "2026-11-23T10:00:00Z",
        **fields,
    }


def loaded(name: str, thread: str = "a", turn: int = 1, **fields: Any) -> dict[str, Any]:
    given = {"asked_by": "model", "resources": 2, "characters": 400, **fields}
    return record("skill_loaded", thread, turn, skill=name, **given)


def ran(name: str, code: int | None = 0, **fields: Any) -> dict[str, Any]:
    given = {"tool": "run_script", "skill": name, "call_id": "c1", "exit_code": code, "run_seconds": 0.5}
    return record("call_ended", **{**given, **fields})


def stats(*records: Mapping[str, Any], name: str = "alpha") -> SkillStats:
    counting = Counting()
    counting.thread(records)
    return counting.skills[name]


def test_a_load_is_used_where_a_script_of_it_ran() -> None:
    seen = stats(
        record("run_started", offered=["alpha", "beta"]),
        loaded("alpha"),
        record("model_called"),
        ran("alpha"),
    )
    assert (seen.offered, seen.loaded, seen.used, seen.ignored, seen.runs) == (1, 1, 1, 0, 1)
    assert (seen.tokens, seen.seconds) == (100, 0.5)
    assert dict(seen.followed_by) == {"run_script": 1}
    assert dict(seen.loads) == {"model": 1}


def test_turns_that_do_not_name_what_was_offered_are_counted_apart() -> None:
    counting = Counting()
    counting.thread(
        [
            record("run_started", known=226),
            record("run_started", known=2, offered=["alpha", "beta"]),
            record("run_started", known=0),
        ]
    )
    assert (counting.turns, counting.unlisted, counting.skills["alpha"].offered) == (3, 1, 1)


def test_a_load_is_used_where_a_file_of_it_was_read() -> None:
    assert stats(loaded("alpha"), record("resource_read", skill="alpha", path="x.md")).used == 1


def test_a_load_that_nothing_followed_is_ignored_where_there_was_something_to_use() -> None:
    assert stats(loaded("alpha"), ran("beta")).ignored == 1
    assert stats(loaded("alpha", resources=0)).ignored == 0
    assert stats(loaded("alpha"), record("skill_unloaded", skill="alpha"), ran("alpha")).ignored == 1


def test_use_in_a_later_turn_of_the_thread_counts_and_calls_of_that_turn_do_not_follow_the_load() -> None:
    seen = stats(loaded("alpha"), ran("alpha", run="a.2"))
    assert (seen.used, seen.ignored) == (1, 0)
    assert dict(seen.followed_by) == {}


def test_failures_are_told_apart_by_script_and_by_how_they_ended() -> None:
    judged = record("call_judged", call_id="c1", args={"path": "scripts/x.py"})
    seen = stats(
        loaded("alpha"),
        judged,
        ran("alpha", 2),
        ran("alpha", 2, time="2026-11-23T11:00:00Z"),
        ran("alpha", None, stopped="timeout"),
    )
    assert (seen.runs, seen.failed) == (3, 3)
    first, second = seen.failures.values()
    assert (first.script, first.how, first.count) == ("scripts/x.py", "exit code 2", 2)
    assert first.last == "2026-11-23T11:00:00Z"
    assert second.how == "stopped: timeout"


def test_a_result_that_was_taken_from_an_earlier_run_is_no_run() -> None:
    assert stats(loaded("alpha"), ran("alpha", reused="2026-11-23T10:00:00Z")).runs == 0


def test_what_a_search_found_and_what_was_refused_counts() -> None:
    search = record("call_ended", tool="search_skills", skill="", found=["alpha", "beta"])
    seen = stats(search, record("skill_refused", skill="alpha"))
    assert (seen.found, seen.refused, seen.loaded) == (1, 1, 0)


def test_one_thread_ends_before_the_next_begins() -> None:
    counting = Counting()
    counting.thread([loaded("alpha")])
    counting.thread([ran("alpha")])
    assert (counting.skills["alpha"].used, counting.skills["alpha"].ignored) == (0, 1)


VALUES = (
    st.none()
    | st.text()
    | st.integers()
    | st.lists(st.text() | st.integers())
    | st.dictionaries(st.text(), st.text())
)
KINDS = (
    "run_started",
    "skill_loaded",
    "skill_unloaded",
    "call_ended",
    "call_judged",
    "model_called",
    "resource_read",
)
FIELDS = (
    "skill",
    "offered",
    "found",
    "resources",
    "characters",
    "tool",
    "exit_code",
    "run_seconds",
    "args",
    "call_id",
    "thread",
)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), VALUES))))
def test_no_record_stops_the_counting(records: list[tuple[str, dict[str, Any]]]) -> None:
    counting = Counting()
    counting.thread({"type": kind, **fields} for kind, fields in records)
    for seen in counting.skills.values():
        assert seen.used + seen.ignored <= seen.loaded
