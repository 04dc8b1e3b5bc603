"""Make the golden corpus: `python -m tests.golden.make_corpus`.

Run once for every format of corpora; the tests read what it wrote.
"""

from pathlib import Path

import numpy as np

from supdocnade import Corpus
from supdocnade.schema import FORMAT

FOLDER = Path(__file__).parent


def main():
    corpus = Corpus.create(FOLDER / f"corpus_format_{FORMAT}", n_words=4, encoder="sift")
    corpus.append(
        np.array([[2, 0, 1, 0], [0, 0, 0, 0]]), names=["a", "Straße"], labels=["sea", None]
    )
    corpus.append(np.array([[1, 2, 0, 3]]), tags=[["sand", "tide"]])
    (corpus.folder / ".lock").unlink()


if __name__ == "__main__":
    main()
