"""Names that seem to be another's: `сsv-report` with a Cyrillic first letter is not `csv-report`."""

import unicodedata
from collections.abc import Iterable
from typing import Final

# Letters of other scripts that most fonts draw like a Latin one (from Unicode's confusables.txt).
_DRAWN_LIKE: Final = str.maketrans(
    "аΑαеЕорРсСуУхХВкКмМнНтТіІјЈѕЅһԁԛԝɡıοΟρΡνκΚΤΒΕΖΗΙΜΝΧΥγυωոսօ",
    "aaaeeoppccyyxxbkkmmhhttiijjsshdqwgiooppvkktbezhimnxyyuwnuo",
)


def lookalikes_among(names: Iterable[str]) -> dict[str, str]:
    """Map every name with letters of other scripts to the plain name among the others that it seems to be."""
    every = set(names)
    foreign = [name for name in every if not name.isascii()]
    plain = {name.lower(): name for name in every if name.isascii()} if foreign else {}
    return {name: plain[drawn] for name in foreign if (drawn := _as_drawn(name)) in plain}


def _as_drawn(name: str) -> str:
    return unicodedata.normalize("NFKC", name).translate(_DRAWN_LIKE).lower()
