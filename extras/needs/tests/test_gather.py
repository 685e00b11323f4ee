"""Everything that a skill needs, from all of its files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.gather import MAX_FILE, MAX_READ, gather_now
from skills_agent.needs.instructions import needs_shown, packages_installed
from skills_agent.needs.node_files import is_version
from skills_agent.needs.python_files import project_needs, requirements_in, script_needs

HEAD = "---\nname: s\ndescription: d\n---\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"SKILL.md": HEAD, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def named(folder: Path) -> dict[str, str]:
    return {need.name: need.said for need in gather_now(folder)}


def test_every_place_is_read_and_named(tmp_path: Path) -> None:
    skill = write(
        tmp_path,
        {
            "SKILL.md": "---\nname: s\ndescription: d\ncompatibility: Requires pandoc\n---\n# S\n\n"
            "```bash\npip install tabulate\njq . a.json | tee b\n```\n\n```python\nimport nothing\n```\n",
            "requirements.txt": "pandas>=2\n",
            "scripts/requirements.txt": "lxml\n",
            "scripts/draw.py": "# /// script\n# dependencies = ['plotly']\n# ///\nimport plotly\n",
            "scripts/read.py": "import bs4\nimport shared\nimport json\nimport pandas\n",
            "scripts/shared.py": "import unheard_of\n",
            "scripts/build.sh": "echo\n",
            "assets/template.py": "import torch\n",
            "package.json": '{"dependencies": {"hjson": "^3.2.2", "own": "file:../x"}}',
        },
    )
    assert named(skill) == {
        "pandoc": "compatibility",
        "pandas": "requirements.txt:1",
        "lxml": "scripts/requirements.txt:1",
        "hjson": "package.json",
        "own": "package.json",
        "bash": "scripts/build.sh",
        "tabulate": "SKILL.md:9",
        "jq": "SKILL.md:10",
        "plotly": "scripts/draw.py",
        "beautifulsoup4": "scripts/read.py:1",
        "unheard_of": "scripts/shared.py:1",
    }


def test_what_lies_in_the_skill_or_its_plugin_is_no_need(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    source = "import sanitize_core\nimport linked\nimport above\nimport stranger\n"
    skill = write(plugin / "skills/s", {"scripts/run.py": source, "lib/sanitize_core.py": ""})
    (plugin / "lib").mkdir()
    (plugin / "lib/above.py").touch()
    (skill / "scripts/linked.py").symlink_to("../lib/sanitize_core.py")
    needs = [need.name for need in gather_now(skill, plugin=plugin) if need.kind == "python"]
    assert needs == ["stranger"]


def test_what_a_script_does_without_is_optional_and_what_it_installs_names_its_module(tmp_path: Path) -> None:
    source = "try:\n    import fitz\nexcept ImportError:\n    fitz = None\nimport hcl2\n"
    skill = write(tmp_path, {"scripts/run.py": f"{source}sys.exit('pip install python-hcl2')\n"})
    found = [(need.name, need.optional) for need in gather_now(skill)]
    assert found == [("python-hcl2", False), ("pymupdf", True)]


def test_only_names_and_versions_are_taken_of_requirements() -> None:
    text = (
        "--index-url https://evil.example/simple\n-r ../../../etc/passwd\n-e .\n"
        "good[extra]~=1.2  # comment\n"
        "bad @ https://evil.example/bad.whl\ngit+https://evil.example/x\n./local.whl\n"
        "hashed==1.0 --hash=sha256:00 \\\nwindows; sys_platform == 'win32'\n"
    )
    needs = [(need.name, need.specifier, need.marker) for need in requirements_in(text, "r")]
    marker = 'sys_platform == "win32"'
    assert needs == [("good", "~=1.2", ""), ("hashed", "==1.0", ""), ("windows", "", marker)]


def test_what_is_read_is_bounded_and_no_link_is_followed(tmp_path: Path) -> None:
    padding = "#" * MAX_FILE + "\n"
    files = {f"scripts/a{number:03}.py": f"import yaml\n{padding}" for number in range(MAX_READ // MAX_FILE)}
    late = {"scripts/z.py": "import late\n", "requirements.txt": padding + "lxml\n"}
    assert named(write(tmp_path / "long", {**files, **late})) == {"pyyaml": "scripts/a000.py:1"}
    (tmp_path / "outside.txt").write_text("secret-name\n")
    skill = write(tmp_path / "skill", {})
    (skill / "requirements.txt").symlink_to(tmp_path / "outside.txt")
    assert named(skill) == {}


def test_node_packages_are_named_with_where_they_come_from(tmp_path: Path) -> None:
    skill = write(
        tmp_path,
        {
            "package.json": '{"dependencies": {"sharp": "^0.33", "own": "file:../x", "in": "1"}}',
            "scripts/a.mjs": "import s from 'sharp'\nimport t from 'strange/part'\nimport i from 'in'\n",
            "assets/b.js": "require('template')\n",
            "node_modules/in/index.js": "require('further')\n",
        },
    )
    needs = [need for need in gather_now(skill) if need.kind == "node"]
    assert [need.text for need in needs] == ["sharp@^0.33", "own", "strange"]
    assert [need.address for need in needs] == ["", "file:../x", ""]
    assert (needs[-1].module, needs[-1].said) == ("strange", "scripts/a.mjs:2")


@pytest.mark.parametrize("version", ["a/b", "file:x", "x.tgz", "npm:x@1", "$(x)"])
def test_no_versions_of_a_registry(version: str) -> None:
    assert not is_version(version)


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("$ sudo FOO=1 ffmpeg -i x", ["ffmpeg"]),
        ("cd x && git log | jq .", ["git", "jq"]),
        ("make-believe; gitx", []),
        ("cat <<EOF\ngh secret\nEOF\nrg x", ["rg"]),
        ("npm install left-pad\nnpm install -g @a/b@1.2 x@latest", ["npm", "@a/b", "x"]),
        ("uv pip install -r requirements.txt 'pandas[excel]>=2' --quiet", ["pandas"]),
        ("python -m pip install ./here https://x/y.whl lxml", ["lxml"]),
    ],
)
def test_commands_show_known_programs_and_packages(block: str, names: list[str]) -> None:
    text = f"Use ffprobe.\n```bash\n{block}\n```\n```text\ngit status\n```\n"
    assert [need.name for need in needs_shown(text, "SKILL.md")] == names


@given(st.text() | st.text(alphabet="`bash pipnstal\n$;|&'\"\\<EOF-@>=1.[](){}/#", max_size=300))
def test_any_text_is_read(text: str) -> None:
    everything = [
        *needs_shown(text, "f"),
        *needs_shown(f"```bash\n{text}\n```", "f"),
        *requirements_in(text, "f"),
        *project_needs(text, "f"),
        *script_needs(text, "f"),
        *project_needs(f"[project]\ndependencies = [{text!r}]", "f"),
    ]
    for need in everything:
        assert need.name.isascii()
        assert need.name.isprintable()
        assert " " not in need.name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('print("Install: pip install pymupdf")', ["pymupdf"]),
        ('print("pip install pymupdf to use this, or go")', ["pymupdf"]),
        ('check_call([sys.executable, "-m", "pip", "install", "-q", "python-hcl2", "foo"])', ["python-hcl2"]),
        ('check_call(["pip", "install", "python-hcl2", "hcl2"])', ["python-hcl2", "hcl2"]),
        ('"$VENV/bin/pip" install --quiet "pandas>=2" openpyxl  # two', ["pandas>=2", "openpyxl"]),
        ("pip install -r requirements.txt", []),
        ('raise SystemExit(f"pip install {name}")', []),
    ],
)
def test_packages_that_a_script_installs_or_names(text: str, names: list[str]) -> None:
    assert [need.text for need in packages_installed(text, "run", {"hcl2"})] == names


@pytest.mark.parametrize("unit", ["pip" + " " * 9_999, "pip install a ", "pip install " + "a" * 9_999])
def test_a_text_that_is_made_to_take_long_does_not(unit: str) -> None:
    """Of the size that is read of a script."""
    text = unit * (256 * 1024 // len(unit))
    assert len(list(packages_installed(text, "run", ()))) <= 100
