"""Commands that learn, or come before it: what each of them is given, and its help text."""

from dataclasses import MISSING
from pathlib import Path
from typing import Any, Literal

from supdocnade.cli.options import (
    FEATURES,
    MODEL,
    SEED,
    OnCluster,
    OnDevice,
    Parallel,
    Printing,
    UsageError,
    argument,
    classes_option,
    option,
    photos_argument,
    setting_options,
)
from supdocnade.scene.settings import SceneSettings


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
        Path("supdocnade-demo"), "Folder for scenes, model and report.", "--output", "-o"
    )
    features: str = option("auto", FEATURES)


class Check(Parallel, Printing):
    """Look for problems in a folder of photographs before training.

    PHOTOS is read as by `train`, but nothing is learned and nothing is written. The result lists
    classes, tags, files that are ignored, all files that cannot be read, rare tags, names that
    look alike, near-duplicates, photographs in two classes, and classes with few photographs. The
    exit code is 1 if some photographs or lines of the metadata cannot be read.

    \b
    Examples:
      supdocnade check photos
      supdocnade check photos --json
    """

    photos: str = photos_argument()
    classes: Literal["none", "top", "leaf"] | None = classes_option()
    settings: dict[str, Any] = setting_options(SceneSettings, "min_tag_count")


class Train(OnDevice, Parallel, Printing):
    """Learn classes and tags from a folder of photographs.

    PHOTOS has one sub-folder per class: PHOTOS/coast/1.jpg. Photographs directly in PHOTOS, or in
    PHOTOS/_unlabelled, have no class. Tags are in PHOTOS/metadata.jsonl or metadata.csv (file_name,
    label, tags), or in XMP sidecars and the photographs themselves, as keywords. PHOTOS may also be
    a corpus of `supdocnade encode`: its visual words are used, and the photographs need not fit
    into memory. Nothing leaves this machine.

    --resume continues a run that was interrupted with Ctrl-C or by a file that cannot be read.
    Settings must stay the same, except --skip-unreadable, --jobs, --cache, --force, --json and
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

    photos: str = photos_argument()
    output: Path = option(MISSING, "Folder of the new model.", "--output", "-o")
    classes: Literal["none", "top", "leaf"] | None = classes_option()
    features: str = option("auto", FEATURES)
    settings: dict[str, Any] = setting_options(SceneSettings)
    skip_unreadable: bool = option(
        False, "Skip photographs and lines of the metadata that cannot be read."
    )
    cache: Path | None = option(None, "Cache folder, so that photographs are not analysed again.")
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
    force: bool = option(False, "Replace an existing model.")
    resume: bool = option(False, "Resume an interrupted run.")
    restart: bool = option(False, "Discard an interrupted run.")
    seed: int = option(0, SEED, min=0)
    given: frozenset[str] = frozenset()
    """Names of the options on the command line."""


class Encode(OnCluster, Printing):
    """Write the visual words of photographs as a corpus.

    The words are those of a trained model. PHOTOS is read as by `train`; CORPUS has the words,
    names, classes and tags of the photographs in a random order, and the visual words; `train`
    learns from it in bounded memory, without reading the photographs again. A run that was
    interrupted resumes when it is started again. The corpus is the same for any number of workers
    and any cluster.

    \b
    Examples:
      supdocnade encode scenes photos -o photos.corpus
      supdocnade encode scenes photos -o photos.corpus --cluster local
      supdocnade train photos.corpus -o large-scenes
    """

    model: Path = argument("MODEL", MODEL)
    photos: str = photos_argument()
    output: Path = option(MISSING, "Corpus to write.", "--output", "-o", metavar="CORPUS")
    classes: Literal["none", "top", "leaf"] | None = classes_option()
    seed: int = option(0, SEED, min=0)
    skip_unreadable: bool = option(
        False, "Skip photographs and lines of the metadata that cannot be read."
    )


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
      supdocnade topics news.jsonl -o model --text-field body --label-field section
      supdocnade topics news.csv -o model --min-df 5 --ngrams 2 --stop-words none
      supdocnade topics texts -o model --resume
      supdocnade topics more-texts --predict model --json
    """

    corpus: Path = argument("CORPUS", "Folder of text files, a .jsonl file or a .csv file.")
    output: Path | None = option(
        None, "Folder of the model to write.", "--output", "-o", metavar="MODEL"
    )
    predict: Path | None = option(
        None, "Print the topics of the texts, by this model.", metavar="MODEL"
    )
    n_topics: int = option(50, "Number of topics.", "--topics", min=1)
    text_field: str = option("text", "Field or column of the text, in a .jsonl or .csv file.")
    label_field: str | None = option(
        None, "Field or column of the label; by default label, if any."
    )
    labels: bool = option(True, "Learn classes, if there are labels.", "--labels/--no-labels")
    min_df: str = option("2", "Ignore words of fewer documents: a number, or a share like 0.01.")
    max_df: str = option("0.5", "Ignore words of more documents: a number, or a share.")
    max_features: int = option(10_000, "Size of the vocabulary: the most frequent words.", min=1)
    ngrams: int = option(1, "Longest sequence of words that counts as one.", min=1)
    stop_words: str = option(
        "english", "Words to ignore: english, none, or a text file with one per line."
    )
    lowercase: bool = option(True, "Ignore the case of letters.", "--lowercase/--keep-case")
    held_out: float = option(0.1, "Share of documents for metrics only.", min=0, max=0.9)
    epochs: int | None = option(
        None, "Passes over the documents; by default 20, more if they are few.", min=1
    )
    learning_rate: float = option(3e-3, "Learning rate.", min=0)
    force: bool = option(False, "Replace an existing model.")
    resume: bool = option(False, "Resume an interrupted run.")
    seed: int = option(0, SEED, min=0)

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        if (self.output is None) == (self.predict is None):
            raise UsageError("give either --output or --predict.")


class Features(Printing):
    """List the features of patches, and import networks.

    Patches are described by sift or by a pretrained network. A network is an ONNX file. --import
    runs it on a test image and copies it to the networks of this user. FILE.json beside it
    describes it; without such a file the options --name to --class-tokens do so. Networks that
    cannot be read are listed on stderr; the exit code is then 1.

    \b
    Examples:
      supdocnade features
      supdocnade features --import dinov2.onnx
      supdocnade features --import resnet.onnx --side 224 --mean 123.7,116.3,103.5 --scale 58
      supdocnade features --remove dinov2
    """

    import_file: Path | None = option(
        None, "ONNX file to import.", "--import", metavar="FILE", exists=True, dir_okay=False
    )
    remove: str | None = option(None, "Imported network to remove.", metavar="NAME")
    name: str | None = option(None, "Name of the network; default: that of its file.")
    side: int | None = option(None, "Side of its input images in pixels.", min=1)
    mean: str | None = option(
        None, "Subtracted from levels of 0 to 255; A,B,C: per channel.", metavar="LEVEL"
    )
    scale: str | None = option(None, "Divisor after that; A,B,C: per channel.", metavar="LEVEL")
    color_order: Literal["rgb", "bgr"] | None = option(None, "Order of its channels; default: rgb.")
    licence: str | None = option(None, "Licence of its weights.", "--licence", "--license")
    outputs: str | None = option(
        None, "Outputs to take, A,B: that of visual words first.", metavar="NAMES"
    )
    class_tokens: int | None = option(None, "Number of tokens before those of patches.", min=0)

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        if self.import_file is not None and self.remove is not None:
            raise UsageError("--import and --remove must not both be given.")
        if self.description() and self.import_file is None:
            raise UsageError("options that describe a network need --import.")

    def description(self) -> dict[str, Any]:
        """Return what options say about a network."""
        found = {
            "name": self.name,
            "side": self.side,
            "mean": parse_levels("--mean", self.mean),
            "scale": parse_levels("--scale", self.scale),
            "color_order": self.color_order,
            "licence": self.licence,
            "outputs": None if self.outputs is None else self.outputs.split(","),
            "class_tokens": self.class_tokens,
        }
        return {key: value for key, value in found.items() if value is not None}


def parse_levels(flag: str, text: str | None) -> list[float] | None:
    """Return the numbers of an option, one for each channel.

    >>> parse_levels("--mean", "103.5, 116.3, 123.7")
    [103.5, 116.3, 123.7]
    """
    if text is None:
        return None
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if len(levels) not in (1, 3):
        raise UsageError(f"{flag} must be one number or three with commas, got {text!r}.")
    return levels if len(levels) == 3 else levels * 3
