"""Environments of Node packages: from the user's registry alone, by hash, and no code runs on the way."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extras.needs.tests.registry import Registry, needs_npm, npm_registry
from skills_agent.needs.environments import Environments
from skills_agent.needs.gather import gather
from skills_agent.needs.installation import Installation, prepare
from skills_agent.needs.node_files import canonical_lock
from skills_agent.needs.packages import InstallError, listed

pytestmark = needs_npm
HASH = f"sha512-{'A' * 86}=="


@pytest.fixture
def registry() -> Iterator[Registry]:
    with npm_registry() as registry:
        registry.add("inner", "2.5.0")
        registry.add(
            "outer",
            "1.0.0",
            dependencies={"inner": "^2.0.0"},
            bin={"outer-cli": "cli.js"},
            files={"cli.js": "#!/usr/bin/env node\nconsole.log('cli', require('inner'))\n"},
        )
        yield registry


@pytest.fixture
def environments(tmp_path: Path, registry: Registry) -> Environments:
    return Environments(folder=tmp_path / "environments", environment=registry.environment(tmp_path / "home"))


def skill(folder: Path, package: object, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text("---\nname: s\ndescription: S.\n---\n")
    (folder / "package.json").write_text(json.dumps(package))
    for name, text in files.items():
        (folder / name.replace("__", ".").replace("_", "-")).write_text(text)
    return folder


def prepared(environments: Environments, folder: Path) -> Installation:
    return prepare(environments, gather.__wrapped__(folder))


def modules(place: Path) -> list[str]:
    return sorted(each.name for each in (place / "node_modules").iterdir() if each.name[0] != ".")


def lock(entries: dict[str, Any]) -> str:
    return json.dumps({"name": "s", "lockfileVersion": 3, "packages": entries})


@pytest.mark.slow
def test_what_is_approved_is_what_is_installed(environments: Environments, tmp_path: Path) -> None:
    folder = skill(tmp_path / "s", {"dependencies": {"outer": "^1.0.0"}})
    needs = gather.__wrapped__(folder)
    installation = prepare(environments, needs)
    found = [(each.name, each.version, each.digest[:7]) for each in installation.packages]
    assert found == [("inner", "2.5.0", "sha512-"), ("outer", "1.0.0", "sha512-")]
    assert environments.of(needs, "node") is None
    (place,) = Installation(installation.lists).carry_out(environments, needs)
    assert environments.of(needs, "node") == place
    assert modules(place) == ["inner", "outer"]
    ask = ["node", "-p", "require('outer')"]
    assert subprocess.run(ask, cwd=place, capture_output=True, text=True, check=True).stdout == "1.0.0\n"
    assert not list(environments.folder.glob("resolving-*"))


def test_no_script_runs(environments: Environments, registry: Registry, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    scripts = {name: f"touch {ran}-{name}" for name in ("preinstall", "install", "postinstall", "prepare")}
    registry.add("starter", scripts=scripts)
    folder = skill(tmp_path / "s", {"dependencies": {"starter": "*"}, "scripts": scripts})
    installation = prepared(environments, folder)
    assert [each.note for each in installation.packages] == ["its install script is not run"]
    installation.carry_out(environments, gather.__wrapped__(folder))
    assert not list(tmp_path.glob("ran*"))


@pytest.mark.slow
def test_neither_a_skill_nor_a_project_above_says_anything_about_the_registry(
    environments: Environments, registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"name": "top", "workspaces": ["**"]}))
    (tmp_path / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    with npm_registry() as other:
        other.add("outer", "9.0.0")
        package = {"dependencies": {"outer": "*"}, "overrides": {"inner": "9"}, "workspaces": ["*"]}
        npmrc = f"registry={other.address}/\nignore-scripts=false\n"
        folder = skill(tmp_path / "s", package, __npmrc=npmrc)
        installation = prepared(environments, folder)
        (place,) = prepared(environments, folder).carry_out(environments, gather.__wrapped__(folder))
        assert other.requests == []
    assert [each.version for each in installation.packages] == ["2.5.0", "1.0.0"]
    assert modules(place) == ["inner", "outer"]
    assert registry.requests
    assert not (tmp_path / "node_modules").exists()
    assert not (tmp_path / "package-lock.json").exists()


@pytest.mark.parametrize("address", ["git+https://example.com/x.git", "file:../x"])
@pytest.mark.slow
def test_what_comes_from_an_address_is_left_out(
    environments: Environments, registry: Registry, tmp_path: Path, address: str
) -> None:
    registry.add("far")
    folder = skill(tmp_path / "s", {"dependencies": {"far": address, "outer": "1"}})
    installation = prepared(environments, folder)
    assert [each.name for each in installation.packages] == ["inner", "outer"]
    (note,) = installation.notes
    assert address in note
    assert not any("far" in each for each in registry.requests)


@pytest.mark.parametrize(
    "address", ["git+https://127.0.0.1:9/far.git", "file:../../../x", "http://127.0.0.1:9/x.tgz"]
)
@pytest.mark.variants
def test_a_package_that_needs_another_from_an_address_is_refused_and_no_git_is_run(
    environments: Environments, registry: Registry, tmp_path: Path, address: str
) -> None:
    traced = {**environments.environment, "GIT_TRACE": str(tmp_path / "ran")}
    registry.add("sly", dependencies={"far": address})
    folder = skill(tmp_path / "s", {"dependencies": {"sly": "1"}})
    with pytest.raises(InstallError, match="not resolved"):
        prepared(replace(environments, environment=traced), folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("place", "entry", "said"),
    [
        ("inner", {"resolved": "https://evil.example/inner-2.5.0.tgz"}, "takes inner from evil.example"),
        ("inner", {"resolved": "../x", "link": True}, "takes inner from ../x"),
        ("inner", {"link": True}, "takes inner from a link"),
        ("inner", {"resolved": "git+ssh://git@github.com/a/b.git#0"}, "takes inner from github.com"),
        ("inner", {"dependencies": {"far": "https://evil.example/x"}}, "takes far, for inner, from evil"),
        ("inner", {"integrity": None}, "no hash of inner"),
        ("inner", {"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}, "no hash of inner"),
        *((place, {}, "no package") for place in ("../../x", "a/b/c", "/etc", ".")),
    ],
)
def test_a_list_that_leads_elsewhere_is_refused(place: str, entry: dict[str, Any], said: str) -> None:
    entries = {f"node_modules/{place}": {"version": "2.5.0", "integrity": HASH, **entry}}
    with pytest.raises(InstallError) as caught:
        canonical_lock(lock(entries))
    assert said in str(caught.value)


@pytest.mark.slow
def test_another_file_of_the_same_version_is_refused(
    environments: Environments, registry: Registry, tmp_path: Path
) -> None:
    folder = skill(tmp_path / "s", {"dependencies": {"outer": "1"}})
    needs = gather.__wrapped__(folder)
    installation = prepared(environments, folder)
    registry.add("inner", "2.5.0", files={"evil.js": ""})
    with pytest.raises(InstallError, match="not installed"):
        installation.carry_out(environments, needs)
    assert environments.of(needs, "node") is None


def test_without_npm_it_says_so(tmp_path: Path) -> None:
    environments = Environments(folder=tmp_path / "environments", environment={"PATH": str(tmp_path)})
    with pytest.raises(InstallError, match="npm is not installed"):
        environments.resolve(["outer@1"], "node")


def test_parts_for_other_systems_are_not_listed() -> None:
    part = {"version": "1.0.0", "integrity": "sha512-a"}
    entries = {
        "node_modules/here": part,
        "node_modules/there": {**part, "os": ["beos"]},
        "node_modules/not-there": {**part, "cpu": ["!nec"]},
        "node_modules/called": {**part, "name": "other"},
    }
    found = [(each.name, each.note) for each in listed("node", lock(entries))]
    assert found == [("here", ""), ("not-there", ""), ("other", "as called")]
