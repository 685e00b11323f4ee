"""On generated cases: both ways say the same, and what is good here, `ssh-keygen -Y verify` takes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skills_agent.skills.packages.signatures import NAMESPACE, Signatures
from skills_agent.skills.packages.signer_files import SignerFiles
from skills_agent.skills.packages.ssh_keygen import SshKeygen
from skills_agent.skills.packages.ssh_library import Library

KEYGEN = shutil.which("ssh-keygen")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KEYGEN is None, reason="ssh-keygen (OpenSSH) makes the keys of these tests"),
]

NAMES = st.sampled_from(["alice", "alice,bob", "al*", '"alice"', "!alice", "alice,!alice", '"alice bob"'])
PATTERNS = st.lists(
    st.sampled_from(["agent-skills", "*", "git", "!git", "!agent-*", "agent-skill?", ""]), max_size=3
)
TIMES = st.sampled_from(
    ["20000101", "20990101", "209901011200", "20990101120000", "20000101Z", "9", "20991340"]
)
OPTIONS = st.lists(
    st.one_of(
        PATTERNS.map(lambda each: f'namespaces="{",".join(each)}"'),
        TIMES.map(lambda each: f'valid-before="{each}"'),
        TIMES.map(lambda each: f'valid-after="{each}"'),
        st.sampled_from(["cert-authority", "namespaces", 'x="y"', 'NAMESPACES="agent-skills"']),
    ),
    max_size=3,
).map(",".join)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agree")
    for name in ("ed25519", "ecdsa", "rsa"):
        command = [str(KEYGEN), "-q", "-t", name, "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True)
    return folder


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=NAMES,
    options=OPTIONS,
    key=st.sampled_from(["ed25519", "ecdsa", "rsa"]),
    listed=st.sampled_from(["ed25519", "ed25519", "ecdsa", "rsa"]),
    message=st.binary(max_size=50),
    read=st.none() | st.binary(max_size=50),
    namespace=st.sampled_from([NAMESPACE, NAMESPACE, NAMESPACE, "git"]),
)
@example(
    names="alice,bob",
    options="",
    key="ed25519",
    listed="ed25519",
    message=b"x",
    read=None,
    namespace=NAMESPACE,
)
@example(
    names="alice",
    options='namespaces="agent-skills"',
    key="rsa",
    listed="rsa",
    message=b"",
    read=None,
    namespace=NAMESPACE,
)
def test_both_ways_agree_and_ssh_keygen_takes_what_is_good(
    place: Path,
    names: str,
    options: str,
    key: str,
    listed: str,
    message: bytes,
    read: bytes | None,
    namespace: str,
) -> None:
    kind, encoded, _ = (place / f"{listed}.pub").read_text().split()
    signers = place / "allowed_signers"
    signers.write_text(" ".join(filter(None, (names, options, kind, encoded))) + "\n")
    made = SshKeygen(str(KEYGEN)).sign(message, place / key, namespace)
    read = message if read is None else read
    files = SignerFiles(signers)
    checks = [Signatures(way, files).check(read, made) for way in (SshKeygen(str(KEYGEN)), Library())]
    assert checks[0] == checks[1]
    if checks[0].state == "good":
        assert _is_verified(place, signers, "alice bob" if " " in names else "alice", read, made)


def _is_verified(place: Path, signers: Path, who: str, message: bytes, made: str) -> bool:
    file = place / "made.sig"
    file.write_text(made)
    command = [str(KEYGEN), "-Y", "verify", "-f", str(signers), "-n", NAMESPACE, "-s", str(file), "-I", who]
    return not subprocess.run(command, input=message, capture_output=True, check=False).returncode
