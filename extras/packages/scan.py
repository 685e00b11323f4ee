"""What a look at the files of a skill finds, before it is installed: reasons to read a place, and no proof.

Text in, findings out: nothing is read, run or asked. Who wants to hide can; so a finding says where to look,
and none says that a skill is safe. The patterns go over hostile text, so they are RE2's, which take linear
time.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec

from skills_agent.packages.errors import shown
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.visible import DRAWN_LIKE, hidden_in, name_of, visible_line

Kind = Literal[
    "invisible", "network", "credentials", "environment", "encoded", "downloaded", "addresses-skills",
    "hides", "overrides", "run-this", "comment", "name", "binary", "unread",
]  # fmt: skip
"""What was found; docs/packages.md has a line for each."""
Level = Literal["warning", "info"]
Role = Literal["program", "prose"]

EXCERPT: Final = 100
"""Characters of what is shown of a line."""
MAX_LINES: Final = 10
"""Of one file, with characters that nobody can see."""
_MAX_MARKS: Final = 6
_NEAR: Final = 5
"""The shortest name that a change of one letter makes no other word of."""
_SINGLE_SIGNS: Final = str.maketrans("0135", "oles")
_PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
"""Letters and digits that are drawn like others."""
_DIGITS: Final = re.compile(r"\d")


class ScanFinding(msgspec.Struct, frozen=True):
    """One reason to look at one place."""

    path: str
    kind: Kind
    level: Level
    message: str
    """What it is, as one sentence without its full stop."""
    line: int = 0
    """From 1; 0 where it is about the whole file, or the skill."""
    excerpt: str = ""
    """The text, with nothing hidden, on one line, bounded."""
    times: int = 1
    """How often the file has it; the place is the first."""


def finding_text(finding: ScanFinding) -> str:
    """Return a finding in one line, to be made harmless for where it is shown."""
    place = f"{finding.path}:{finding.line}" if finding.line else finding.path
    times = f" ({finding.times} times)" if finding.times > 1 else ""
    excerpt = f': "{finding.excerpt}"' if finding.excerpt and finding.kind != "name" else ""
    return f"{place} {finding.message[:1].lower()}{finding.message[1:]}{times}{excerpt}"


def scan(path: str, text: str, role: Role) -> Iterator[ScanFinding]:
    """Yield what stands in one file of a skill."""
    yield from _invisible(path, text, role)
    text = text.replace("\r\n", "\n")
    for rule in _RULES:
        if role not in rule.roles:
            continue
        matches = _compiled(rule.pattern).finditer(text)
        meant = [each for each in matches if rule.unless is None or not rule.unless(text, each)]
        if meant:
            start, end = meant[0].span()
            line = 1 + text.count("\n", 0, start)
            excerpt = _excerpt(text, start, end)
            yield ScanFinding(path, rule.kind, rule.level, rule.message, line, excerpt, len(meant))


def near_name(name: str, known: Mapping[str, str]) -> ScanFinding | None:
    """Return that a name is easily taken for a known one, which is another skill; None where it is not.

    `known` has the names by where they are: `csv-report` is `installed`. One letter too many, too few, other
    or in another place counts, and letters that look alike; other digits do not.
    """
    if name in known:
        return None
    near = next((each for each in sorted(known) if _is_near(name, each)), None)
    if near is None:
        return None
    message = f"The name is nearly {near}, which is another skill ({known[near]})"
    return ScanFinding(SKILL_FILE, "name", "warning", message, excerpt=visible_line(name))


def _invisible(path: str, text: str, role: Role) -> Iterator[ScanFinding]:
    hidden = groupby(hidden_in(text, role), key=itemgetter(0))
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\f", "").split("\n")
    for line, characters in islice(hidden, MAX_LINES):
        marks = list(dict.fromkeys(mark for _, mark in islice(characters, 1_000)))
        names = ", ".join(name_of(chr(int(mark[3:-1], 16))) for mark in marks[:_MAX_MARKS])
        more = f" and {len(marks) - _MAX_MARKS} more" if len(marks) > _MAX_MARKS else ""
        start = lines[line - 1].find(chr(int(marks[0][3:-1], 16)))
        excerpt = _excerpt(lines[line - 1], start, start + 1)
        message = f"Has characters that nobody can see: {names}{more}"
        yield ScanFinding(path, "invisible", "warning", message, line, excerpt)


def _excerpt(text: str, start: int, end: int) -> str:
    """Return what was found with what stands beside it, on one line with nothing hidden."""
    begin = max(text.rfind("\n", 0, start) + 1, start - EXCERPT // 3)
    stop = text.find("\n", end)
    stop = min(len(text) if stop < 0 else stop, begin + EXCERPT)
    piece = " ".join(text[begin : max(stop, min(end, begin + EXCERPT))].split())
    return shown(piece, EXCERPT)


def _is_near(name: str, other: str) -> bool:
    if _drawn(name) == _drawn(other):
        return True
    # `rule-1` and `rule-2` are no attempt to deceive.
    if min(len(name), len(other)) < _NEAR or _DIGITS.sub("", name) == _DIGITS.sub("", other):
        return False
    one, two = _one_less(name), _one_less(other)
    return name in two or other in one or not one.isdisjoint(two)


def _drawn(name: str) -> str:
    """Return what names that look alike have in common; hyphens are easily overlooked, too."""
    plain = name.lower().translate(DRAWN_LIKE).translate(_SINGLE_SIGNS)
    for pair, letter in _PAIRS:
        plain = plain.replace(pair, letter)
    return plain.replace("-", "").replace("_", "")


def _one_less(name: str) -> set[str]:
    """Return a name without each of its letters: two that share one differ in a letter, or in its place."""
    return {name[:at] + name[at + 1 :] for at in range(len(name))}


class _Trait(NamedTuple):
    kind: Kind
    level: Level
    roles: frozenset[Role]
    message: str
    pattern: str
    unless: Callable[[str, Any], bool] | None = None
    """Returns whether a match means something else, by what stands around it."""


def _is_negated(text: str, match: Any) -> bool:
    """Return whether the sentence forbids it: `never send this without telling the user`."""
    before = text[max(0, match.start() - 80) : match.start()].lower()
    sentence = before.replace("\n\n", ". ").rpartition(". ")[2]
    return any(word in sentence for word in ("never", "not ", "n't", "cannot", "avoid", "no "))


def _is_read(text: str, match: Any) -> bool:
    """Return whether what the pipe leads to reads the download as JSON."""
    return text[match.end() :].lstrip(" ").startswith("-m json.tool")


_PROGRAM: Final = frozenset[Role]({"program"})
_PROSE: Final = frozenset[Role]({"prose"})
_BOTH: Final = _PROGRAM | _PROSE
_SHELLS: Final = r"(?:sudo\s+(?:-\w+\s+)?)?(?:env\s+)?(?:/(?:usr/)?bin/)?(?:ba|z|da|k|fi)?sh\b"
_INTERPRETERS: Final = rf"(?:{_SHELLS}|(?:sudo\s+)?(?:python[0-9.]*|node|perl|ruby|php|deno|bun)\b)"
_HOME: Final = r"(?:~|\$HOME|\$\{HOME\}|%USERPROFILE%|\$env:USERPROFILE|home\(\)|homedir\(\)|expanduser)"
_PLACES: Final = (
    r"\.ssh\b|\.aws/(?:credentials|config)|\.aws\b|\.netrc\b|\.git-credentials\b|\.gnupg\b|\.npmrc\b|\.pypirc\b"
    r"|\.docker/config|\.kube/config|\.kube\b|\.azure\b|\.config/(?:gcloud|gh|op)\b|\.pgpass\b|\.vault-token\b"
    r"|\.password-store\b|\.(?:bash|zsh|python|psql|mysql)_history\b|Library/Keychains|\.mozilla\b"
    r"|\.config/(?:google-chrome|chromium|BraveSoftware)|\.claude/\.credentials|\.codex/auth"
)
_SECRETS: Final = (
    rf"(?i:{_HOME}[^\n]{{0,24}}?(?:{_PLACES}))"
    r"|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials\b|/etc/shadow\b|\.git-credentials\b|\.ssh/id_"
    r"|\bimport keyring\b|\bkeyring\.get_|\bsecret-tool\s+lookup|find-(?:generic|internet)-password"
    r"|dump-keychain|Library/Keychains|\bLogin Data\b|\bcookies\.sqlite\b|\blogins\.json\b|\bkey4\.db\b"
    r"|\bbrowser_cookie3\b|\bCryptUnprotectData\b|169\.254\.169\.254|metadata\.google\.internal"
)
_USER: Final = r"(?:the\s+|your\s+|any\s+)?(?:user|human|person|operator|customer|developer|owner)s?\b"
_ANY_SKILL: Final = (
    r"(?:any|all|every|each|the)\s+(?:of\s+the\s+)?(?:other|others?)\s+(?:\w+\s+)?(?:skills?|tools?)\b"
)
_EARLIER: Final = (
    r"(?:all\s+|any\s+|the\s+|your\s+|every\s+){0,3}(?:of\s+(?:the|your)\s+)?"
    r"(?:previous|prior|above|earlier|preceding|existing|original|system|safety)\s+"
    r"(?:\w+\s+)?(?:instructions?|prompts?|rules?|messages?|guidelines?|directives?)\b"
)
_DOWNLOAD: Final = r"\b(?:curl|wget|iwr|irm|Invoke-WebRequest|Invoke-RestMethod)\b"

_RULES: Final[Sequence[_Trait]] = (
    _Trait(
        "network", "info", _PROGRAM, "Reaches into the network",
        rf"{_DOWNLOAD}|\b(?:requests|httpx|session|client)\.(?:get|post|put|patch|delete|request)\(\s*"
        r"(?:f?[\"']http|url|\w*url)|\burllib3?\b|\bhttp\.client\b|\bimport (?:requests|httpx|aiohttp|socket|"
        r"ftplib|smtplib|paramiko|websockets?)\b|\bfrom (?:requests|httpx|aiohttp|websockets?)\b|\burlopen\("
        r"|\bfetch\(\s*[`\"'\w]|\bXMLHttpRequest\b|\baxios\b|require\([\"'](?:node:)?(?:https?|net|dgram|tls)[\"']\)"
        r"|from [\"'](?:node:)?(?:https?|net|undici)[\"']|\bnew WebSocket\("
        r"|/dev/tcp/|\b(?:nc|ncat|socat)\s+-?\w"
        r"|\bsocket\.(?:socket|create_connection)\(|\b(?:scp|rsync|sftp|ssh)\s+\S+@",
    ),
    _Trait("credentials", "warning", _PROGRAM, "Names a place of keys, logins or browsers' data", _SECRETS),
    _Trait("credentials", "info", _PROSE, "Names a place of keys, logins or browsers' data", _SECRETS),
    _Trait(
        "environment", "warning", _PROGRAM, "Takes all variables of the environment, keys among them",
        r"json\.dumps\(\s*(?:dict\(\s*)?os\.environ\b|JSON\.stringify\(\s*process\.env\s*[,)]"
        r"|(?:^|[|;&(`]|\$\()[ \t]*(?:printenv|env)[ \t]*(?:\||>|\)|`)",
    ),
    _Trait(
        "encoded", "warning", _BOTH, "Runs code that nobody can read as it stands",
        rf"\bbase64\s+(?:-d|-D|--decode)\b[^\n]{{0,200}}\|\s*{_INTERPRETERS}"
        rf"|\bxxd\s+-r[^\n]{{0,100}}\|\s*{_INTERPRETERS}|\beval\s+[\"']?(?:\$\(|`)[^\n]{{0,200}}\bbase64\b"
        r"|\b(?:exec|eval)\s*\([^\n]{0,120}(?:b64decode|b32decode|b85decode|fromhex|unhexlify|decompress|rot13|marshal)"
        r"|\bmarshal\.loads\(|\b(?:eval|Function)\s*\([^\n]{0,80}(?:\batob\(|[\"']base64[\"']|fromCharCode)"
        r"|(?i:\bpowershell(?:\.exe)?\b[^\n]{0,80}\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{16})"
        r"|(?i:\[Convert\]::FromBase64String[^\n]{0,200}\b(?:iex|Invoke-Expression)\b)",
    ),
    _Trait(
        "downloaded", "warning", _BOTH, "Runs what it downloads, whatever that is by then",
        rf"{_DOWNLOAD}[^\n|`]{{0,300}}\|\s*{_INTERPRETERS}"
        rf"|(?:{_SHELLS}|\bsource|(?:^|\s)\.)\s+<\(\s*(?:curl|wget)\b"
        rf"|{_SHELLS}\s+-c\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b|\beval\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b"
        r"|\b(?:exec|eval)\s*\([^\n]{0,80}(?:urlopen\(|requests\.get\(|httpx\.get\()"
        r"|(?i:\b(?:iex|Invoke-Expression)\b[^\n]{0,60}(?:iwr|irm|DownloadString|Invoke-WebRequest|Invoke-RestMethod))"
        r"|(?i:\b(?:iwr|irm)\b[^\n|]{0,200}\|\s*iex\b)",
        _is_read,
    ),
    _Trait(
        "addresses-skills", "warning", _PROSE, "Tells the model what to do about other skills",
        rf"(?i:\b(?:before|instead\s+of|rather\s+than|prior\s+to)\s+(?:using|loading|invoking|calling|running|activating)\s+"
        rf"{_ANY_SKILL}"
        rf"|\b(?:ignore|disregard|disable|unload|override|bypass|do\s+not\s+(?:use|load|trust)|never\s+(?:use|load|trust)|"
        rf"don[’']t\s+(?:use|load|trust))\s+{_ANY_SKILL}"
        r"|\b(?:takes?|has|have)\s+(?:precedence|priority)\s+over\s+(?:all|any|every|the)\s+(?:other\s+)?(?:skills?|instructions?)\b"
        r"|\b(?:load|use|invoke|activate)\s+this\s+skill\s+(?:first\b|before\s+(?:any|every|all)\b))",
    ),
    _Trait(
        "hides", "warning", _PROSE, "Tells the model to keep something from the user",
        rf"(?i:\b(?:do\s+not|don[’']t|never|must\s+not|should\s+not)\s+(?:ever\s+)?"
        rf"(?:tell|inform|notify|alert|warn)\s+{_USER}"
        rf"|\b(?:do\s+not|don[’']t|never)\s+(?:mention|reveal|disclose|report|show|explain|display)\s+"
        rf"(?:this|that|it|these|any\s+of\s+this)(?:\s+\w+){{0,3}}\s+to\s+{_USER}"
        rf"|\b(?:hide|conceal)\s+(?:\w+\s+){{1,4}}from\s+{_USER}|\bkeep\s+(?:this|it|that|these)(?:\s+\w+){{0,3}}\s+"
        rf"(?:secret|hidden)\b"
        r"|\b(?:secretly|silently)\s+(?:send|upload|post|copy|collect|store|record|exfiltrate|forward|transmit)\b"
        rf"|\bwithout\s+(?:telling|informing|notifying|alerting|the\s+knowledge\s+of)\s+{_USER})",
        _is_negated,
    ),
    _Trait(
        "overrides", "warning", _PROSE, "Tells the model to set aside what others told it",
        rf"(?i:\b(?:ignore|disregard|forget|override|bypass|discard)\s+{_EARLIER}"
        r"|\byou\s+are\s+(?:now|no\s+longer)\s+(?:in\s+)?(?:developer\s+mode|DAN\b|unrestricted|jailbroken|bound\s+by)"
        r"|\b(?:bypass|circumvent|disable|turn\s+off)\s+(?:the\s+|all\s+|any\s+|your\s+)?"
        r"(?:safety|sandbox|approvals?|permission\s+(?:checks?|prompts?|system))\b"
        r"|^\s*<(?:system-reminder|system_prompt)>|\[/?INST\])",
        _is_negated,
    ),
    _Trait(
        "run-this", "warning", _PROSE, "Asks a person to run or install something by hand",
        r"(?i:\b(?:paste|copy)\s+(?:\w+\s+){0,6}(?:in|into|to)\s+(?:\w+\s+)?(?:terminal|console|command\s+prompt|powershell)\b"
        r"|\b(?:download|extract|unzip)\b[^\n]{0,160}\b(?:password|pass|pwd)\s*(?:is|:|=)"
        r"|\bprerequisites?\b[^\n]{0,200}\b(?:download|run|execute|install)\b[^\n]{0,160}\.(?:zip|exe|dmg|pkg|msi|scr|bat)\b"
        r"|\b(?:glot\.io/snippets|pastebin\.com/raw|paste\.rs/\w|transfer\.sh/\w|webhook\.site/\w|requestbin\.\w))",
    ),
    _Trait(
        "comment", "warning", _PROSE, "Has an instruction in a comment, which a rendered page does not show",
        r"(?is:<!--[^>]{0,1000}?\b(?:you\s+(?:must|should|will|are\s+to)|(?:the\s+)?(?:assistant|agent|model|llm|claude|ai)"
        r"\s+(?:must|should|shall|will|has\s+to)|ignore|disregard|silently|secretly|do\s+not\s+(?:tell|mention|reveal|show)"
        r"|exfiltrat\w+|curl\s|wget\s|base64)[^>]{0,1000}?-->)",
    ),
)  # fmt: skip


@cache
def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415 - start-up does not need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    return re2.compile(f"(?m){pattern}", options)
