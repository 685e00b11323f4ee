"""Links that lead back to themselves: a program that follows links comes to no end in such a folder."""

import os
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Final

from skills_agent.skills.library.contents import is_endless

ENDLESS: Final = "it is a link that leads back to itself, or over more links than systems follow"


def link_in_circle(folder: str | os.PathLike[str], links: Iterable[str]) -> str:
    """Return a link of a folder that leads back to itself, or to a folder that it lies in; empty for none.

    It may do so by way of other links and folders. `links` are all that are in the folder, as relative paths.
    """
    real = os.path.realpath(folder)
    leads: dict[str, str] = {}
    for link in sorted(links):
        if is_endless(f"{real}/{link}"):
            return link
        if os.path.isdir(target := os.path.realpath(f"{real}/{link}")):  # noqa: PTH112 - a text
            leads[link] = os.path.relpath(target, real)
    # Where a program comes that follows links: from a link to its folder, from a folder to what is in it.
    steps = TopologicalSorter[str]()
    for link, target in leads.items():
        steps.add(f"link {link}", f"folder {target}")
        inner, above = f"link {link}", os.path.dirname(link)  # noqa: PTH120 - a text
        while True:
            steps.add(f"folder {above or '.'}", inner)
            if not above:
                break
            inner, above = f"folder {above}", os.path.dirname(above)  # noqa: PTH120 - a text
    try:
        steps.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return min(each.removeprefix("link ") for each in circle if each.startswith("link "))
    return ""
