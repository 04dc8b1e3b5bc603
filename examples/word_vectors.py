"""Start DocNADE from pretrained word vectors: W begins as the vectors, and learns from there.

python examples/word_vectors.py TEXTS VECTORS

TEXTS has a document per line, VECTORS a word and its numbers per line, as GloVe writes them. Words
without a vector begin as the model would have begun them. Vectors help where the texts are few or
short: they know words that hardly occur in them.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from supdocnade import DocNADE

SCALE = 0.1
"""Root mean square of the rows of W at the start; large rows saturate sigmoid units."""


def read_vectors(path: str | Path) -> dict[str, NDArray[np.float32]]:
    """Return the vector of every word in a file of lines `word number number ...`."""
    rows = (line.split(" ") for line in Path(path).read_text("utf-8").splitlines())
    return {word: np.array(numbers, np.float32) for word, *numbers in rows}


def fit_from_vectors(
    X: Any, words: Sequence[str], vectors: Mapping[str, NDArray[np.float32]], **settings: Any
) -> DocNADE:
    """Return a fitted DocNADE with a hidden unit per number of a vector.

    Parameters
    ----------
    X : (documents, words) counts.
    words : names of the columns.
    vectors : of words, by name.
    """
    model = DocNADE.for_texts(X, len(next(iter(vectors.values()))), **settings)
    model.partial_fit(X)  # It makes the tree, the biases and W.
    known = [number for number, word in enumerate(words) if word in vectors]
    start = np.array([vectors[words[number]] for number in known])
    start *= SCALE / np.sqrt(np.square(start).mean())
    with torch.no_grad():
        model.network_.word_embedding[known] = torch.from_numpy(start)
    for _ in range(model.max_epochs - 1):
        model.partial_fit(X)
    return model


if __name__ == "__main__":
    texts = Path(sys.argv[1]).read_text("utf-8").splitlines()
    counter = CountVectorizer(stop_words="english", min_df=2)
    counts = counter.fit_transform(texts)
    names = counter.get_feature_names_out()
    fitted = fit_from_vectors(counts, names, read_vectors(sys.argv[2]), random_state=0)
    print(f"perplexity by completion: {fitted.completion_perplexity(counts):.1f}")
    for topic in fitted.top_words(8, names, documents=counts):
        print(*topic)
