"""Commands that use a model: what each of them is given, and its help text."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from supdocnade.checks import setting
from supdocnade.cli.options import (
    FORCE,
    MODEL,
    FromPhotos,
    OnDevice,
    Parallel,
    Printing,
    Quiet,
    UsageError,
    argument,
    check_formats,
    option,
)
from supdocnade.errors import BackendUnavailable, install_command

SERVING = ("fastapi", "uvicorn", "multipart")
"""Packages that the server needs."""

MAX_MEGA = 100_000

TABLES = (".csv", ".json", ".jsonl", ".tsv", ".txt")
"""Endings of files, which no folder of predictions has."""


IMAGES = (
    "Photographs, folders, addresses (s3://bucket/photos), tar files, or text files that list "
    "photographs."
)


class Predict(OnDevice, Parallel, Printing):
    """Predict the class and the tags of photographs.

    Results are printed as soon as they are known. Files that cannot be read are listed on stderr;
    the exit code is then 1.
    `supdocnade tag` writes tags beside photographs, for photo managers.

    \b
    Examples:
      supdocnade predict scenes photo.jpg
      supdocnade predict scenes holiday/ --json > holiday.jsonl
      supdocnade predict scenes chosen.txt --csv
      supdocnade predict scenes archive/ -o archive-tags
    """

    model: Path = argument("MODEL", MODEL)
    images: list[str] = argument("IMAGE", IMAGES)
    top: int | None = option(
        None, "Give exactly this many tags; by default, all that are probable enough.", min=1
    )
    csv: bool = option(False, "Print results as CSV.")
    output: Path | None = option(
        None,
        "Write results to files in a new FOLDER, not to stdout. An interrupted run resumes.",
        *("--output", "-o"),
        metavar="FOLDER",
    )

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        check_formats(json=self.json, csv=self.csv)
        if self.output is not None and self.output.suffix.lower() in TABLES:
            raise UsageError(
                f"--output is a folder, got {self.output}; --csv and --json print a table, "
                f"> {self.output} writes it to a file."
            )
        if self.output is not None and self.csv:
            raise UsageError("--csv must not be given with --output.")


class Tag(OnDevice, Parallel, Printing):
    """Write the tags of photographs to XMP sidecars, for photo managers.

    Photographs are not changed, unless --embed is given: tags go to .xmp files beside them, and the
    contents of an existing .xmp file are preserved. A record lists what was written, and --undo,
    which needs no model, removes it again. Photographs unlike the training photographs get no tags.

    \b
    Examples:
      supdocnade tag scenes holiday/ --dry-run
      supdocnade tag scenes holiday/ --record holiday.jsonl
      supdocnade tag scenes holiday/ --embed
      supdocnade tag --undo holiday.jsonl
    """

    model: Path | None = argument("MODEL", MODEL, None)
    images: list[str] | None = argument("IMAGE", IMAGES, None)
    min_probability: float | None = option(
        None,
        "Write tags of at least this probability; by default, for each tag, the probability at "
        "which 80 % were right on held-out photographs.",
        min=0,
        max=1,
    )
    with_class: bool = option(False, "Also write the class as a keyword, unless it is unsure.")
    sidecar: Literal["full", "stem"] = option(
        "full", "full: a.jpg.xmp, as darktable and digiKam name sidecars; stem: a.xmp."
    )
    embed: bool = option(
        False,
        "Write into JPEG files, also into sidecars that exist; only the XMP data of a photograph "
        "change, and --undo restores it. Other formats get sidecars.",
    )
    record: Path | None = option(
        None, "File that records what was written; default: ./supdocnade-xmp-DATE-TIME.jsonl."
    )
    undo: Path | None = option(None, "Take back what RECORD says was written.", metavar="RECORD")
    dry_run: bool = option(False, "Only list the files that would be changed.")
    given: frozenset[str] = frozenset()
    """Names of the options on the command line."""

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        if self.undo is None and not (self.model and self.images):
            raise UsageError("give MODEL and photographs, or --undo.")
        if self.undo is not None and self.given - {"undo", "dry_run", "quiet", "jobs"}:
            raise UsageError("--undo takes no photographs and no option but --dry-run and --quiet.")


class Evaluate(FromPhotos, OnDevice, Parallel, Printing):
    """Measure a model on photographs with known classes and tags.

    PHOTOS is read as by `train`; it may be a corpus that `supdocnade encode` has written with this
    model. Use photographs that the model was not trained on: otherwise the
    results are too good. Accuracy is the share of correct classes; the F-measure compares the five
    best tags with the true ones. The calibration error tells how far the probabilities are off; 0
    is perfect. The precision of a tag is the share of right ones among its predictions, its recall
    the share of the photographs with the tag that were found.

    \b
    Examples:
      supdocnade evaluate scenes other-photos
      supdocnade evaluate scenes other-photos --json
      supdocnade evaluate scenes other-photos.corpus
    """

    model: Path = argument("MODEL", MODEL)
    all_rows: bool = option(False, "Print the whole confusion matrix, and all tags.", "--all")


class Explain(OnDevice, Printing):
    """Show which patches of a photograph support a class or a tag.

    Bright parts of the picture support the answer, dark parts oppose it. --json prints the share of
    every patch in the score.

    \b
    Examples:
      supdocnade explain scenes photo.jpg
      supdocnade explain scenes photo.jpg --tag boat -o boat.png
      supdocnade explain scenes photo.jpg --label street --json
    """

    model: Path = argument("MODEL", MODEL)
    image: Path = argument("IMAGE", "A photograph.")
    label: str | None = option(None, "Class to explain; default: the predicted one.")
    tag: str | None = option(None, "Tag to explain instead of a class.")
    output: Path | None = option(
        None, "Picture to write, .png; default: ./IMAGE-NAME.png.", *("--output", "-o")
    )

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        if self.label is not None and self.tag is not None:
            raise UsageError("--label and --tag must not both be given.")


class Suggest(OnDevice, Parallel, Printing):
    """List the photographs whose labels would teach a model the most.

    They are those whose class or tags the model is uncertain of, without near-duplicates of each
    other, the most useful first. Photographs that it has learned from are left out. Label them in a
    table (--csv) or on the page (serve --corrections), then use train --add --corrections.

    \b
    Examples:
      supdocnade suggest scenes archive
      supdocnade suggest scenes archive -n 50 --csv > labels.csv
      supdocnade train archive --add scenes --corrections labels.csv -o better-scenes
      supdocnade suggest scenes archive --json | jq -r .file > suggested.txt
    """

    model: Path = argument("MODEL", MODEL)
    photos: list[str] = argument("PHOTOS", "Folders of photographs, or other places, as predict.")
    count: int = option(20, "Length of the list.", "--count", "-n", min=1)
    csv: bool = option(False, "Print a table with empty columns label and tags, to fill in.")

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        check_formats(json=self.json, csv=self.csv)


class Info(Printing):
    """List the classes, tags, settings and metrics of a model.

    The metrics are those on photographs that were held out while the model was trained. Beside each
    tag are the number of its photographs and the least probability at which `supdocnade tag` writes
    it.

    \b
    Examples:
      supdocnade info scenes
      supdocnade info scenes --json
    """

    model: Path = argument("MODEL", MODEL)
    all_rows: bool = option(False, "Also print the settings.", "--all")


class Report(Printing):
    """Write a report of a model as one HTML file.

    The report opens without a network. It shows how the model performed on held-out photographs,
    each class and topic, and photographs that the model got right and wrong.

    \b
    Examples:
      supdocnade report scenes
      supdocnade report scenes -o scenes.html
    """

    model: Path = argument("MODEL", MODEL)
    output: Path | None = option(
        None, "File to write; default: MODEL/report.html.", "--output", "-o"
    )


class Index(Parallel, Printing):
    """Index folders of photographs for the gallery.

    The gallery of `supdocnade serve` finds similar photographs and photographs with a tag. The
    index holds topics, predictions and thumbnails; the photographs are only read. A second run
    adds folders, reads only new and changed files, drops those that are gone from the folders
    given, and resumes an interrupted run. Files that cannot be read are listed on stderr; the exit
    code is then 1.

    \b
    Examples:
      supdocnade index scenes holiday
      supdocnade index scenes holiday family archive
      supdocnade index scenes holiday -o holiday.index
    """

    model: Path = argument("MODEL", MODEL)
    photos: list[str] = argument("PHOTOS", "Folders of photographs, or other places, as for train.")
    output: Path | None = option(None, "Index to write; default: MODEL.index.", "--output", "-o")
    replace: bool = option(
        False, "Make the index of these folders alone, also if it is one of another model."
    )


class Serve(Parallel, Printing):
    """Serve a web page and a REST API for a model.

    Drop photographs on the page to see their classes and tags, with explanations. Nothing is
    stored, except by --corrections and --photos, and nothing leaves this machine. Programs use
    POST /v1/predict; /docs describes the API. SIGTERM finishes the requests in progress and stops
    the server; Ctrl-C stops it within two seconds.

    \b
    Examples:
      supdocnade serve scenes
      supdocnade serve scenes --index holiday.index --port 8080
      supdocnade serve scenes --corrections corrections.jsonl --photos holiday
      SUPDOCNADE_TOKEN=secret supdocnade serve scenes --host 0.0.0.0
    """

    model: Path = argument("MODEL", MODEL)
    index: Path | None = option(
        None, "Index for the gallery; by default MODEL.index, if it exists."
    )
    corrections: Path | None = option(
        None,
        "Let the page correct classes and tags, and append them to this .jsonl file, for train "
        "--add; by default nothing is kept.",
        metavar="FILE",
    )
    photos: list[Path] | None = option(
        None,
        "Folder whose photographs the page may open and write keywords for; may be repeated.",
        metavar="FOLDER",
    )
    host: str = option("127.0.0.1", "Address to listen on; by default only this machine is served.")
    port: int = option(8000, "Port; 0: any free port.", min=0, max=65535)
    token: str | None = option(
        None,
        "Require this token; better set as SUPDOCNADE_TOKEN, which other users cannot see.",
        envvar="SUPDOCNADE_TOKEN",
        show_envvar=False,
    )
    allow_open: bool = option(False, "Serve other machines without a token.")
    max_megabytes: float = setting(64, least=0.001, most=MAX_MEGA)
    max_megapixels: float = setting(64, least=0.001, most=MAX_MEGA)
    max_images: int = setting(32, least=1)
    timeout: float = setting(30, least=0.1)
    allow_host: str = setting("")

    def check(self) -> None:
        """Raise an error if the extra is missing."""
        super().check()
        missing = [name for name in SERVING if find_spec(name) is None]
        if missing:
            raise BackendUnavailable(
                f"serving needs an extra that is not installed: {install_command('serve')} "
                f"({missing[0]} is missing)."
            )


class Card(Quiet):
    """Print the model card of a model, or write a copy to share.

    The card has data, classes, results and features. With --output, the model is written with its
    card (README.md) to a folder that can be given to others or uploaded, and the command says what
    of the training photographs it carries. A stripped model predicts the same, but no photographs
    can be added to it. A folder that holds another model is refused without --force; MODEL itself
    is never replaced. Nothing leaves this machine.

    \b
    Examples:
      supdocnade card scenes
      supdocnade card scenes -o shared-scenes --strip --licence cc-by-4.0
    """

    model: Path = argument("MODEL", MODEL)
    output: Path | None = option(
        None,
        "Write the model with its card to a new folder, to be shared.",
        *("--output", "-o"),
        metavar="FOLDER",
    )
    strip: bool = option(False, "Leave thumbnails and names of the training photographs out of it.")
    force: bool = option(False, FORCE)
    name: str | None = option(
        None, "Name of the model in the card; default: the name of its folder."
    )
    licence: str | None = option(
        None, "Licence of the model, such as cc-by-4.0.", "--licence", "--license"
    )

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        if self.strip and self.output is None:
            raise UsageError("--strip needs --output.")
