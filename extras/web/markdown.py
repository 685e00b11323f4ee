"""A program that makes Markdown of HTML: bytes of UTF-8 on stdin and on stdout.

    python markdown.py MAX_BYTES_OUT < page.html > page.md

It is a process of its own, with limits, because a page of some kilobytes can ask for gigabytes: a table of
3,000 columns in one row and of 3,000 rows has nine million cells. What is over a limit ends this process,
and no agent. Of libraries, html-to-markdown has a parser that deep and broken pages do not slow down, and
needs no other package; markdownify meets Python's limit of recursion at a few hundred levels.
"""

import sys

MEMORY = 1 << 30
CPU_SECONDS = 10


def convert(limit: int) -> None:
    """Write the Markdown of what is read, up to `limit` bytes."""
    import resource  # noqa: PLC0415 - POSIX systems have it alone

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from html_to_markdown import ConversionOptions  # noqa: PLC0415 - within the limits
    from html_to_markdown import convert as to_markdown  # noqa: PLC0415

    options = ConversionOptions(extract_metadata=False, skip_images=True)
    text = to_markdown(sys.stdin.buffer.read().decode("utf-8", errors="replace"), options).content or ""
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace")[:limit])


if __name__ == "__main__":
    convert(int(sys.argv[1]))
