"""What a program says that wanted the network where there is none."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.text import one_line

MAX_HOSTS: Final = 5
MAX_REASON: Final = 200
NO_RETRIES: Final[Mapping[str, str]] = {
    "PIP_RETRIES": "1",
    "npm_config_fetch_retries": "0",
    "no_proxy": "*",
}
"""For programs that try again for a minute what cannot work. Without one, pip does not say why it failed. And
Python on macOS fails where it cannot ask for proxies."""
_HOST: Final = r"[\"'‘`]?(?:\w+://)?(?P<host>[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)+[A-Za-z0-9-]{2,63})"
_NAMED: Final = (
    r"could not resolve (?:host: |hostname |proxy: )?HOST",  # curl, git, ssh, apt
    r"unable to resolve host(?: address)? HOST",  # wget
    r"getaddrinfo (?:EAI_AGAIN|ENOTFOUND) HOST",  # Node
    r"lookup HOST",  # Go
    r"failed to resolve HOST",  # urllib3
    r"host=HOST\W[^\n]{0,300}(?:resol|unreachable)",  # requests
    r"dns error for HOST",
)
_UNNAMED: Final = (
    r"temporary failure in name resolution|name or service not known|nodename nor servname provided"
    r"|name resolution error|could not resolve|failed to lookup address|network is unreachable"
    r"|\bENETUNREACH\b|\bEAI_AGAIN\b|\bdns error"
)


def closed_network_text(stderr: str) -> str:
    """Return the advice for a program that failed for want of the network; empty for one that did not."""
    hosts = _hosts(stderr)
    if not hosts and not re.search(_UNNAMED, stderr, re.IGNORECASE):
        return ""
    wanted = f"; it wanted {', '.join(hosts)}" if hosts else ""
    shown = ", ".join(f'"{host}"' for host in hosts) or '"HOST"'
    advice = f"If the task needs it, repeat the call with network=[{shown}]."
    return f"The network is closed for programs{wanted}. {advice}"


def open_network_text(hosts: Collection[HostPattern], refused: Mapping[str, str], stderr: str = "") -> str:
    """Return what a program was not connected to; empty where nothing is known of that.

    `refused`: what the proxy refused, by `host:port`. A host that the program itself looked up, and said so,
    is one that it did not ask the proxy for.
    """
    opened = f"The network was open to {', '.join(map(str, hosts))}."
    sentences = []
    if refused:
        shown = [one_line(f"{target} ({why.rstrip('.')})", MAX_REASON) for target, why in refused.items()]
        more = f" and {len(shown) - MAX_HOSTS} more" if len(shown) > MAX_HOSTS else ""
        sentences.append(f"Not connected: {', '.join(shown[:MAX_HOSTS])}{more}.")
    elif names := _hosts(stderr):
        sentences.append(
            f"A program looked up {', '.join(names)} by itself, which leads nowhere: use one that obeys "
            "HTTPS_PROXY, as curl, git, pip, npm and Python do, and Node from version 24."
        )
    return " ".join([opened, *sentences]) if sentences else ""


def _hosts(stderr: str) -> list[str]:
    patterns = (pattern.replace("HOST", _HOST) for pattern in _NAMED)
    found = (match["host"].lower() for each in patterns for match in re.finditer(each, stderr, re.IGNORECASE))
    return list(dict.fromkeys(found))[:MAX_HOSTS]
