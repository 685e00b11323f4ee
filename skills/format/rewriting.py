"""Write another description into a SKILL.md, and leave every other byte as it is."""

import json

import yaml

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.format.frontmatter import split


class NotRewrittenError(DetailedError, SkillError):
    """A SKILL.md whose description cannot be replaced by a program."""

    sentence = "The description stays as it is: {reason}. Put it in by hand."
    reason: str


def with_description(raw: bytes, description: str) -> bytes:
    """Return a SKILL.md with another description, as one quoted line. Raises NotRewrittenError.

    Comments, the order of fields, quoting and line ends of all else stay.
    """
    where = split(raw)
    written = where.frontmatter
    try:
        changed = _changed(written.decode("utf-8"), description)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise NotRewrittenError("its frontmatter is no YAML") from error
    at = raw.index(written)
    return raw[:at] + changed.encode() + raw[at + len(written) :]


def _changed(text: str, description: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    fields = root.value if isinstance(root, yaml.MappingNode) else []
    values = [value for key, value in fields if key.value == "description"]
    if len(values) != 1 or not isinstance(values[0], yaml.ScalarNode):
        raise NotRewrittenError("the frontmatter does not have one description as a text")
    (value,) = values
    start, end = value.start_mark.index, value.end_mark.index
    was = text[start:end]
    ends = was[len(was.rstrip()) :] if value.style in {"|", ">"} else ""
    changed = f"{text[:start]}{_quoted(description)}{ends}{text[end:]}"
    if yaml.safe_load(changed) != yaml.safe_load(text) | {"description": description}:
        raise NotRewrittenError("another field would change with it")
    return changed


def _quoted(text: str) -> str:
    """Return a text as YAML in double quotes, which takes what JSON writes, but no line ends of Unicode."""
    written = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in written)
