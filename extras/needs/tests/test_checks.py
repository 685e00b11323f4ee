"""What scripts look for by themselves, and what they tell people to install."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.checks import packages_installed, programs_checked

SHELL = """\
if ! command -v dot >/dev/null 2>&1; then echo "no dot"; fi
if command -v pbcopy; then x; elif command -v xclip >/dev/null; then y
elif which wl-copy; then z; fi
command -v one && command -v two
for tool in git jq; do
  if ! command -v "$tool" &>/dev/null; then exit; fi
done
PY=$(command -v python3 || command -v python)
have() { which "$1"; }
command -v have
# find out which file
[ -x "$(command -v pandoc)" ] || exit
"""
PYTHON = '''\
"""Say
which one
"""
if shutil.which("soffice") or shutil.which("libreoffice"): pass
exe = (shutil.which("neato")
    or shutil.which("dot"))
subprocess.run(["which", "cdk"])
os.system("which rg > /dev/null")
for name in ("ffmpeg", "sox"):
    if not shutil.which(name): pass
'''


def found(text: str, *, is_shell: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(need.name, need.instead) for need in programs_checked(text, "run", is_shell=is_shell)]


def test_a_shell_script_says_which_programs_it_looks_for() -> None:
    assert found(SHELL, is_shell=True) == [
        ("dot", ()),
        ("pbcopy", ("xclip", "wl-copy")),
        ("one", ()),
        ("two", ()),
        ("python", ()),
        ("pandoc", ()),
        ("git", ()),
        ("jq", ()),
    ]


def test_a_python_script_says_it_too_and_its_prose_does_not() -> None:
    assert found(PYTHON, is_shell=False) == [
        ("soffice", ("libreoffice",)),
        ("neato", ("dot",)),
        ("cdk", ()),
        ("rg", ()),
        ("ffmpeg", ()),
        ("sox", ()),
    ]


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


@pytest.mark.parametrize(
    "unit",
    [
        "for a in " + " " * 250,
        "for a in b;\n",
        "for" + " " * 9_999,
        "pip" + " " * 9_999,
        '"which",' + " " * 9_999,
        "command -v a;",
        'which("a") ',
        "pip install a ",
        "command -v" + " " * 9_999,
    ],
)
def test_a_text_that_is_made_to_take_long_does_not(unit: str) -> None:
    """Of the size that is read of a script; some of these took six minutes once."""
    text = unit * (256 * 1024 // len(unit))
    assert len(list(programs_checked(text, "run", is_shell=True))) <= 100
    assert len(list(packages_installed(text, "run", ()))) <= 100


@given(st.text() | st.text(alphabet="pip install which command -v for in do \"'();|&\n"))
def test_any_text_is_read(text: str) -> None:
    list(programs_checked(text, "run", is_shell=True))
    list(packages_installed(text, "run", ()))
