"""On generated cases: what is good here, `ssh-keygen -Y verify` takes."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from extras.packages.tests.signers import KEYGEN, make_key, needs_keygen
from skills_agent.packages.signatures import NAMESPACE, Signatures
from skills_agent.packages.signer_files import SignerFiles
from skills_agent.packages.ssh_keygen import SshKeygen

pytestmark = [pytest.mark.slow, needs_keygen]

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
        make_key(folder / name, name)
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
def test_what_is_good_here_ssh_keygen_takes(
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
    signatures = Signatures(SshKeygen(KEYGEN), SignerFiles(signers))
    made = signatures.sign(message, place / key, namespace)
    read = message if read is None else read
    if signatures.check(read, made).state == "good":
        assert _is_verified(place, signers, "alice bob" if " " in names else "alice", read, made)


def _is_verified(place: Path, signers: Path, who: str, message: bytes, made: str) -> bool:
    file = place / "made.sig"
    file.write_text(made)
    command = [str(KEYGEN), "-Y", "verify", "-f", str(signers), "-n", NAMESPACE, "-s", str(file), "-I", who]
    return not subprocess.run(command, input=message, capture_output=True, check=False).returncode
