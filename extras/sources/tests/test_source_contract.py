"""The contract of sources, held against those that are no folder on disk."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from skills_agent.skills.sources import Source
from skills_agent.sources.backend import BackendSource
from skills_agent.sources.remote import RemoteSource
from skills_agent.sources.store import StoreSource, value_of
from tests.contracts import test_source_contract
from tests.contracts.test_source_contract import MakeSource, Tree, as_bytes
from tests.folder_backend import FolderBackend
from tests.web_server import serving

# Every test of the suite, also those that are written later: they take the fixture of this module.
globals().update(
    {name: test for name, test in vars(test_source_contract).items() if name.startswith("test_")}
)

OpenSource = Callable[[Path, ExitStack], MakeSource]


def flat(tree: Tree) -> dict[str, bytes]:
    """Return the files of a tree by their paths."""
    return {
        f"{folder}/{relative}": as_bytes(content)
        for folder, files in tree.items()
        for relative, content in files.items()
    }


def write(tree: Tree, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for relative, content in flat(tree).items():
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        (folder / relative).write_bytes(content)
    return folder


def store_source(store: BaseStore) -> MakeSource:
    def make(tree: Tree) -> Source:
        for path, content in flat(tree).items():
            folder, _, relative = path.partition("/")
            store.put(("skills", "alice", folder), relative, value_of(content))
        return StoreSource(store, ("skills", "alice"), "mine")

    return make


def in_a_memory_store(tmp_path: Path, stack: ExitStack) -> MakeSource:
    del tmp_path, stack
    return store_source(InMemoryStore())


def in_a_sqlite_store(tmp_path: Path, stack: ExitStack) -> MakeSource:
    store = stack.enter_context(SqliteStore.from_conn_string(str(tmp_path / "store.sqlite")))
    store.setup()
    return store_source(store)


def in_remote_memory(tmp_path: Path, stack: ExitStack) -> MakeSource:
    memory = pytest.importorskip("fsspec", reason="the extra `remote` is not installed").filesystem("memory")
    root = tmp_path.as_posix()
    memory.makedirs(root)
    stack.callback(memory.rm, root, recursive=True)

    def make(tree: Tree) -> Source:
        for path, content in flat(tree).items():
            memory.pipe_file(f"{root}/{path}", content)
        return RemoteSource(f"memory:/{root}", "mine")

    return make


def in_a_zip(tmp_path: Path, stack: ExitStack) -> MakeSource:
    pytest.importorskip("fsspec", reason="the extra `remote` is not installed")

    def make(tree: Tree) -> Source:
        with zipfile.ZipFile(tmp_path / "skills.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in flat(tree).items():
                archive.writestr(path, content)
        return RemoteSource(f"zip://::{tmp_path}/skills.zip", "mine")

    return make


def on_the_web(tmp_path: Path, stack: ExitStack) -> MakeSource:
    pytest.importorskip("aiohttp", reason="the extra `remote` is not installed")
    (tmp_path / "skills").mkdir()
    web = stack.enter_context(serving(tmp_path))

    def make(tree: Tree) -> Source:
        write(tree, tmp_path / "skills")
        return RemoteSource(f"{web.url}/skills/", "mine")

    return make


def in_a_backend(tmp_path: Path, stack: ExitStack) -> MakeSource:
    return lambda tree: BackendSource(FolderBackend(write(tree, tmp_path)), "mine", path="/")


def in_deepagents(tmp_path: Path, stack: ExitStack) -> MakeSource:
    backends = pytest.importorskip("deepagents.backends", reason="the extra `deepagents` is not installed")
    backend = backends.FilesystemBackend(root_dir=tmp_path, virtual_mode=True)

    def make(tree: Tree) -> Source:
        write(tree, tmp_path / "skills")
        return BackendSource(backend, "mine")

    return make


STORES = [in_a_memory_store, in_a_sqlite_store]


@pytest.fixture(params=[*STORES, in_remote_memory, in_a_zip, on_the_web, in_a_backend, in_deepagents])
def make_source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeSource]:
    open_source: OpenSource = request.param
    with ExitStack() as stack:
        yield open_source(tmp_path, stack)
