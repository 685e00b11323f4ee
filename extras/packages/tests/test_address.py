"""What people type, and what stands in a lock."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.packages.address import parse_address, portable
from skills_agent.packages.errors import PackageError

GITHUB = "https://github.com/owner/repo.git"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    for name in ("x.zip", "x.skill", "x.tar.gz"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "place", "ref", "path"),
    [
        ("owner/repo", "git", GITHUB, "", ""),
        ("owner/repo/a/b@v1.2", "git", GITHUB, "v1.2", "a/b"),
        ("owner/repo@feature/x", "git", GITHUB, "feature/x", ""),
        ("owner/repo@main#a/b", "git", GITHUB, "main", "a/b"),
        ("https://github.com/owner/repo", "git", GITHUB, "", ""),
        ("https://www.github.com/owner/repo/", "git", GITHUB, "", ""),
        ("https://github.com/owner/repo/tree/main/skills/x", "git", GITHUB, "main", "skills/x"),
        ("https://lab.example/g/r/-/tree/v1/skills", "git", "https://lab.example/g/r.git", "v1", "skills"),
        ("git+https://host/x.git@v1#a/b", "git", "https://host/x.git", "v1", "a/b"),
        ("https://host/x.git@v1#a", "git", "https://host/x.git", "v1", "a"),
        ("git+file:///srv/x.git@v1", "git", "file:///srv/x.git", "v1", ""),
        ("git+ssh://git@host/x.git@v1", "git", "ssh://git@host/x.git", "v1", ""),
        ("ssh://git@host:2222/x.git@v1#a", "git", "ssh://git@host:2222/x.git", "v1", "a"),
        ("git@host:owner/repo@v1#a/b", "git", "git@host:owner/repo", "v1", "a/b"),
        ("https://host/x.zip", "url", "https://host/x.zip", "", ""),
        ("https://host/x.tar.gz?a=b#c", "url", "https://host/x.tar.gz?a=b", "", ""),
        ("https://host", "well-known", "https://host", "", ""),
        ("https://host/team", "well-known", "https://host/team", "", ""),
    ],
)  # fmt: skip
def test_each_form_of_the_grammar(base: Path, text: str, kind: str, place: str, ref: str, path: str) -> None:
    address = parse_address(text, base)
    assert (address.kind, address.place, address.ref, address.path) == (kind, place, ref, path)


@pytest.mark.parametrize("text", ["./folder", "folder", "./x.zip", "x.skill", "./x.tar.gz", "owner/repo"])
def test_a_place_on_this_machine_is_relative_to_the_base(base: Path, text: str) -> None:
    (base / "owner" / "repo").mkdir(parents=True)  # a folder is meant before a repository of that name
    address = parse_address(text, base)
    assert address.kind == ("archive" if "x." in text else "folder")
    assert Path(address.place) == base / text


@pytest.mark.parametrize(
    "text",
    ["", " ", "-x", "\x1b", "--upload-pack=touch x", "owner/repo@-x", "owner/repo@a..b", "owner/repo/../x",
     "missing.zip", "./missing", "ext::sh -c id", "ftp://host/x", "file:///etc", "https://", "https:///x",
     "https://[::1", "https://host:port/x", "git://host/x.git", "https://-oProxy/x.git", "ssh://-oProxyCommand=id/x",
     "ssh://git:s3cret@host/x.git", "a\nb", "owner/repo\u202e", "~nobody-of-this-name/x", "./" + "n" * 300,
     "owner/" + "x" * 3000, "owner/repo#../x", "git+https://host/x.git@v1#../up", "name>=", "Name",
     # What has a password is refused, and the password never shown.
     "https://user:s3cret@host/x.zip", "https://s3cret@host/x.git", "git+https://u:s3cret@host/x.git@v1#a",
     "https://u:s3cret@github.com/owner/repo/tree/main", "https://u:s3cret@host", "HTTPS://u:s3cret@host/x",
     "https://u:s3cret@host:port/x", "ftp://u:s3cret@host/x", "https://u:s3cret@host/\x07"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_a_sentence(base: Path, text: str) -> None:
    with pytest.raises(PackageError) as refused:
        parse_address(text, base)
    assert str(refused.value).endswith(".")
    assert str(refused.value).isprintable()
    assert "s3cret" not in str(refused.value)


# --- properties ---

ANY = st.one_of(
    st.text(max_size=60),
    st.text("aA1-_./@#:>=~ \\%?[]", max_size=40),
    st.sampled_from(["https://", "git+https://", "ssh://", "git@", "./", "git+file://"]).flatmap(
        lambda head: st.text("ab1-_./@#:[]%?", max_size=30).map(lambda rest: head + rest)
    ),
)


@given(ANY)
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    try:
        address = parse_address(text, Path("/nowhere"))
    except PackageError:
        return
    assert not address.ref.startswith("-")
    assert ".." not in address.path.split("/")
    assert not address.path.startswith("/")


@given(ANY)
def test_what_a_lock_has_means_the_same_again(text: str) -> None:
    """A place in a lock is read relative to the lock; without secrets that were typed."""
    base, folder = Path("/usr"), Path("/usr/bin")  # which exist: `/proc` may be drawn
    try:
        address = parse_address(text, base)
    except PackageError:
        return
    kept = portable(address, folder)
    again = parse_address(kept, folder)
    assert portable(again, folder) == kept
    assert (again.kind, again.ref, again.path) == (address.kind, address.ref, address.path)
    assert again.text == address.text or os.path.lexists(address.place)
