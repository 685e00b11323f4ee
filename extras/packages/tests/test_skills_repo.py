"""examples/skills-repo, with the bundled skills in it: they are published, checked, and installed from it.

Over a real HTTPS server and a real git server, with the commands that its README and docs/packages.md show.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extras.packages.tests.signers import make_key
from tests.graph.cli.command_line import CommandLine
from tests.machine import needs_bwrap
from tests.raw_servers import certify
from tests.web_server import WebFolder, serving

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLE = PROJECT / "examples" / "skills-repo"
BUNDLED = PROJECT / "skills" / "bundled"
WORKFLOW = ".github/workflows/skills.yml"
SIGNER = "publisher@example.org"

pytestmark = pytest.mark.slow


class Publisher:
    """Somebody with a copy of the example, and a key of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.key = make_key(place / "keys" / "publisher")
        self.folder = place / "project" / "examples" / "skills-repo"
        shutil.copytree(EXAMPLE, self.folder)
        shutil.copytree(BUNDLED, place / "project" / "skills" / "bundled")
        done = self.run("skills-agent skills install ../../skills/bundled --all --yes --to skills")
        assert done.returncode == 0, done.stderr

    @property
    def signers(self) -> str:
        """What an installer trusts."""
        return (self.folder / "allowed_signers").read_text()

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell in the folder, with the commands of this environment."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        variables = {**os.environ, "PATH": path, "HOME": str(self.place / "home")}
        return subprocess.run(
            ["sh", "-ec", command], cwd=self.folder, env=variables, capture_output=True, text=True
        )

    def publish(self, *options: str) -> None:
        """Sign, pack, and write the indexes."""
        done = self.run(shlex.join(["python", "publish.py", "--key", str(self.key), *options]))
        assert done.returncode == 0, done.stderr

    def read_index(self, path: str) -> Any:
        return json.loads((self.folder / path).read_text())

    def write_version(self, version: str) -> None:
        """Change a skill: its version, and a line of its text."""
        file = self.folder / "skills" / "text-stats" / "SKILL.md"
        text = file.read_text().replace('version: "1.0"', f'version: "{version}"')
        file.write_text(f"{text}\nOf version {version}.\n")


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path / "publisher")


@pytest.fixture
def site(publisher: Publisher, tmp_path: Path) -> Iterator[WebFolder]:
    context = certify(tmp_path)
    with serving(publisher.folder, context) as web:
        publisher.publish()
        yield web


def allow(cli: CommandLine, signers: str) -> None:
    """Trust these signers, and require a signature."""
    folder = cli.home / ".config/skills-agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "allowed_signers").write_text(signers)
    (folder / "allowed_signers").chmod(0o600)
    (folder / "config.toml").write_text("packages_require_signature = true\n")


def test_a_clone_is_installed_from_by_its_signature(cli: CommandLine, publisher: Publisher) -> None:
    publisher.publish()
    names = [each.parent.name for each in sorted(BUNDLED.glob("*/SKILL.md"))]
    [plugin] = publisher.read_index(".claude-plugin/marketplace.json")["plugins"]
    assert plugin["skills"] == [f"./skills/{name}" for name in names]
    found = publisher.read_index(".well-known/agent-skills/index.json")["skills"]
    assert [each["name"] for each in found] == names
    install = ("skills", "install", str(publisher.folder), "--skill", "decision-record", "--yes")
    allow(cli, "")
    assert cli.run(*install).code == 1  # nobody vouches for that key here
    allow(cli, publisher.signers)
    done = cli.run(*install)
    assert done.code == 0, done.err
    assert f"signed by {SIGNER}" in done.out
    assert "decision-record  same" in cli.run("skills", "install", "--locked", "--check").out
    assert cli.run("skills", "update", "--check").code == 0


def test_a_skill_of_the_site_is_installed_verified_updated_and_removed(
    cli: CommandLine, publisher: Publisher, site: WebFolder, tmp_path: Path
) -> None:
    ca = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
    allow(cli, publisher.signers)
    source = [site.url, "--skill", "text-stats"]
    assert "certificate verify failed" in cli.run("skills", "install", *source, "--yes").err
    done = cli.run("skills", "install", *source, "--yes", **ca)
    assert done.code == 0, done.err
    assert f"signed by {SIGNER}" in done.out
    assert cli.run("skills", "update", "--check", **ca).code == 0
    publisher.write_version("1.1")
    publisher.publish()
    done = cli.run("skills", "update", "--yes", **ca)
    assert done.code == 0, done.err
    assert "+Of version 1.1." in done.out
    assert cli.run("skills", "remove", "text-stats", "--yes").code == 0
    assert "0 skills" in cli.run("skills", "install", "--locked", "--check").out
    archive = [f"{site.url}/archives/text-stats-1.0.skill", "--yes"]
    assert f"signed by {SIGNER}" in cli.run("skills", "install", *archive, **ca).out


def steps() -> list[str]:
    """Return what the checks of the workflow run, but for what installs something, or is GitHub's own."""
    job = yaml.safe_load((EXAMPLE / WORKFLOW).read_text())["jobs"]["check"]
    commands = [each["run"] for each in job["steps"] if "run" in each]
    others = ("pip install", "apt-get", "GITHUB_")
    return [each for each in commands if not any(word in each for word in others)]


@needs_bwrap
def test_the_workflow_passes_and_finds_what_is_not_published(publisher: Publisher) -> None:
    publisher.publish()
    assert len(steps()) == 5
    begin = "git init -q . && git add . && git -c user.name=a -c user.email=a@b.c commit -qm all"
    assert publisher.run(begin).returncode == 0
    for step in steps():
        done = publisher.run(step)
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    publisher.write_version("1.1")
    assert [publisher.run(step).returncode for step in steps()] == [0, 0, 1, 0, 1]
