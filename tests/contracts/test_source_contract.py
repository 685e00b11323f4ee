"""What every source of skills promises, held against each of them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.sources import DirectorySource, MemorySource, SkillFile, Source

Tree = Mapping[str, Mapping[str, str | bytes]]
MakeSource = Callable[[Tree], Source]

SKILL = "---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n"
TREE: Tree = {
    "csv-report": {
        "SKILL.md": SKILL.format(name="csv-report"),
        "scripts/profile.py": "print(1)\n",
        "references/deep/notes.md": "# Notes\n",
        "README.md": b"\xff\xfe\x00",
    },
    "release-notes": {"SKILL.md": SKILL.format(name="release-notes")},
    "no-skill": {"README.md": "nothing here"},
}


def in_memory(tmp_path: Path) -> MakeSource:
    del tmp_path
    return lambda tree: MemorySource(tree, "mine")


def on_disk(tmp_path: Path) -> MakeSource:
    def make(tree: Tree) -> Source:
        for folder, files in tree.items():
            for relative, content in files.items():
                path = tmp_path / folder / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return DirectorySource(tmp_path, "mine")

    return make


@pytest.fixture(params=[in_memory, on_disk])
def make_source(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSource:
    made: MakeSource = request.param(tmp_path)
    return made


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def path_of(source: Source, folder: str) -> str:
    return next(found.path for found in source.scan().skills if found.folder == folder)


def test_a_scan_finds_every_skill_in_path_order_and_again(make_source: MakeSource) -> None:
    source = make_source(TREE)
    scan = source.scan()
    assert [found.folder for found in scan.skills] == ["csv-report", "release-notes"]
    assert [found.path for found in scan.skills] == sorted({found.path for found in scan.skills})
    sizes = [len(TREE[folder]["SKILL.md"]) for folder in ("csv-report", "release-notes")]
    assert [found.size for found in scan.skills] == sizes
    assert scan.diagnostics == ()
    assert source.scan() == scan


@pytest.mark.parametrize("own", ["scripts", "references", "assets", "evals"])
def test_what_a_skill_keeps_in_its_folders_is_no_skill(make_source: MakeSource, own: str) -> None:
    inner = {"SKILL.md": SKILL.format(name="inner"), "notes.md": "n"}
    tree = {
        "outer": {
            "SKILL.md": SKILL.format(name="outer"),
            **{f"{own}/inner/{name}": content for name, content in inner.items()},
        },
        own: {"SKILL.md": SKILL.format(name=own)},
    }
    source = make_source(tree)
    assert {found.folder for found in source.scan().skills} == {"outer", own}
    fetched = {file.path for file in source.fetch(path_of(source, "outer"))}
    assert fetched == {"SKILL.md", f"{own}/inner/SKILL.md", f"{own}/inner/notes.md"}


def test_a_changed_file_has_another_stamp(make_source: MakeSource) -> None:
    before = make_source(TREE).scan().skills
    changed = {**TREE, "csv-report": {"SKILL.md": SKILL.format(name="csv-report") + "More.\n"}}
    after = make_source(changed).scan().skills
    assert before[0].stamp != after[0].stamp
    assert before[1].path == after[1].path


def test_an_empty_source_has_nothing_to_report(make_source: MakeSource) -> None:
    scan = make_source({}).scan()
    assert scan.skills == ()
    assert scan.diagnostics == ()


def test_a_skill_is_read_up_to_the_limit(make_source: MakeSource) -> None:
    source = make_source(TREE)
    path = path_of(source, "csv-report")
    assert source.read(path, 1_000) == SKILL.format(name="csv-report").encode()
    assert source.read(path, 3) == b"---"
    root = source.root(path)
    assert root is None or os.fspath(root / "SKILL.md") == path


def test_a_skill_is_fetched_whole_and_is_one_snapshot(make_source: MakeSource, tmp_path: Path) -> None:
    source = make_source(TREE)
    fetched = list(source.fetch(path_of(source, "csv-report")))
    wanted = {path: as_bytes(content) for path, content in TREE["csv-report"].items()}
    assert {file.path: file.content for file in fetched} == wanted
    assert fetched[0].path == "SKILL.md"
    assert [file.path for file in source.fetch(path_of(source, "release-notes"))] == ["SKILL.md"]
    store = SnapshotStore(tmp_path / "snapshots")
    snapshot = store.put(fetched)
    assert snapshot == store.put([SkillFile(*each) for each in wanted.items()])
    assert (snapshot.folder / "scripts" / "profile.py").read_bytes() == b"print(1)\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "elsewhere/SKILL.md", "", "mine:../x/SKILL.md"])
def test_a_path_that_is_not_of_the_source_is_an_os_error(make_source: MakeSource, path: str) -> None:
    source = make_source(TREE)
    with pytest.raises(OSError):
        source.read(path, 100)
    with pytest.raises(OSError):
        list(source.fetch(path))
