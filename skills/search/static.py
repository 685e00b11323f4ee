"""Search by meaning without a service: the vectors of the package `wordllama`, one for each token.

    build_graph(settings, embeddings=StaticEmbeddings())      # pip install 'skills-agent[meaning]'

The package's own loader may download; this one reads the two files that its wheel carries, 16 MB of weights
and the tokenizer. A text is the mean of the vectors of its tokens: 0.1 ms.
"""

from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEmbeddings:
    """An embedding model of 256 numbers a text, in this process; its files are read at first use."""

    def __init__(self) -> None:
        """Find the package. Raises ModuleNotFoundError, which says what to install."""
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("StaticEmbeddings needs: pip install 'skills-agent[meaning]'")
        self._package = Path(spec.origin).parent

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text; zeros for one without a token."""
        tokenizer, weights = self._files
        tokens = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
        return [weights[ids].sum(axis=0, dtype="float32").tolist() for ids in tokens]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    @cached_property
    def _files(self) -> tuple[Any, Any]:
        from safetensors.numpy import load_file  # noqa: PLC0415 - these two take 60 ms
        from tokenizers import Tokenizer  # noqa: PLC0415

        tokenizer = Tokenizer.from_file(str(self._package / _TOKENIZER))
        tokenizer.no_truncation()
        return tokenizer, load_file(self._package / _WEIGHTS)["embedding.weight"]
