"""skills-agent skills sync --from skills-lock.json: take over what `npx skills` has in its lock."""

from pathlib import Path

from skills_agent.graph.cli.install import show_changes
from skills_agent.graph.cli.packages import check_required, confirm, note_signed, origin, signers_of
from skills_agent.graph.cli.printing import echo, print_json
from skills_agent.graph.places import user_state_folder
from skills_agent.graph.settings import Settings
from skills_agent.skills.packages.errors import OfferError
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.installation import install, plan
from skills_agent.skills.packages.npx_lock import computed_hash, read_npx_lock
from skills_agent.skills.packages.offer import Wanted
from skills_agent.skills.packages.origins import parse_locked, typed_hosts
from skills_agent.skills.packages.target import Target
from skills_agent.skills.text import count


def install_npx(
    settings: Settings, target: Target, file: Path, *, yes: bool, required: bool, as_json: bool
) -> None:
    """Fetch the skills of a lock, check its hashes, show what changes, ask, install. Raises PackageError."""
    signatures = signers_of(settings).signatures()
    hosts = typed_hosts(user_state_folder(settings))
    with target.draft() as draft:
        offers = []
        for number, skill in enumerate(read_npx_lock(file.parent, file.name)):
            if not skill.address:
                raise OfferError(
                    skill.source, f"npx skills has {skill.name} from a place that is not fetched"
                )
            into = draft / str(number)
            into.mkdir()
            address = parse_locked(skill.address, file.parent, hosts)
            wanted = Wanted(address, into, frozenset({skill.name}), target.limits, signatures=signatures)
            offer = fetch(wanted)
            found = computed_hash(offer.skills[0].folder)
            if found and skill.computed_hash and found != skill.computed_hash:
                reason = f"{skill.name} is not what {file.name} says: its computedHash is {found[:12]} there"
                raise OfferError(skill.source, reason)
            offers.append(offer)
        changes = plan(target, offers, signatures)
        check_required(settings, changes, required=required)
        show_changes(settings, target, changes, yes=yes, as_json=as_json)
        todo = [each for each in changes if each.kind != "same"]
        if todo:
            confirm(f"Install {count(len(todo), 'skill')}?", yes=yes)
        install(target, draft, changes, origin())
        note_signed(settings, changes)
    if as_json:
        print_json({"folder": str(target.folder), "installed": [each.skill.name for each in todo]})
    elif todo:
        echo(f"Installed {count(len(todo), 'skill')} in {target.folder}.")
