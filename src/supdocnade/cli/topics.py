"""`supdocnade topics`: learn topics from texts, or find the topics of other texts."""

import os
import shlex
from pathlib import Path
from typing import Any

from supdocnade.cli.console import (
    format_count,
    format_right,
    print_json,
    print_line,
    print_message,
    show_progress,
)
from supdocnade.cli.learning_commands import Topics
from supdocnade.cli.options import UsageError
from supdocnade.cli.stopping import explain_resuming
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.text_model import (
    TextModel,
    check_folder,
    split_texts,
    topic_quality,
)
from supdocnade.folders.texts import Texts, read_texts
from supdocnade.metrics import top_ranked
from supdocnade.report.html import render_text_report
from supdocnade.runs import RunOptions
from supdocnade.storage import write_atomically
from supdocnade.text import read_lines
from supdocnade.unfinished import PartialFolder

REPORT = "report.html"

SETTINGS = (
    "n_topics", "activation", "tree", "learning_rate", "max_epochs", "batch_size", "random_state"
)  # fmt: skip
"""Settings of the estimator that the report lists."""

N_SHOWN = 3
"""Topics of a document that --predict names."""


def topics(options: Topics) -> None:
    """Learn topics, or print the topics of other texts."""
    if options.output is None:
        assert options.predict is not None, "checked"
        print_topics(options.predict, options.corpus, parse_fields(options.fields)[0], options.json)
        return
    model = learn_topics(options, options.output)
    if options.json:
        print_json(model_to_dict(model, options.output))
    elif not options.quiet:
        print_summary(model, options.output)


def parse_frequency(text: str) -> int | float:
    """Return a number of documents, or a share of them if there is a decimal point.

    >>> parse_frequency("5"), parse_frequency("0.5")
    (5, 0.5)
    """
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise UsageError(
            f"--set min_df and max_df must be a whole number or a share like 0.5, got {text}."
        ) from None


def parse_fields(given: str | None) -> tuple[str, str | None]:
    """Return the fields of text and label.

    >>> parse_fields(None), parse_fields("body"), parse_fields("body, section")
    (('text', None), ('body', None), ('body', 'section'))
    """
    text, _, label = (given or "").partition(",")
    return text.strip() or "text", label.strip() or None


def read_stop_words(given: str) -> str | list[str] | None:
    """Return stop words as `CountVectorizer` takes them: a language, a list, or None."""
    if given in ("english", "none"):
        return None if given == "none" else given
    return sorted({word.strip() for word in read_lines(Path(given))} - {""})


def learn_topics(options: Topics, output: Path) -> TextModel:
    """Learn topics and write the model with its report."""
    corpus, quiet = options.corpus, options.quiet
    stop = read_stop_words(options.stop_words)
    # Settings of `CountVectorizer`: how texts are split into words, and the choice of these.
    vectorizer = {
        "lowercase": options.lowercase,
        "ngram_range": (1, options.ngrams),
        "stop_words": stop,
    }
    limits = {
        "min_df": parse_frequency(options.min_df),
        "max_df": parse_frequency(options.max_df),
        "max_features": options.max_features,
    }
    check_folder(output, force=options.force)
    partial = PartialFolder(output, "topics")
    with partial.lock():
        partial.choose_plan(resume=options.resume)
        texts = read_documents(corpus, *parse_fields(options.fields), quiet)
        partial.write_plan({})
        checkpoint = partial.folder / "checkpoint"
        again = shlex.join(["supdocnade", "topics", os.fspath(corpus), "-o", os.fspath(output)])
        explain_resuming(f"resume with: {again} --resume and the same options")
        try:
            with show_progress(options, checkpoint=checkpoint) as run:
                model = _learn(options, output, vectorizer, limits, texts, run)
        except Exception:
            if not any(checkpoint.rglob("*.safetensors")):
                partial.discard()
            raise
        partial.discard()
    return model


def read_documents(
    corpus: Path, text_field: str, label_field: str | None, quiet: bool = True
) -> Texts:
    """Return the texts of a place that are not empty; raise if there are none."""
    found = read_texts(corpus, text_field, label_field)
    kept = [row for row, text in enumerate(found.texts) if text.strip()]
    if not kept:
        what = "only empty ones" if found.texts else "none"
        raise InvalidArgument(f"{corpus} must hold texts, got {what}.")
    n_empty = len(found.texts) - len(kept)
    if n_empty and not quiet:
        example = next(name for name, text in zip(*found[:2], strict=True) if not text.strip())
        print_message(
            f"note: {format_count(n_empty, 'document')} without text left out, such as {example}."
        )
    return found.select(kept)


def _learn(
    options: Topics,
    output: Path,
    vectorizer: dict[str, Any],
    limits: dict[str, Any],
    texts: Texts,
    run: RunOptions,
) -> TextModel:
    """Learn topics and write the model with its report."""
    learned, held_out = split_texts(texts, options.held_out, options.seed)
    chosen = {name: getattr(options, name) for name in ("n_topics", "learning_rate", "max_epochs")}
    model = TextModel.learn(
        learned,
        held_out,
        vectorizer=vectorizer,
        limits=limits,
        with_classes=options.labels,
        options=run,
        random_state=options.seed,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    run.progress("writing", 0, 1)
    output.mkdir(parents=True, exist_ok=True)
    model.save(output)
    counts = model.count(learned.texts)
    settings = estimator_settings(model)
    page = render_text_report(
        model,
        learned,
        model.topics_of(counts),
        topic_quality(model.words, model.vocabulary, counts)[0],
        list_settings({**vectorizer, **limits, **settings, "held_out": options.held_out}),
        output.name or "Topics",
    )
    write_atomically(output / REPORT, page.encode("utf-8", "replace"))
    run.progress("writing", 1, 1)
    return model


def estimator_settings(model: TextModel) -> dict[str, Any]:
    """Return the settings of the estimator, those that were chosen by the texts included."""
    names = (*SETTINGS, *(["generative_weight"] if model.classes else []))
    return {name: getattr(model.estimator, name) for name in names}


def list_settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return names and values for the report, of a list of stop words only its length."""
    stop = settings["stop_words"]
    shown = {"stop_words": format_count(len(stop), "word")} if isinstance(stop, list) else {}
    return [(name, str(value)) for name, value in {**settings, **shown}.items()]


def model_to_dict(model: TextModel, output: Path) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    return {
        "model": os.fspath(output),
        "report": os.fspath(output / REPORT),
        "metrics": dict(model.metrics),
        "settings": estimator_settings(model),
        "classes": list(model.classes),
        "topics": [[each.word for each in words] for words in model.words],
    }


def print_summary(model: TextModel, output: Path) -> None:
    """Print what was learned, how good it is, and where it was written."""
    metrics = model.metrics
    n_documents = format_count(int(metrics["n_documents"]), "document")
    n_units, n_topics = model.fitted.network.config.n_topics, len(model.words)
    fewer = (
        "" if n_topics == n_units else f"; {n_units} were asked for, and some of them say the same"
    )
    print_line(
        f"learned {format_count(n_topics, 'topic')} from {n_documents} "
        f"and {format_count(int(metrics['n_words']), 'word')}{fewer}"
    )
    print_line(", ".join(f"{name} {value}" for name, value in estimator_settings(model).items()))
    print_line(f"coherence (NPMI) {metrics['coherence']:.2f}, diversity {metrics['diversity']:.2f}")
    if metrics["perplexity"] is not None:
        n_held_out = format_count(int(metrics["n_held_out"]), "held-out document")
        print_line(
            f"perplexity {metrics['perplexity']:.0f} per word on {n_held_out} "
            f"(by frequencies alone {metrics['unigram_perplexity']:.0f})"
        )
    if metrics["accuracy"] is not None:
        right = format_right(metrics["accuracy"], int(metrics["n_labelled"]))
        print_line(f"accuracy of classes on held-out documents: {right}")
    print_line(f"model written to {output}, report to {output / REPORT}")


def print_topics(folder: Path, corpus: Path, text_field: str, json: bool) -> None:
    """Print the strongest topics of every document, and its class if the model knows classes."""
    model = TextModel.load(folder)
    texts = read_documents(corpus, text_field, None)
    counts = model.count(texts.texts)
    topics_BR = model.topics_of(counts)
    classes = model.estimator.predict(counts) if model.classes else None
    for row, best in enumerate(top_ranked(topics_BR, N_SHOWN).tolist()):
        label = None if classes is None else str(classes[row])
        strongest = [
            {
                "topic": topic,
                "strength": float(topics_BR[row, topic]),
                "words": [each.word for each in model.words[topic][:N_SHOWN]],
            }
            for topic in best
        ]
        if json:
            name = {"document": texts.names[row], "topics": strongest}
            print_json(name if label is None else {**name, "class": label})
        else:
            described = "; ".join(
                f"{each['topic']} {' '.join(each['words'])}" for each in strongest
            )
            print_line("\t".join([texts.names[row], *([label] if label else []), described]))
