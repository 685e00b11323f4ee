"""Make what others install from, of the skills in skills/: signatures, archives and two indexes.

    python publish.py                                    # pack again; the signatures stay
    python publish.py --key ~/.ssh/id_ed25519            # and sign

Only the command skills-agent does anything to a skill; this program writes down what it says.
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
SIGNER = "publisher@example.org"


def main() -> None:
    """Publish the skills beside this file."""
    arguments = argparse.ArgumentParser(description="Pack, sign and list the skills in skills/.")
    arguments.add_argument("--key", type=Path, help="sign by this private key of SSH")
    publish(arguments.parse_args().key)


def publish(key: Path | None) -> None:
    """Sign if there is a key, pack, and write the indexes."""
    if key:
        folders = (f"skills/{each.parent.name}" for each in sorted(HERE.glob("skills/*/SKILL.md")))
        _call("publish", "pack", "--sign", "--json", "--key", str(key), *folders)
        _allow(key)
    found = _call("skills", "install", "./skills", "--all", "--dry-run", "--json")
    if found["passed_over"]:
        raise SystemExit("\n".join(found["passed_over"]))
    skills: list[dict[str, Any]] = found["skills"]
    Path(HERE, "archives").mkdir(exist_ok=True)
    for each in skills:
        each["archive"] = f"archives/{each['name']}-{each['version'] or '0'}.skill"
        packed = _call("publish", "pack", f"skills/{each['path']}", "-o", each["archive"], "--json")
        each["sha256"] = packed["sha256"]
    _write(".well-known/agent-skills/index.json", {"$schema": SCHEMA, "skills": [_found(s) for s in skills]})
    _write(".claude-plugin/marketplace.json", _marketplace(skills))
    for each in skills:
        print(f"{each['name']} {each['version']}  {each['archive']}  sha256:{each['sha256']}")


def _found(skill: dict[str, Any]) -> dict[str, str]:
    """Return an entry for `skills-agent skills install https://HOST`, and for other clients."""
    return {
        "name": skill["name"],
        "type": "archive",
        "description": skill["description"],
        "url": f"../../{skill['archive']}",  # relative to the index: a site may lie below its host
        "digest": f"sha256:{skill['sha256']}",
    }


def _marketplace(skills: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the index for Claude Code: one plugin with all skills."""
    plugin = {
        "name": "skills",
        "description": "The skills of this repository.",
        "source": "./",
        "strict": False,
        "skills": [f"./skills/{each['path']}" for each in skills],
    }
    return {"name": "skills-repo", "owner": {"name": SIGNER}, "plugins": [plugin]}


def _allow(key: Path) -> None:
    """Say to whoever installs by which key the skills are signed."""
    kind, public, *_ = key.with_name(f"{key.name}.pub").read_text().split()
    line, file = f'{SIGNER} namespaces="agent-skills" {kind} {public}\n', Path(HERE, "allowed_signers")
    before = file.read_text() if file.exists() else ""
    if line not in before:
        file.write_text(before + line)


def _call(*words: str) -> Any:
    """Return what a command of `skills-agent` prints as JSON; end with what it says if it fails."""
    program = shutil.which("skills-agent") or "skills-agent"
    done = subprocess.run([program, *words], cwd=HERE, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"skills-agent {' '.join(words)}: exit {done.returncode}")
    return json.loads(done.stdout)


def _write(path: str, index: dict[str, Any]) -> None:
    file = Path(HERE, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(index, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
