"""Skills in backends of deepagents, and in one of our own where deepagents is not installed."""

from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import read_resource
from skills_agent.skills.sources.protocol import SkillFile
from skills_agent.sources.backend import BackendSource
from skills_agent.sources.store import StoreSource
from tests.folder_backend import FolderBackend
from tests.skills.sources.skill_files import codes, folders, put, text


@pytest.fixture
def backend(tmp_path: Path) -> FolderBackend:
    """Return a backend with two skills in `/skills`."""
    put(tmp_path / "skills/a")
    put(tmp_path / "skills/b")
    return FolderBackend(tmp_path)


def test_a_skill_of_a_backend_loads_with_its_files(tmp_path: Path, backend: FolderBackend) -> None:
    (tmp_path / "skills/a/notes.md").write_text("# Notes\n")
    registry = Registry([BackendSource(backend, "sandbox")])
    ref = registry.refresh().find("a").ref
    assert ref.path == "sandbox:/skills/a/SKILL.md"
    assert registry.load(ref).instructions == "Do it."
    assert read_resource(registry, ref, "notes.md") == "# Notes\n"
    assert (registry.place(ref) / "SKILL.md").is_file()


@pytest.mark.parametrize("dated", [True, False])
def test_a_change_is_seen_whether_or_not_the_backend_tells_when(tmp_path: Path, dated: bool) -> None:
    backend = FolderBackend(tmp_path, dated=dated)
    put(tmp_path / "skills/a", rest="one")
    source = BackendSource(backend, "sandbox")
    before = source.scan()
    assert source.scan() == before

    put(tmp_path / "skills/a", rest="other")

    assert source.scan() != before


def test_only_the_named_folder_is_searched(tmp_path: Path, backend: FolderBackend) -> None:
    put(tmp_path / "memories/m")
    assert folders(BackendSource(backend, "sandbox")) == ["a", "b"]
    assert folders(BackendSource(backend, "sandbox", path="/skills/a/")) == ["a"]
    assert folders(BackendSource(backend, "sandbox", path="/")) == ["m", "a", "b"]
    assert codes(BackendSource(backend, "sandbox", path="/nothing")) == ["source-missing"]


@pytest.mark.parametrize("failing", ["/skills", "/skills/a"])
def test_nothing_is_kept_of_a_backend_that_does_not_answer_or_in_part(
    backend: FolderBackend, failing: str
) -> None:
    source = BackendSource(backend, "sandbox")
    source.scan()
    backend.failing = {failing}
    assert folders(source) == []
    assert codes(source) == ["source-unreachable"]


def test_a_file_that_is_refused_is_an_os_error(backend: FolderBackend) -> None:
    backend.failing = {"/skills/a/SKILL.md"}
    source = BackendSource(backend, "sandbox")
    with pytest.raises(PermissionError):
        source.read(source.scan().skills[0].path, 100)
    statuses = {entry.name: entry.status for entry in Registry([source]).refresh().entries}
    assert statuses == {"a": "skipped", "b": "shown"}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/skills/../x/SKILL.md", "/skillsets/x/SKILL.md", "/skills/x\0/SKILL.md", ""]
)
def test_an_entry_that_is_not_beneath_the_folder_is_refused(backend: FolderBackend, path: str) -> None:
    backend.extra = [{"path": path}, {"path": f"{path}/", "is_dir": True}]
    source = BackendSource(backend, "sandbox")

    assert folders(source) == ["a", "b"]
    assert set(codes(source)) == {"file-refused"}


def test_a_backend_whose_folders_hold_themselves_ends(tmp_path: Path, backend: FolderBackend) -> None:
    (tmp_path / "skills/a/again").symlink_to(tmp_path / "skills/a")
    source = BackendSource(backend, "sandbox")

    assert folders(source)[0] == "a"
    assert set(codes(source)) == {"scan-limit"}


# deepagents itself


@pytest.fixture
def deepagents() -> Any:
    """Return the backends of deepagents."""
    return pytest.importorskip("deepagents.backends", reason="the extra `deepagents` is not installed")


class Files(TypedDict, total=False):
    files: Annotated[dict[str, Any], lambda old, new: {**(old or {}), **new}]
    found: list[str]


def test_skills_of_the_run_that_asks_are_found_in_its_state(deepagents: Any) -> None:
    source = BackendSource(deepagents.StateBackend(), "state")
    registry = Registry([source])

    def discover(state: Files) -> Files:
        catalog = registry.refresh()
        return {"found": [registry.load(skill.ref).instructions for skill in catalog.skills]}

    built = StateGraph(Files)
    built.add_node("discover", discover)
    built.add_edge(START, "discover")
    graph = built.compile()
    for word in ("one", "two"):
        file = {"content": text("a", word), "encoding": "utf-8"}
        assert graph.invoke({"files": {"/skills/a/SKILL.md": file}})["found"] == [f"Do it.\n{word}"]
    assert source.scan().skills == ()
    assert codes(source) == ["source-unreachable"]


def test_a_store_backend_and_a_store_source_see_the_same_skills(deepagents: Any) -> None:
    store, namespace = InMemoryStore(), ("skills", "alice")
    backend = deepagents.StoreBackend(store=store, namespace=lambda _: namespace)
    backend.upload_files([("/skills/a/SKILL.md", text("a").encode()), ("/skills/a/logo.png", b"\x89PNG\xff")])
    for source in (BackendSource(backend, "backend", path="/"), StoreSource(store, namespace)):
        path = source.scan().skills[0].path
        assert source.read(path, 1_000) == text("a").encode()
        assert [*source.fetch(path)][1] == SkillFile("logo.png", b"\x89PNG\xff")


def test_a_link_out_of_a_confined_backend_is_not_read(deepagents: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root / "skills/a")
    (tmp_path / "secret.md").write_text("secret")
    (root / "skills/a/link.md").symlink_to(tmp_path / "secret.md")
    source = BackendSource(deepagents.FilesystemBackend(root_dir=root, virtual_mode=True), "files")

    assert [file.path for file in source.fetch(source.scan().skills[0].path)] == ["SKILL.md"]
