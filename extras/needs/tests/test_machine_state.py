"""Which needs this machine does not meet, and what would bring them."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from skills_agent.needs.environments import Environments
from skills_agent.needs.machine import ThisMachine
from skills_agent.skills.machine import Missing
from skills_agent.skills.skill import Need, SkillRef

REF = SkillRef("s", "user", "/s/SKILL.md")


def program(folder: Path, name: str) -> None:
    folder.mkdir(mode=0o755, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def distribution(folder: Path, name: str, version: str) -> None:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def machine(
    folder: Path,
    variables: Mapping[str, str] | None = None,
    secrets: Mapping[str, Collection[str]] | None = None,
    servers: Collection[str] = (),
) -> ThisMachine:
    environment = {"PATH": str(folder), **(variables or {})}
    environments = Environments(folder=folder / "environments", environment=environment)
    return ThisMachine(
        environment=environment, secrets=secrets or {}, servers=servers, environments=environments
    )


def test_programs_are_looked_for_in_path(tmp_path: Path) -> None:
    program(tmp_path / "bin", "here-it-is")
    needs = [
        Need("program", "here-it-is"),
        Need("program", "gone", instead=("here-it-is",)),
        Need("program", "gone"),
        Need("program", "python", ">=2"),
        Need("program", "python", ">=99"),
    ]
    missing = machine(tmp_path / "bin").missing(needs, REF, trusted=True)
    assert [each.need.specifier or each.need.name for each in missing] == ["gone", ">=99"]
    assert "is here" in missing[1].text


def test_packages_are_held_against_name_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skills_agent.needs.machine.package_folders", lambda: (str(tmp_path),))
    distribution(tmp_path, "Some_Package", "1.5")
    (tmp_path / "modulename.py").write_text("")
    needs = [
        Need("python", "some-package"),
        Need("python", "some-package", ">=1,<2"),
        Need("python", "some-package", ">=2"),
        Need("python", "some-package", "^2"),
        Need("python", "of-another-name", module="modulename"),
        Need("python", "gone"),
        Need("python", "gone", marker="sys_platform == 'never'"),
    ]
    missing = machine(tmp_path).missing(needs, REF, trusted=True)
    assert [each.text for each in missing] == ["some-package>=2 (1.5 is here)", "gone"]


def test_a_variable_counts_where_the_skill_gets_it(tmp_path: Path) -> None:
    needs = [Need("variable", name) for name in ("HOME", "GIVEN", "KEPT", "UNSET")]
    here = machine(tmp_path, {"GIVEN": "x", "KEPT": "x"}, {"s": ["GIVEN", "UNSET"]})
    found = [each.text for each in here.missing(needs, REF, trusted=True)]
    assert found == ["KEPT (set, and not given to this skill)", "UNSET"]
    assert len(here.missing(needs, REF, trusted=False)) == 3


@pytest.mark.skipif("sys.platform == 'darwin'")
def test_one_command_brings_all_of_a_kind(tmp_path: Path) -> None:
    program(tmp_path / "bin", "apt-get")
    programs = [Need("program", name) for name in ("pdftoppm", "pdftotext", "uvx", "pnpm", "strange")]
    others = [Need("python", "pandas"), Need("variable", "A_KEY"), Need("server", "rube")]
    missing = [Missing(need) for need in [*programs, *others]]
    assert machine(tmp_path / "bin").remedies(missing, REF) == [
        "skills-agent doctor s --install",
        "sudo apt-get install poppler-utils",
        "pip install uv",
        "npm install -g pnpm",
        "install strange as its makers say",
        'set A_KEY, and the setting script_secrets: s = ["A_KEY"]',
        "an MCP server rube in the setting mcp_servers",
    ]
