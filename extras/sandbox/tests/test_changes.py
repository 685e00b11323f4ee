"""What is decided about changes of scripts, read from overlays that are really mounted."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extras.sandbox.tests.overlay import Overlay, overlay
from skills_agent.sandbox.changes import judge
from skills_agent.sandbox.layer import Layer, changes
from skills_agent.sandbox.obeyed import ObeyedFiles
from skills_agent.skills.scripts.changes import Change, JudgedChange

BEFORE = r"""
git init -q .; git config user.name a; git config user.email a@b
mkdir -p src scripts build conf tools/hooks data
echo 'x = 1' > src/app.py; echo y > src/fast.py; echo text > data/a.txt; ln -s a.txt data/latest
for each in scripts/deploy.sh build/release.sh run; do printf '#!/bin/sh\n:' > $each; chmod 755 $each; done
mkdir -p node_modules githooks/sub; printf '#!/bin/sh' > node_modules/tracked.sh; touch githooks/one
git add -A; git commit -qm x; ln -s ../../githooks/one .git/hooks/pre-push
git config core.hooksPath tools/hooks; git config filter.x.clean 'sh conf/clean.sh'; echo : > conf/clean.sh
mkdir -p node_modules/.bin node_modules/a .venv/bin target/debug dist src/__pycache__ empty mine .github
touch .venv/pyvenv.cfg target/CACHEDIR.TAG node_modules/a/.eslintrc src/__pycache__/app.cpython-311.pyc
for each in node_modules/.bin/x .venv/bin/x dist/cli.js mine/own.sh; do
  printf '#!/bin/sh' > $each; chmod 755 $each
done
cp /bin/true target/debug/x; cp /bin/true compiled; ln -s ../scripts/deploy.sh mine/link
mkdir -p shared/vs other; echo '{}' > shared/vs/tasks.json; ln -s shared/vs .vscode; echo e > shared/envrc
ln -s ../shared/envrc other/.envrc
git init -q --bare bare.git; echo e > .env; git init -q vendor/lib
mkdir -p d/e; echo x > d/e/.npmrc
git init -q --separate-git-dir=store worktree; mkdir -p worktree/dist; printf '#!/bin/sh' > worktree/dist/t.sh
git -C worktree add dist/t.sh; rm -r bare.git/hooks; mkdir bare.git/hooks; git init -q linked
mkdir linked/own; rm -r linked/.git/hooks; ln -s ../own linked/.git/hooks
mkdir -p odd/.Git; touch odd/.Git/config
touch secret hard; ln hard hard2; mkdir -p lib/site-packages; touch lib/site-packages/old.py
"""

ASK = {
    # by name
    "echo x > .envrc": ".envrc",
    "echo x >> .env": ".env",
    "rm .env": ".env",
    "mkdir -p sub/.github; echo x > sub/.github/x.yml": "sub/.github sub/.github/x.yml",
    "rm -r .github": ".github",
    "rm -r d": "d",
    "echo x > .GITMODULES": ".GITMODULES",
    "ln -s data/a.txt CLAUDE.md": "CLAUDE.md",
    "echo x > agent.cfg": "agent.cfg",
    "mkdir -p node_modules/p; echo x > node_modules/p/agent.cfg": "node_modules/p/agent.cfg",
    "chmod 700 .github": ".github",
    # git
    "git init -q new; rm -r new/.git/*": "new/.git",
    "mkdir node_modules/n; echo 'gitdir: ../x' > node_modules/n/.git": "node_modules/n/.git",
    "mkdir n; echo 'gitdir: ../x' > n/git~1": "n/git~1",
    "echo x >> bare.git/config": "bare.git/config",
    "echo x > bare.git/hooks/post-receive": "bare.git/hooks/post-receive",
    "mkdir n; cd n; mkdir objects; echo 'ref: refs/heads/x' > HEAD; echo x > config; echo x > d": (
        "n/objects n/HEAD n/config"
    ),
    "mkdir n; cd n; touch HEAD commondir config": "n/HEAD n/commondir n/config",
    "echo x >> store/config": "store/config",
    "echo x > store/hooks/pre-commit": "store/hooks/pre-commit",
    "echo x > tools/hooks/pre-commit": "tools/hooks/pre-commit",
    "echo x >> conf/clean.sh": "conf/clean.sh",
    "rm -r conf": "conf",
    "rm -r vendor/lib": "vendor/lib",
    "rm bare.git/HEAD; echo x >> bare.git/config": "bare.git/HEAD bare.git/config",
    "cp /bin/true githooks/one": "githooks/one",
    "cp /bin/true linked/own/post-checkout": "linked/own/post-checkout",
    # what protected links lead to, and the links on the way
    "echo x > shared/vs/tasks.json": "shared/vs/tasks.json",
    "echo x > shared/envrc": "shared/envrc",
    "rm -r shared/vs; mkdir shared/vs; echo x > shared/vs/tasks.json": "shared/vs/tasks.json",
    "ln -s ../data src/.vscode; echo x > data/tasks.json": "src/.vscode data/tasks.json",
    # programs
    "chmod 755 src/app.py": "src/app.py",
    "printf '#!/bin/sh' > new": "new",
    "printf x > new; chmod 711 new": "new",
    "echo evil >> build/release.sh": "build/release.sh",
    "cp /bin/true scripts/deploy.sh": "scripts/deploy.sh",
    "cp /bin/true mine/own.sh": "mine/own.sh",
    "rm mine/link; cp /bin/true mine/link": "mine/link mine/link",
    "rm run; printf '#!/bin/sh' > run": "run",
    "echo evil >> mine/own.sh": "mine/own.sh",
    "rm run; ln -s node_modules/.bin/x run": "run run",
    "rm -r scripts; ln -s node_modules/.bin scripts": "scripts scripts",
    "rm mine/link; ln -s ../node_modules/.bin/x mine/link": "mine/link",
    "echo '#!/bin/sh evil' > node_modules/tracked.sh": "node_modules/tracked.sh",
    "echo '#!/bin/sh evil' > worktree/dist/t.sh": "worktree/dist/t.sh",
    "touch build/CMakeCache.txt": "build/CMakeCache.txt",
    "touch scripts/CACHEDIR.TAG": "scripts/CACHEDIR.TAG",
    "touch mine/pyvenv.cfg; echo evil >> mine/own.sh": "mine/own.sh mine/pyvenv.cfg",
    "mkdir -p build/node_modules; printf '#!/bin/sh' > src/node_modules": "src/node_modules",
    # loaded in the place of the source beside it
    "cp /bin/true src/fast.cpython-311-x86_64-linux-gnu.so": "src/fast.cpython-311-x86_64-linux-gnu.so",
    "echo x > src/m.pm; echo x > src/m.pmc": "src/m.pmc",
    "echo x > src/m.el; echo x > src/m.elc": "src/m.elc",
    "echo x > src/z; echo x > src/z.zwc": "src/z.zwc",
}
"""Scripts, and what a person is asked about afterwards; all else that they change is allowed."""

DENY = {
    "ln -s /etc out": "out",
    "ln -s ../outside out": "out",
    "mkdir -p a/b; ln -s ../../.. a/b/up": "a/b/up",
    "ln -s a out; ln -s out/b twice; ln -s /etc a": "out twice a",
    "mkdir z; ln -s z/../../x out": "out",
    "ln -s /nowhere/at/all dangling": "dangling",
    "ln -s loop/x loop; ln -s loop l": "loop l",
    "python3 -c \"import os; os.symlink('a/' * 2000, 'a')\"": "a",
    "mkfifo p": "p",
    "rm data/a.txt; mkfifo data/a.txt": "data/a.txt data/a.txt",
    "touch s; chmod 4755 s": "s",
    "touch s; chmod 2644 s": "s",
    "chmod 1644 data/a.txt": "data/a.txt",
    "mkdir s; chmod 4755 s; touch s/x": "s s/x",
    "echo x >> .git/config": ".git/config",
    "echo x > vendor/lib/.git/hooks/x": "vendor/lib/.git/hooks/x",
    "rm -r .git": ".git",
    "rm worktree/.git; echo gitdir: x > worktree/.git": "worktree/.git",
    "mkdir .GIT; touch .GIT/config": ".GIT .GIT/config",
    "mkdir .agent; echo {} > .agent/config.json": ".agent .agent/config.json",
    "echo x > odd/.Git/config": "odd/.Git/config",
    "mkdir .Agent": ".Agent",
    "ln -s data .agent": ".agent",
    "echo x > src/__pycache__/app.cpython-311.pyc": "src/__pycache__/app.cpython-311.pyc",
    "mkdir -p n/__pycache__; touch n/__pycache__/x.pyc": "n/__pycache__ n/__pycache__/x.pyc",
    "mkdir evil; ln -s ../evil data/__pycache__": "data/__pycache__",
    "cd lib/site-packages; mkdir __pycache__; touch __pycache__/old.cpython-311.pyc": (
        "lib/site-packages/__pycache__/old.cpython-311.pyc"
    ),
    "cd lib/site-packages; echo >> old.py; mkdir __pycache__; touch __pycache__/old.pyc": (
        "lib/site-packages/__pycache__/old.pyc"
    ),
    "cd lib/site-packages; touch n.py; ln -s . __pycache__": "lib/site-packages/__pycache__",
    "cd lib/site-packages; touch n.py; mkdir __pycache__; ln -s ../old.py __pycache__/n.pyc": (
        "lib/site-packages/__pycache__/n.pyc"
    ),
    "cd data; touch n.py; mkdir __pycache__; touch __pycache__/n": "data/__pycache__ data/__pycache__/n",
    "echo x > .envrc; ln .envrc other.txt": ".envrc",
    "ln scripts/deploy.sh d.txt; echo x >> d.txt": "scripts/deploy.sh d.txt",
}
ALLOW = (
    "echo 'x = 2' > src/app.py; echo new > report.md; mkdir -p out/a; echo x > out/a/b.csv",
    "rm -r node_modules target/debug src/__pycache__ dist",
    """mkdir -p node_modules/.bin node_modules/b/.github; touch node_modules/b/.eslintrc node_modules/b/.npmrc
    printf '#!/usr/bin/env node' > node_modules/b/cli.js; chmod 755 node_modules/b/cli.js
    ln -s ../b/cli.js node_modules/.bin/b; echo x >> node_modules/.bin/x""",
    "cp /bin/false target/debug/x; ln target/debug/x target/debug/y",
    "cp /bin/false compiled; cp /bin/true other/bin",
    "cd lib/site-packages; mkdir -p p/__pycache__; touch p/m.py p/__pycache__/m.cpython-311.pyc",
    "for each in dist/cli.js build/new; do printf '#!/bin/sh 2' > $each; chmod 755 $each; done",
    """mkdir -p venv/bin; touch venv/pyvenv.cfg; ln -s /usr/bin/env venv/bin/python; ln -s lib venv/lib64
    ln -s python venv/bin/python3; printf '#!/x' > venv/bin/pip; chmod 755 venv/bin/pip
    ln -sf python .venv/bin/x""",
    "touch CMakeCache.txt node_modules/a/CACHEDIR.TAG",
    "cd empty; touch CMakeCache.txt; cd ../dist; touch CMakeCache.txt",
    "rm data/latest; ln -s b.txt data/latest; ln -s nowhere dangling; ln -s $1/lower/src absolute",
    "ln -s ../src data/in; ln -s in/../a.txt data/a; ln -s mine/../data/./latest l",
    "rm scripts/deploy.sh mine/link; chmod 600 data/a.txt; chmod 700 data; chmod 2755 src",
    "echo x > hard2; mkdir -p n/objects; echo x > n/config; mkdir src/hooks; touch src/hooks/HEAD src/config",
    "echo '#!' > data/a.txt; echo text > data/a.txt; echo x > bare.git/description; touch run",
    "mkdir -p .venv/lib/site-packages; cd .venv/lib/site-packages; touch m.py; cp /bin/true m.abi3.so",
    "mkdir -p vendor/bin; for each in worktree/dist/u.sh vendor/bin/x; do printf '#!/bin/sh' > $each; done",
    "cp /bin/true src/native.so; echo x > src/m.pyc; echo x > src/m.elc",
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Overlay]:
    with overlay(os.geteuid()) as made:
        made.before(BEFORE)
        yield made


@pytest.fixture
def over(shared: Overlay) -> Overlay:
    """Return the folder as it was: what scripts wrote over it is removed."""
    shared.clear()
    return shared


def judged(over: Overlay, **more: object) -> list[JudgedChange]:
    elsewhere = ObeyedFiles(over.lower, ["agent.cfg"]).look().elsewhere
    return judge(changes(over.layer), over.layer, more=["agent.cfg"], elsewhere=elsewhere, **more)  # type: ignore[arg-type]


def paths(found: list[JudgedChange], decision: str) -> list[str]:
    return sorted(each.change.path for each in found if each.decision == decision)


@pytest.mark.parametrize("script", ASK)
def test_what_somebody_executes_or_obeys_is_asked_about(over: Overlay, script: str) -> None:
    over.run(script)
    found = judged(over)
    assert paths(found, "ask") == sorted(ASK[script].split())
    assert paths(found, "deny") == []
    assert all(each.why for each in found if each.decision == "ask")


@pytest.mark.parametrize("script", DENY)
def test_what_nobody_may_leave_is_denied_even_where_it_is_approved(over: Overlay, script: str) -> None:
    over.run(script)
    for allowed in ([], [over.lower]):
        found = judged(over, allowed=allowed)
        assert paths(found, "deny") == sorted(DENY[script].split())
        assert paths(found, "ask") == []
        assert all(each.why or "__pycache__" in each.change.path for each in found if each.decision == "deny")


@pytest.mark.parametrize("script", ALLOW)
def test_all_else_needs_no_question(over: Overlay, script: str) -> None:
    over.run(script)
    found = judged(over)
    assert [each for each in found if each.decision != "allow" or each.why] == []
    assert found


def test_what_a_person_approved_is_written_and_nothing_beside_it(over: Overlay) -> None:
    over.run(
        "echo x > .github/ci.yml; echo x > .github/evil.yml; mkdir n; echo x > n/.envrc; echo x > .envrc"
    )
    found = judged(over, allowed=[over.lower / ".github/ci.yml", over.lower / "n", Path("/")])
    assert paths(found, "ask") == [".envrc", ".github/evil.yml"]
    assert paths(found, "deny") == []
    assert paths(found, "allow") == [".github/ci.yml", "n", "n/.envrc"]


def test_without_a_repository_nobody_says_that_a_build_is_one(tmp_path: Path) -> None:
    with overlay(os.geteuid()) as over:
        over.before(
            "mkdir build; printf '#!/bin/sh' > build/own.sh; chmod 755 build/own.sh; cp /bin/true prog"
        )
        over.run("echo x >> build/own.sh; echo '#!x' > build/new; cp /bin/false prog; cp /bin/true prog2")
        assert paths(judged(over), "ask") == ["build/own.sh", "prog", "prog2"]


def test_what_nobody_compiled_is_known_from_copies_where_the_folder_is_changed_already(
    over: Overlay, tmp_path: Path
) -> None:
    (tmp_path / "compiled").write_text("#!/bin/sh")
    over.run("cp /bin/false compiled")
    assert paths(judged(over), "allow") == ["compiled"]
    found = judge(changes(over.layer), replace(over.layer, originals=tmp_path), elsewhere={})
    assert paths(found, "ask") == ["compiled"]


def test_links_of_a_threads_own_folder_may_lead_into_the_workspace(over: Overlay) -> None:
    layer = Layer(over.lower / "data", over.layer.content / "data", 0)
    over.run("ln -s ../src data/src; ln -s ../.. data/up; echo x > data/.envrc")
    assert paths(judge(changes(layer), layer, workspace=over.lower, elsewhere={}), "deny") == ["up"]
    assert paths(judge(changes(layer), layer, elsewhere={}), "deny") == ["src", "up"]
    found = judge(changes(layer), layer, workspace=over.lower, more=["/data/src"], elsewhere={})
    assert paths(found, "ask") == [".envrc", "src"]


def test_a_split_or_compressed_index_tracks_all(over: Overlay) -> None:
    for how in ("--index-version=4", "--split-index"):
        with overlay(os.geteuid()) as one:
            one.before(f"git init -q .; echo > a; git add a; git update-index {how}; mkdir dist")
            one.run("printf '#!/bin/sh' > dist/cli.js; cp /bin/true prog")
            assert paths(judged(one), "ask") == ["dist/cli.js", "prog"]


def test_a_link_is_judged_also_as_if_other_changes_were_not_applied(over: Overlay) -> None:
    """A person may reject one of them, or has changed it meanwhile."""
    over.run(
        "ln -s src/../../x one; rm -r mine; ln -s data/deep mine; ln -s mine/../../x two; mkdir data/deep"
    )
    assert paths(judged(over), "deny") == ["one", "two"]


KINDS = st.sampled_from(["file", "executable", "link", "folder", "special"])
NAMES = st.sampled_from(["a", "b", "src", ".git", ".env", "..x", "__pycache__", "HEAD", "objects", "\udcff"])
TARGETS = st.lists(st.sampled_from(["..", "a", "b", "src", ".", "nowhere"]), min_size=1, max_size=6).map(
    "/".join
)
CHANGES = st.builds(
    Change,
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["added", "changed", "removed"]),
    KINDS,
    target=st.one_of(TARGETS, TARGETS.map(lambda each: f"/{each}")),
    mode=st.sampled_from([0o644, 0o755, 0o4755, 0o2711, 0o1777]),
)


@given(st.lists(CHANGES, unique_by=lambda each: each.path, max_size=8), st.randoms())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_changes_does_not_matter(
    over: Overlay, listed: list[Change], order: random.Random
) -> None:
    found = {each.change: each for each in judge(listed, over.layer, allowed=[over.lower], elsewhere={})}
    order.shuffle(listed)
    again = judge(listed, over.layer, allowed=[over.lower], elsewhere={})
    assert [each.change for each in again] == listed
    assert {each.change: each for each in again} == found


@given(TARGETS, st.lists(st.tuples(NAMES, TARGETS), max_size=4, unique_by=lambda each: each[0]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_link_that_leads_out_once_it_is_there_was_denied(
    tmp_path: Path, target: str, others: list[tuple[str, str]]
) -> None:
    """The links are made for real, and the kernel says where they lead."""
    root = Path(os.path.realpath(tmp_path)) / os.urandom(8).hex()
    for folder in ("src", "a", "content"):
        (root / folder).mkdir(parents=True)
    links = {**dict(others), "src/link": target}
    links = {path: to for path, to in links.items() if path not in {"src", "a", "__pycache__", ".git"}}
    listed = [Change(path, "added", "link", target=to) for path, to in links.items()]
    found = judge(listed, Layer(root, root / "content", 0), elsewhere={}, allowed=[root])
    for path, to in links.items():
        (root / path).symlink_to(to)
    for each in found:
        real = os.path.realpath(root / each.change.path)
        is_out = real != str(root) and not real.startswith(f"{root}/")
        assert each.decision == "deny" or not is_out


def test_nothing_is_decided_about_no_changes(tmp_path: Path) -> None:
    assert judge([], Layer(tmp_path / "missing", tmp_path, 0), elsewhere={}) == []
