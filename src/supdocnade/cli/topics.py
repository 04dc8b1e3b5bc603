"""`supdocnade topics`: learn topics from texts, or find those of other texts."""

from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    print_json,
)
from supdocnade.cli.options import UsageError


def parse_frequency(text: str) -> int | float:
    """Return a number of documents, or a share of them if there is a decimal point.

    >>> parse_frequency("5"), parse_frequency("0.5")
    (5, 0.5)
    """
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise UsageError(
            f"--min-df and --max-df must be a whole number or a share like 0.5, got {text}."
        ) from None


MinFrequency = Annotated[
    str, typer.Option(help="Ignore words of fewer documents: a number, or a share like 0.01.")
]
MaxFrequency = Annotated[
    str, typer.Option(help="Ignore words of more documents: a number, or a share.")
]
VocabularySize = Annotated[
    int, typer.Option(min=1, help="Size of the vocabulary: the most frequent words.")
]
NGrams = Annotated[int, typer.Option(min=1, help="Longest sequence of words that counts as one.")]
StopWords = Annotated[
    str,
    typer.Option(help="Words to ignore: english, none, or a text file with one per line."),
]
Lowercase = Annotated[
    bool, typer.Option("--lowercase/--keep-case", help="Ignore the case of letters.")
]
HeldOut = Annotated[
    float, typer.Option(min=0, max=0.9, help="Share of documents that is only for figures.")
]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="Passes over the documents; by default 20, more if they are few."),
]
CorpusPath = Annotated[
    Path,
    typer.Argument(metavar="CORPUS", help="Folder of text files, a .jsonl file or a .csv file."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="MODEL", help="Folder of the model to write."),
]
Predict = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", help="Print the topics of the texts, by this model."),
]
TextField = Annotated[
    str, typer.Option(help="Field or column of the text, in a .jsonl or .csv file.")
]
LabelField = Annotated[
    str | None, typer.Option(help="Field or column of the label; by default label, if any.")
]
Labels = Annotated[
    bool, typer.Option("--labels/--no-labels", help="Learn classes, if there are labels.")
]


def topics(
    context: typer.Context,
    corpus: CorpusPath,
    output: Output = None,
    predict: Predict = None,
    n_topics: Annotated[int, typer.Option("--topics", min=1, help="Number of topics.")] = 50,
    text_field: TextField = "text",
    label_field: LabelField = None,
    labels: Labels = True,
    min_df: MinFrequency = "2",
    max_df: MaxFrequency = "0.5",
    max_features: VocabularySize = 10_000,
    ngrams: NGrams = 1,
    stop_words: StopWords = "english",
    lowercase: Lowercase = True,
    held_out: HeldOut = 0.1,
    epochs: Epochs = None,
    learning_rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 3e-3,
    force: opt.Force = False,
    resume: opt.Resume = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Learn topics from texts.

    CORPUS is a folder of text files, of which sub-folders are the labels if there are several; a
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
    from supdocnade.cli.run_topics import (
        learn_topics,
        model_to_dict,
        print_summary,
        print_topics,
        read_stop_words,
    )

    if predict is not None and output is None:
        print_topics(predict, corpus, text_field, json)
        return
    if output is None or predict is not None:
        raise UsageError("give either --output or --predict.")
    stop = read_stop_words(stop_words)
    vectorizer = {"lowercase": lowercase, "ngram_range": (1, ngrams), "stop_words": stop}
    least, most = parse_frequency(min_df), parse_frequency(max_df)
    limits = {"min_df": least, "max_df": most, "max_features": max_features}
    model = learn_topics(context.params, vectorizer, limits)
    if json:
        print_json(model_to_dict(model, output))
    elif not quiet:
        print_summary(model, output)
