"""Skills in stores of LangGraph, real ones, with users who are not all friendly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, SearchItem
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources.namespaces import checked_namespace, user_namespace
from skills_agent.sources.store import StoreSource, content_of, publish, value_of
from tests.skills.sources.skill_files import codes, folders, text

ALICE = ("skills", "alice")


def put(store: BaseStore, namespace: tuple[str, ...], key: str = "SKILL.md", content: str = "") -> None:
    store.put(namespace, key, {"content": content or text(namespace[-1])})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    if request.param == "memory":
        yield InMemoryStore()
        return
    with SqliteStore.from_conn_string(str(tmp_path / "store.sqlite")) as sqlite:
        sqlite.setup()
        yield sqlite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a skill folder with a script, a picture and a skill of its own in it."""
    folder = tmp_path / "csv-report"
    for name, content in {
        "SKILL.md": text("csv-report").encode(),
        "scripts/run.py": b"print(1)\r\n",
        "assets/logo.png": b"\x89PNG\xff",
        "assets/zero.txt": b"a\0b",
        "inner/other/SKILL.md": text("other").encode(),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_user_sees_no_skills_of_another(store: BaseStore) -> None:
    for user in ("alice", "alice2", "ALICE", "al", "a*", "al_ce"):
        put(store, ("skills", user, f"of-{user}"))

    assert folders(StoreSource(store, ALICE)) == ["of-alice"]
    assert folders(StoreSource(store, ("skills", "al_ce"))) == ["of-al_ce"]


class OverMatchingStore(InMemoryStore):
    """Answers a search like a store whose prefixes are those of texts."""

    def search(self, namespace_prefix: tuple[str, ...], /, **options: Any) -> list[SearchItem]:
        return super().search(namespace_prefix[:1], **options)


def test_what_a_store_gives_of_other_users_is_left_out() -> None:
    store = OverMatchingStore()
    put(store, ("skills", "alice", "mine"))
    put(store, ("skills", "alice2", "not-mine"))

    assert folders(StoreSource(store, ALICE)) == ["mine"]


@pytest.mark.parametrize(
    "user", ["alice@example.com", "../bob", "a.b", "a/b", "*", "名", "%2E", " x", "a\0b"]
)
def test_any_user_id_has_a_namespace_that_stores_take(store: BaseStore, user: str) -> None:
    namespace = user_namespace(user)
    put(store, (*namespace, "mine"))
    put(store, ("skills", "bob", "not-mine"))

    assert folders(StoreSource(store, namespace)) == ["mine"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_two_user_ids_share_a_namespace(one: str, other: str) -> None:
    namespaces = set()
    for user in {one, other}:
        try:
            namespaces.add(user_namespace(user))
        except SkillError:
            namespaces.add((user,))
    assert len(namespaces) == len({one, other})


@pytest.mark.parametrize("user", ["", "  ", "\n", "\ud800", "x" * 1_000])
def test_a_user_id_that_is_none_is_refused(user: str) -> None:
    with pytest.raises(SkillError, match=r"user id|at most") as caught:
        user_namespace(user)
    assert caught.value.code == "source-address"


@pytest.mark.parametrize(
    "namespace",
    [
        (),
        ("",),
        ("a.b",),
        ("a", ""),
        ("a", "b/c"),
        ("a\0",),
        ("a", "*"),
        ("langgraph", "a"),
        ("x" * 999,),
        "abc",
    ],
)
def test_a_namespace_that_no_store_takes_is_refused_at_once(namespace: tuple[str, ...]) -> None:
    with pytest.raises(SkillError):
        StoreSource(InMemoryStore(), namespace)


@given(st.lists(st.text(max_size=5), max_size=3).map(tuple))
def test_a_namespace_that_passes_is_one_that_stores_take(namespace: tuple[str, ...]) -> None:
    store = InMemoryStore()
    try:
        checked = checked_namespace(namespace)
    except SkillError:
        return

    put(store, checked)

    assert store.get(checked, "SKILL.md")


def test_a_changed_skill_is_seen_at_the_next_refresh_even_within_a_second(store: BaseStore) -> None:
    put(store, (*ALICE, "a"), content=text("a", "one"))
    registry = Registry([StoreSource(store, ALICE)])
    ref = registry.refresh().find("a").ref
    before = registry.sources[0].scan()

    put(store, (*ALICE, "a"), content=text("a", "two"))

    assert registry.sources[0].scan() != before
    assert registry.refresh().find("a").ref == ref
    assert registry.load(ref).instructions.endswith("two")


def test_skills_lie_in_folders_of_any_depth_that_is_searched(store: BaseStore) -> None:
    put(store, (*ALICE, "team", "a"))
    put(store, (*ALICE, *"1234567", "too-deep"))
    source = StoreSource(store, ALICE)

    assert [found.path for found in source.scan().skills] == ["store:skills/alice/team/a/SKILL.md"]
    assert codes(source) == ["scan-limit"]


@pytest.mark.parametrize(
    "key", ["../b/SKILL.md", "x/../../SKILL.md", "/SKILL.md", "a\0/SKILL.md", "\ud800/SKILL.md"]
)
def test_a_key_that_leads_out_is_refused_and_hides_nothing(key: str) -> None:
    store = InMemoryStore()
    put(store, (*ALICE, "a"), key)
    put(store, (*ALICE, "good"))
    source = StoreSource(store, ALICE)

    assert folders(source) == ["good"]
    assert codes(source) == ["file-refused"]


@pytest.mark.parametrize(
    "value",
    [
        {},
        *({"content": content} for content in (None, 5, [1])),
        *({"content": "x", "encoding": encoding} for encoding in ("rot13", ["utf-8"])),
        *({"content": content, "encoding": "base64"} for content in ("no base64", "ü")),
    ],
)
def test_an_item_that_is_no_file_is_reported_and_hides_nothing(
    store: BaseStore, value: dict[str, Any]
) -> None:
    store.put((*ALICE, "bad"), "SKILL.md", value)
    put(store, (*ALICE, "good"))
    source = StoreSource(store, ALICE)
    assert folders(source) == ["good"]
    assert codes(source) == ["file-refused"]
    for number in range(100):
        store.put((*ALICE, "bad"), f"{number}.md", value)
    assert len(source.scan().diagnostics) == 50


@given(st.binary(max_size=200))
def test_a_file_comes_back_as_it_was_stored(content: bytes) -> None:
    assert content_of(value_of(content)) == content


class MoodyStore(InMemoryStore):
    """Raises, while told so, what no one expects of a store."""

    down: Exception | None = None

    def search(self, namespace_prefix: tuple[str, ...], /, **options: Any) -> list[SearchItem]:
        if self.down:
            raise self.down
        return super().search(namespace_prefix, **options)


@pytest.mark.parametrize("error", [RuntimeError("connection is closed"), ConnectionResetError(104, "reset")])
def test_skills_stay_for_a_day_while_the_store_does_not_answer_and_a_refusal_is_believed(
    error: Exception,
) -> None:
    store, now = MoodyStore(), [0.0]
    put(store, (*ALICE, "a"))
    source = StoreSource(store, ALICE, clock=lambda: now[0])
    before = source.scan()
    store.down = error
    during = source.scan()
    assert (during.skills, codes(source)) == (before.skills, ["source-unreachable"])
    assert "as they were last seen" in during.diagnostics[0].message
    now[0] += 24 * 3600
    assert (source.scan().skills, codes(source)) == ((), ["source-unreachable"])
    store.down = None
    assert source.scan() == before
    store.down = PermissionError(13, "Permission denied")
    assert (source.scan().skills, codes(source)) == ((), ["source-unreadable"])


def test_a_published_skill_reads_as_its_folder_without_links_out_of_it(
    store: BaseStore, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    (folder / "secret.md").symlink_to(tmp_path / "secret")
    assert publish(store, ALICE, folder)[-1] == "SKILL.md"
    source = StoreSource(store, ALICE)
    path = source.scan().skills[0].path
    assert source.read(path, 1_000) == (folder / "SKILL.md").read_bytes()
    names = ("assets/logo.png", "assets/zero.txt", "scripts/run.py")
    _, *others = source.fetch(path)
    assert {file.path: file.content for file in others} == {
        name: (folder / name).read_bytes() for name in names
    }


def test_publishing_again_removes_what_the_folder_has_lost(store: BaseStore, folder: Path) -> None:
    publish(store, ALICE, folder)
    put(store, (*ALICE, "csv-report", "inner"))
    put(store, (*ALICE, "other"))
    (folder / "scripts/run.py").unlink()

    publish(store, ALICE, folder)

    source = StoreSource(store, ALICE)
    assert folders(source) == ["csv-report", "inner", "other"]
    paths = [file.path for file in source.fetch(source.scan().skills[0].path)][1:]
    assert paths == ["assets/logo.png", "assets/zero.txt"]


def test_a_folder_that_cannot_be_named_in_a_store_is_not_published(folder: Path) -> None:
    store = InMemoryStore()

    with pytest.raises(SkillError, match="label") as caught:
        publish(store, ALICE, folder.rename(folder.with_name("csv.report")))

    assert caught.value.code == "source-address"
    assert store.search(()) == []
