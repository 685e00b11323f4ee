"""A skill that names its plugin is copied with it, and its digest is that of both."""

from pathlib import Path

import pytest

from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import read_resource
from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources.directory import standard_sources
from tests.agents import write_skill
from tests.skills.library.test_snapshots import by_hand
from tests.skills.sources.test_plugin import MANIFEST

BODY = "Run ${CLAUDE_PLUGIN_ROOT}/scripts/x.py, not ${CLAUDE_SKILL_DIR}/x.py."


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a plugin with the skills `deploy`, which names it, and `alone`."""
    folder = tmp_path / "tools"
    write_skill(folder / "skills", "deploy", "Deploys.", BODY, notes_md="Notes.\n")
    write_skill(folder / "skills", "alone", "Is alone.", scripts__x_py="print('own')\n")
    for path, text in ((MANIFEST, "{}"), ("scripts/x.py", "print(1)\n"), ("docs/help.md", "Help.\n")):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


def registry_of(tmp_path: Path, plugin: Path, **limits: int) -> Registry:
    workspace, home = tmp_path / "work", tmp_path / "home"
    sources = standard_sources(workspace, home, [plugin / "skills"], bundled=False)
    store = SnapshotStore(tmp_path / "cache", limits=ContentLimits(**limits))
    return Registry(sources, snapshots=lambda: store)


def loaded(registry: Registry, name: str = "deploy") -> SkillRef:
    ref = registry.refresh().find(name).ref
    return ref._replace(digest=registry.load(ref).digest)


def test_the_digest_is_that_of_a_folder_with_the_plugin_and_a_link_to_the_skill(
    tmp_path: Path, plugin: Path
) -> None:
    (plugin / "latest").symlink_to("scripts/x.py")
    (plugin / "scripts" / "x.py").chmod(0o755)
    together = tmp_path / "together"
    together.mkdir()
    plugin.rename(together / "plugin")
    (together / "skill").symlink_to("plugin/skills/deploy")
    expected = by_hand(together)
    (together / "plugin").rename(plugin)
    registry = registry_of(tmp_path, plugin)
    ref = loaded(registry)
    assert ref.digest == expected == registry.digest(ref)
    snapshot = registry.snapshot(ref)
    assert by_hand(tmp_path / "cache" / ref.digest) == expected
    assert (snapshot.folder / "SKILL.md").is_file()
    assert snapshot.plugin == tmp_path / "cache" / ref.digest / "plugin"
    assert [each.skill for each in registry.snapshots.cached()] == ["deploy"]


def test_a_skill_that_does_not_name_its_plugin_is_copied_alone(tmp_path: Path, plugin: Path) -> None:
    registry = registry_of(tmp_path, plugin)
    ref = loaded(registry, "alone")
    assert registry.snapshot(ref).plugin is None
    assert ref.digest == by_hand(plugin / "skills" / "alone")
    assert registry.plugin_place(ref) == plugin / "skills" / "alone"
    assert not registry.plugin_note(ref)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("SKILL.md", "Run `python3 ../../scripts/x.py`.\n"),
        ("SKILL.md", "See [help](../../docs/help.md).\n"),
        ("SKILL.md", "First do what ../deploy/SKILL.md says.\n"),
        ("references/more.md", "See ../../../docs/help.md.\n"),
        ("references/more.md", "Run ../../scripts/x.py in the folder of the skill.\n"),
        ("scripts/x.py", 'subprocess.run([HERE + "/../../../scripts/x.py"])\n'),
    ],
)
def test_a_path_above_the_skill_that_is_in_the_plugin_names_it(
    tmp_path: Path, plugin: Path, file: str, text: str
) -> None:
    place = plugin / "skills" / "alone" / file
    place.parent.mkdir(exist_ok=True)
    place.write_text((place.read_text() if place.exists() else "") + text)
    registry = registry_of(tmp_path, plugin)
    ref = loaded(registry, "alone")
    assert registry.snapshot(ref).plugin
    assert read_resource(registry, ref, "../../docs/help.md") == "Help.\n"


@pytest.mark.parametrize(
    "text",
    [
        "'../../lib/x'",
        "cd ../.. and ../alone/scripts/x.py",
        "../../../secret",
        ".../scripts/x.py",
        "../../scripts/x.pyc",
    ],
)
def test_a_path_above_the_skill_that_is_not_in_the_plugin_does_not_name_it(
    tmp_path: Path, plugin: Path, text: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    with (plugin / "skills" / "alone" / "SKILL.md").open("a") as file:
        file.write(text)
    registry = registry_of(tmp_path, plugin)
    ref = loaded(registry, "alone")
    assert registry.snapshot(ref).plugin is None
    assert not registry.plugin_note(ref)
    with pytest.raises(SkillError, match="is not inside the folder"):
        read_resource(registry, ref, "../../docs/help.md")


def test_a_plugin_that_is_too_large_is_left_out_and_that_is_said(tmp_path: Path, plugin: Path) -> None:
    (plugin / "large").write_bytes(b"x" * 500)
    registry = registry_of(tmp_path, plugin, max_bytes=400)
    ref = loaded(registry)
    assert registry.snapshot(ref).plugin is None
    assert ref.digest == by_hand(plugin / "skills" / "deploy")
    note = registry.plugin_note(ref)
    assert note.startswith(f"It is loaded without its plugin, {plugin}: it has more than")
    own = plugin / "skills" / "deploy"
    assert registry.load(ref).instructions == f"Run {own}/scripts/x.py, not {own}/x.py."


def test_files_of_the_plugin_are_read_by_any_spelling_and_nothing_outside(
    tmp_path: Path, plugin: Path
) -> None:
    registry = registry_of(tmp_path, plugin)
    ref = loaded(registry)
    copied = str(registry.snapshot(ref).plugin)
    for spelling in ("${CLAUDE_PLUGIN_ROOT}", "$CLAUDE_PLUGIN_ROOT", str(plugin), copied):
        assert read_resource(registry, ref, f"{spelling}/docs/help.md") == "Help.\n"
        assert read_resource(registry, ref, f"{spelling}/skills/deploy/notes.md") == "Notes.\n"
        with pytest.raises(SkillError, match="is not inside the folder"):
            read_resource(registry, ref, f"{spelling}/../secret")
        with pytest.raises(SkillError, match="has no file"):
            read_resource(registry, ref, f"{spelling}/nothing.md")
    assert read_resource(registry, ref, "../../docs/help.md") == "Help.\n"
    assert read_resource(registry, ref, "notes.md") == "Notes.\n"
    for path in (f"{plugin.parent}/tools2/x", "/etc/passwd", "../../../secret", "notes/../../../../secret"):
        with pytest.raises(SkillError, match="is not inside the folder"):
            read_resource(registry, ref, path)


def test_a_skill_with_a_link_named_skill_is_no_plugin(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "deploy", "Deploys.", plugin__deep__x_md="other")
    (folder / "skill").symlink_to("plugin/deep")
    registry = registry_of(tmp_path, tmp_path)
    ref = loaded(registry)
    assert registry.snapshot(ref).folder == tmp_path / "cache" / ref.digest
