"""Which folder above a skill is its plugin, and which is none."""

from pathlib import Path

import pytest

from skills_agent.skills.sources.directory import DirectorySource, project_source, standard_sources
from skills_agent.skills.sources.plugin import Plugin
from tests.agents import write_skill

MANIFEST = ".claude-plugin/plugin.json"


def make_plugin(folder: Path, manifest: str = MANIFEST) -> Path:
    """Write a plugin with the skill `deploy`; return the path of its SKILL.md."""
    (folder / manifest).parent.mkdir(parents=True, exist_ok=True)
    (folder / manifest).write_text('{"name": "tools"}')
    return write_skill(folder / "skills", "deploy", "Deploys.") / "SKILL.md"


def configured(folder: Path, workspace: Path, home: Path) -> DirectorySource:
    return standard_sources(workspace, home, [folder], bundled=False)[-1]


@pytest.fixture
def home(workspace: Path) -> Path:
    return workspace.parent / "home"


@pytest.mark.parametrize("manifest", [MANIFEST, "plugin.json"])
@pytest.mark.parametrize("inside", ["", "tools", "tools/skills", "tools/skills/deploy"])
def test_the_plugin_of_a_configured_skill_is_in_its_source_or_two_folders_above(
    tmp_path: Path, workspace: Path, home: Path, manifest: str, inside: str
) -> None:
    path = make_plugin(tmp_path / "plugins" / "tools", manifest)
    source = configured(tmp_path / "plugins" / inside, workspace, home)
    assert source.plugin(str(path)) == Plugin(tmp_path / "plugins" / "tools", "apart")


def test_the_nearest_folder_with_a_manifest_counts(tmp_path: Path, workspace: Path, home: Path) -> None:
    path = make_plugin(tmp_path / "all" / "tools")
    make_plugin(tmp_path / "all")
    deep = write_skill(path.parent.parent / "more", "deep", "Is deep.") / "SKILL.md"
    source = configured(tmp_path / "all", workspace, home)
    assert source.plugin(str(path)) == Plugin(tmp_path / "all" / "tools", "apart")
    assert configured(deep.parent.parent, workspace, home).plugin(str(deep))
    assert configured(deep.parent, workspace, home).plugin(str(deep)) is None  # three folders above
    make_plugin(path.parent)
    assert source.plugin(str(path)) == Plugin(path.parent, "apart")


@pytest.mark.parametrize("link", [MANIFEST, ".claude-plugin"])
def test_a_manifest_behind_a_link_makes_no_plugin(
    tmp_path: Path, workspace: Path, home: Path, link: str
) -> None:
    make_plugin(tmp_path / "elsewhere")
    path = write_skill(tmp_path / "tools" / "skills", "deploy", "Deploys.") / "SKILL.md"
    place = tmp_path / "tools" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere" / link)
    assert configured(tmp_path / "tools" / "skills", workspace, home).plugin(str(path)) is None


def test_no_plugin_is_reached_through_a_link(tmp_path: Path, workspace: Path, home: Path) -> None:
    make_plugin(tmp_path / "tools")
    elsewhere = write_skill(tmp_path / "elsewhere", "other", "Is elsewhere.")
    (tmp_path / "tools" / "more").symlink_to(elsewhere.parent)
    source = configured(tmp_path / "tools" / "more", workspace, home)
    assert source.plugin(str(source.folder / "other" / "SKILL.md")) is None


@pytest.mark.parametrize("wide", ["", "home"])
def test_what_holds_the_workspace_or_the_home_folder_is_not_copied(tmp_path: Path, wide: str) -> None:
    workspace, home = tmp_path / "work", tmp_path / "home" / "ann"
    for folder in (workspace, home):
        folder.mkdir(parents=True)
    path = make_plugin(tmp_path / wide)
    source = configured(tmp_path / wide / "skills", workspace, home)
    assert source.plugin(str(path)) == Plugin(tmp_path / wide, "wide")


def test_the_folder_of_a_client_is_no_plugin(workspace: Path, home: Path) -> None:
    path = make_plugin(home / ".claude")
    sources = standard_sources(workspace, home, [home / ".claude" / "skills"], bundled=False)
    assert [source.plugin(str(path)) for source in sources if source.claims(str(path))] == [None]


def test_the_plugin_of_an_untrusted_skill_is_in_the_workspace(tmp_path: Path, workspace: Path) -> None:
    inside = make_plugin(workspace / "vendor" / "tools")
    outside = make_plugin(tmp_path / "elsewhere" / "tools")
    for path, plugin in ((inside, Plugin(workspace / "vendor" / "tools", "apart")), (outside, None)):
        assert project_source(workspace, path.parent.parent, "configured").plugin(str(path)) == plugin
    everything = project_source(workspace, tmp_path / "elsewhere", "configured")
    assert everything.plugin(str(outside)) is None


@pytest.mark.parametrize(("above", "below", "state"), [(0o777, 0o755, "open"), (0o777, 0o777, "apart")])
def test_a_folder_above_the_source_that_others_can_write_to_is_not_believed(
    tmp_path: Path, workspace: Path, home: Path, above: int, below: int, state: str
) -> None:
    path = make_plugin(tmp_path / "tools")
    (tmp_path / "tools").chmod(above)
    (tmp_path / "tools" / "skills").chmod(below)
    plugin = configured(tmp_path / "tools" / "skills", workspace, home).plugin(str(path))
    assert plugin is not None
    assert plugin.state == state
