"""Commands that learn, or come before it: what each of them is given, and its help text."""

from dataclasses import MISSING
from pathlib import Path
from typing import Any

from supdocnade.checks import setting
from supdocnade.cli.options import (
    FEATURES,
    FORCE,
    MODEL,
    RESUME,
    SEED,
    SKIP,
    FromPhotos,
    OnDevice,
    Parallel,
    Printing,
    UsageError,
    argument,
    option,
    settings_of,
)
from supdocnade.estimators.settings import SupDocNADESettings
from supdocnade.scene.settings import SceneSettings
from supdocnade.visual_words.settings import VisualWordSettings


class Demo(OnDevice, Parallel, Printing):
    """Train and evaluate a model on drawn scenes, in a minute or two.

    No photographs are needed. The demo learns from drawn scenes of eight classes, tests the model
    on fresh scenes, and writes a report.

    \b
    Examples:
      supdocnade demo
      supdocnade demo -o somewhere --features sift
    """

    output: Path = option(
        Path("supdocnade-demo"), "Folder for scenes, model and report.", *("--output", "-o")
    )
    features: str = option("auto", FEATURES)


class Check(FromPhotos, Parallel, Printing):
    """Look for problems in a folder of photographs before training.

    PHOTOS is read as by `train`, but nothing is learned and nothing is written. The result lists
    classes, tags, files that are ignored, all files that cannot be read, rare tags, names that
    look alike, near-duplicates, photographs in two classes, and classes with few photographs; with
    --model also photographs that are probably in the wrong folder or have wrong tags. The exit code
    is 1 if some photographs or lines of the metadata cannot be read.

    \b
    Examples:
      supdocnade check photos
      supdocnade check photos --model scenes
      supdocnade check photos --json
    """

    model: Path | None = option(
        None, "Compare classes and tags with the predictions of this model.", metavar="MODEL"
    )


class Train(FromPhotos, OnDevice, Parallel, Printing):
    """Learn classes and tags from a folder of photographs.

    PHOTOS has one sub-folder per class: PHOTOS/coast/1.jpg. Photographs directly in PHOTOS, or in
    PHOTOS/_unlabelled, have no class. Tags are in PHOTOS/metadata.jsonl or metadata.csv (file_name,
    label, tags), or in XMP sidecars and the photographs themselves, as keywords. PHOTOS may also be
    a corpus of `supdocnade encode`: its visual words are used, and the photographs need not fit
    into memory. Nothing leaves this machine.

    --resume continues a run that was interrupted with Ctrl-C or by a file that cannot be read.
    Settings must stay the same, except --skip-unreadable, --jobs, --set cache, --force, --json and
    --quiet.

    \b
    Examples:
      supdocnade train photos -o scenes
      supdocnade train photos -o scenes --seed 1
      supdocnade train photos -o scenes --resume
      supdocnade train 'shards-{000..010}.tar' -o scenes
      supdocnade train more-photos --add scenes -o more-scenes
      supdocnade train archive --add scenes --corrections corrections.jsonl -o better-scenes
      supdocnade train photos.corpus -o large-scenes
    """

    features: str = option("auto", FEATURES)
    n_topics: int | None = option(
        None, "Number of topics; by default 200, or 512 with a network.", "--topics", min=1
    )
    n_words: int | None = option(
        None,
        "Number of visual words, fewer for few photographs; by default 500, or 1000 with a "
        "network.",
        "--words",
        min=2,
    )
    settings: dict[str, Any] = settings_of(
        *(VisualWordSettings, SupDocNADESettings, SceneSettings),
        without=("features", "n_topics", "n_words", "random_state"),
    )
    seed: int = option(0, SEED, min=0)
    skip_unreadable: bool = option(False, SKIP)
    cache: str | None = setting(None)
    """Folder of the words of photographs, so that they are not analysed again."""
    add: Path | None = option(
        None,
        "Extend this model: train on its photographs and the new ones, keeping its visual words.",
    )
    corrections: Path | None = option(
        None,
        "With --add: learn only from the photographs of PHOTOS that FILE corrects, a .jsonl file "
        "of serve --corrections, or a filled-in list of suggest --csv.",
        metavar="FILE",
    )
    output: Path = option(MISSING, "Folder of the new model.", "--output", "-o")
    force: bool = option(False, FORCE)
    resume: bool = option(False, RESUME)
    given: frozenset[str] = frozenset()
    """Names of the options on the command line."""


class Encode(FromPhotos, OnDevice, Parallel, Printing):
    """Write the visual words of photographs as a corpus.

    The words are those of a trained model. PHOTOS is read as by `train`; CORPUS has the words,
    names, classes and tags of the photographs in a random order, and the visual words; `train`
    learns from it in bounded memory, without reading the photographs again. A run that was
    interrupted resumes when it is started again. The corpus is the same for any number of workers.

    \b
    Examples:
      supdocnade encode scenes photos -o photos.corpus
      supdocnade train photos.corpus -o large-scenes
    """

    model: Path = argument("MODEL", MODEL)
    output: Path = option(MISSING, "Corpus to write.", "--output", "-o", metavar="CORPUS")
    seed: int = option(0, SEED, min=0)
    skip_unreadable: bool = option(False, SKIP)


class Topics(Parallel, Printing):
    """Learn topics from texts.

    CORPUS is a folder of text files, whose sub-folders are the labels if there are several; a
    .jsonl file with one object per line; or a .csv file with a header. Files are in UTF-8. Words
    are counted as by scikit-learn's CountVectorizer. MODEL has the model and report.html: topics as
    words, their documents, perplexity, coherence and diversity. With labels the model also learns
    to classify. --predict prints the strongest topics of other texts, and their classes.

    \b
    Examples:
      supdocnade topics texts -o model --topics 20
      supdocnade topics news.jsonl -o model --fields body,section
      supdocnade topics news.csv -o model --set min_df=5 --set ngrams=2 --set stop_words=none
      supdocnade topics texts -o model --resume
      supdocnade topics more-texts --predict model --json
    """

    corpus: Path = argument("CORPUS", "Folder of text files, a .jsonl file or a .csv file.")
    output: Path | None = option(
        None, "Folder of the model to write.", *("--output", "-o"), metavar="MODEL"
    )
    predict: Path | None = option(
        None, "Print the topics of the texts, by this model.", metavar="MODEL"
    )
    force: bool = option(False, FORCE)
    resume: bool = option(False, RESUME)
    fields: str | None = option(
        None,
        "Fields or columns of the text and the label in a .jsonl or .csv file; by default text, "
        "and label if there is one.",
        metavar="TEXT,LABEL",
    )
    n_topics: int | None = option(
        None, "Number of topics; by default, 5 to 50 by the number of documents.", "--topics", min=1
    )
    seed: int = option(0, SEED, min=0)
    labels: bool = setting(True)
    lowercase: bool = setting(True)
    ngrams: int = setting(1, least=1)
    stop_words: str = setting("english")
    min_df: str = setting("2")
    max_df: str = setting("0.5")
    max_features: int = setting(10_000, least=1)
    held_out: float = setting(0.1, least=0, most=0.9)
    max_epochs: int | None = setting(None, least=1)
    learning_rate: float | None = setting(None, above=0)

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        if (self.output is None) == (self.predict is None):
            raise UsageError("give either --output or --predict.")


class Features(Printing):
    """List the features of patches, and import networks.

    Patches are described by sift or by a pretrained network. A network is an ONNX file; a JSON file
    of the same name beside it describes it. --import runs it on a test image and copies both to the
    networks of this user. Networks that cannot be read are listed on stderr; the exit code is then
    1.

    \b
    Examples:
      supdocnade features
      supdocnade features --import dinov2.onnx
    """

    import_file: Path | None = option(
        None, "ONNX file to import.", "--import", metavar="FILE", exists=True, dir_okay=False
    )
