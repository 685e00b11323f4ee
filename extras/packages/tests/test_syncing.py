"""What a source has now, compared with what the lock says of it."""

from pathlib import Path

import pytest

from skills_agent.packages.address import parse_address
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.offer import Offer, OfferedSkill
from skills_agent.packages.syncing import Fetched

OLD, NEW = "a" * 40, "b" * 40


def fetched(address: str, resolved: str, digest: str) -> Fetched:
    locked = LockedSkill(name="greet", source=address, resolved=OLD, digest="1" * 64)
    skill = OfferedSkill("greet", Path(), digest * 64, {})
    return Fetched(locked, Offer(parse_address(address, Path()), (skill,), resolved), skill)


@pytest.mark.parametrize(
    ("address", "resolved", "digest", "said"),
    [
        ("acme/skills@v1", OLD, "1", ""),
        ("acme/skills@v1", NEW, "1", "greet: v1 of acme/skills@v1 has moved"),  # also with the same files
        ("acme/skills@v1", NEW, "2", "has moved: it was aaaaaaaaaaaa and is bbbbbbbbbbbb"),
        ("acme/skills", NEW, "1", ""),  # it follows its repository
        ("acme/skills", NEW, "2", "has other files now"),
    ],
)
def test_a_ref_that_was_asked_for_has_to_mean_the_same_commit(
    address: str, resolved: str, digest: str, said: str
) -> None:
    difference = fetched(address, resolved, digest).difference()
    assert said in difference
    assert bool(difference) == bool(said)
