"""Topics of texts: a run that can be resumed, and what is printed of a model."""

import math
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.stopping import explain_resuming
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.estimators.text_model import (
    TextModel,
    check_folder,
    count_words,
    read_topics,
    topic_quality,
)
from supdocnade.estimators.topic_fitting import fit_topic_model
from supdocnade.folders.texts import Texts, read_texts
from supdocnade.metrics import top_ranked
from supdocnade.partial_folder import PartialFolder
from supdocnade.report.html import render_text_report
from supdocnade.seeding import named_generator
from supdocnade.storage import write_atomically
from supdocnade.text import read_lines

REPORT = "report.html"

MIN_EPOCHS, MIN_UPDATES = 20, 400
"""Passes over the documents and updates of the parameters, unless --epochs is given."""

GENERATIVE_WEIGHT = 1.0
"""λ of a model with classes: topics describe the words as well as the classes."""

N_SHOWN = 3
"""Topics of a document that --predict names."""


def read_stop_words(given: str) -> str | list[str] | None:
    """Return stop words as `CountVectorizer` takes them: a language, a list, or None."""
    if given in ("english", "none"):
        return None if given == "none" else given
    return sorted({word.strip() for word in read_lines(Path(given))} - {""})


def learn_topics(
    options: dict[str, Any], vectorizer: dict[str, Any], limits: dict[str, Any]
) -> TextModel:
    """Learn topics and write the model with its report.

    Parameters
    ----------
    options : of the command, by the names of its parameters.
    vectorizer : settings of `CountVectorizer` by which texts are split into words.
    limits : its settings that choose the vocabulary.
    """
    corpus, output, quiet = options["corpus"], options["output"], options["quiet"]
    check_folder(output, force=options["force"])
    partial = PartialFolder(output, "topics")
    with partial.lock():
        is_interrupted = partial.read_plan() is not None
        if is_interrupted and not options["resume"]:
            raise StorageError(
                f"{partial.folder} holds an interrupted run: continue it with --resume, or remove "
                "it."
            )
        if options["resume"] and not is_interrupted:
            raise StorageError(f"there is no run to resume: {partial.folder} does not exist.")
        texts = read_documents(corpus, options["text_field"], options["label_field"], quiet)
        partial.write_plan({})
        checkpoint = partial.folder / "checkpoint"
        again = shlex.join(["supdocnade", "topics", os.fspath(corpus), "-o", os.fspath(output)])
        explain_resuming(f"resume with: {again} --resume and the same options")
        try:
            with ProgressBars(quiet=quiet) as progress, print_warnings(quiet=quiet):
                model = _learn(options, vectorizer, limits, texts, checkpoint, progress)
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
    options: dict[str, Any],
    vectorizer: dict[str, Any],
    limits: dict[str, Any],
    texts: Texts,
    checkpoint: Path,
    progress: ProgressBars,
) -> TextModel:
    order = named_generator(options["seed"], "held_out").permutation(len(texts.texts))
    cut = int(options["held_out"] * len(order))
    learned, held_out = texts.select(sorted(order[cut:])), texts.select(sorted(order[:cut]))
    progress("counting words", 0, 1)
    counts, vocabulary = count_words(learned.texts, vectorizer, **limits)
    if len(vocabulary) < 2:
        found = len(vocabulary)
        raise InvalidArgument(f"{options['corpus']} must have 2 words to learn, got {found}.")
    unseen = count_words(held_out.texts, vectorizer, vocabulary)[0] if cut else None
    progress("counting words", 1, 1)
    settings, labels = choose_settings(options, len(learned.texts)), None
    batch_size = choose_batch(len(learned.texts))
    run = {
        **settings,
        "batch_size": batch_size,
        "checkpoint": checkpoint,
        "n_jobs": options["jobs"],
    }
    estimator: DocNADE | SupDocNADE = DocNADE(**run)
    if options["labels"] and len({*learned.labels} - {None}) > 1:
        labels = np.array(learned.labels, object)
        estimator = SupDocNADE(**run, generative_weight=GENERATIVE_WEIGHT)
    fit_topic_model(estimator, counts, labels, progress=progress)
    estimator.set_params(checkpoint=None, n_jobs=None)
    progress("writing", 0, 1)
    rotation, words = read_topics(estimator, counts, vocabulary)
    coherence_R, diversity = topic_quality(words, vocabulary, counts)
    figures: dict[str, Any] = {
        "n_documents": counts.shape[0],
        "n_words": len(vocabulary),
        "coherence": float(coherence_R.mean()),
        "diversity": diversity,
        **measure(estimator, counts, unseen, held_out.labels),
    }
    model = TextModel(
        estimator=estimator,
        vocabulary=vocabulary,
        vectorizer=vectorizer,
        rotation=rotation,
        words=words,
        figures=figures,
    )
    output: Path = options["output"]
    output.mkdir(parents=True, exist_ok=True)
    model.save(output)
    page = render_text_report(
        model,
        learned,
        rotation.rotate(estimator.transform(counts)),
        coherence_R,
        list_settings({**vectorizer, **limits, **settings, "held_out": options["held_out"]}),
        output.name or "Topics",
    )
    write_atomically(output / REPORT, page.encode("utf-8", "replace"))
    progress("writing", 1, 1)
    return model


def choose_settings(options: dict[str, Any], n_documents: int) -> dict[str, Any]:
    """Return the settings of `DocNADE` that determine the topics."""
    n_batches = math.ceil(n_documents / choose_batch(n_documents))
    n_epochs = max(MIN_EPOCHS, math.ceil(MIN_UPDATES / n_batches))
    return {
        "n_topics": options["n_topics"],
        "activation": "sigmoid",
        "learning_rate": options["learning_rate"],
        "max_epochs": n_epochs if options["epochs"] is None else options["epochs"],
        "random_state": options["seed"],
    }


def choose_batch(n_documents: int) -> int:
    """Return the documents per update: fewer than usual if there are few documents."""
    return min(64, max(8, n_documents // 32))


def measure(estimator: Any, counts: Any, unseen: Any, labels: list[str | None]) -> dict[str, Any]:
    """Return the figures on held-out documents; None where nothing can be measured."""
    figures: dict[str, Any] = dict.fromkeys(("perplexity", "unigram_perplexity", "accuracy"))
    figures |= {"n_held_out": 0, "n_labelled": 0}
    has_words = np.zeros(0, bool) if unseen is None else np.asarray(unseen.sum(axis=1)) > 0
    if has_words.any():
        share_K = np.asarray(counts.sum(axis=0), np.float64) + 0.5
        log_p = (unseen @ np.log(share_K / share_K.sum())).sum() / unseen.sum()
        figures["n_held_out"] = int(has_words.sum())
        figures["perplexity"] = estimator.perplexity(unseen[has_words], average="corpus")
        figures["unigram_perplexity"] = float(np.exp(-log_p))
    known = [row for row, label in enumerate(labels) if label is not None]
    if known and hasattr(estimator, "classes_"):
        figures["accuracy"] = estimator.score(unseen[known], [labels[row] for row in known])
        figures["n_labelled"] = len(known)
    return figures


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
        "figures": dict(model.figures),
        "classes": list(map(str, getattr(model.estimator, "classes_", ()))),
        "topics": [[each.word for each in words] for words in model.words],
    }


def print_summary(model: TextModel, output: Path) -> None:
    """Print what was learned, how good it is, and where it was written."""
    figures = model.figures
    n_documents = format_count(int(figures["n_documents"]), "document")
    print_line(
        f"learned {format_count(len(model.words), 'topic')} from {n_documents} "
        f"and {format_count(int(figures['n_words']), 'word')}"
    )
    print_line(f"coherence (NPMI) {figures['coherence']:.2f}, diversity {figures['diversity']:.2f}")
    if figures["perplexity"] is not None:
        n_held_out = format_count(int(figures["n_held_out"]), "held-out document")
        print_line(
            f"perplexity {figures['perplexity']:.0f} per word on {n_held_out} "
            f"(by frequencies alone {figures['unigram_perplexity']:.0f})"
        )
    if figures["accuracy"] is not None:
        print_line(f"accuracy of classes {100 * figures['accuracy']:.0f} % on held-out documents")
    print_line(f"model written to {output}, report to {output / REPORT}")


def print_topics(folder: Path, corpus: Path, text_field: str, json: bool) -> None:
    """Print the strongest topics of every document, and its class if the model knows classes."""
    model = TextModel.load(folder)
    texts = read_documents(corpus, text_field, None)
    counts = model.count(texts.texts)
    topics_BR = model.rotation.rotate(model.estimator.transform(counts))
    classes = model.estimator.predict(counts) if hasattr(model.estimator, "classes_") else None
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
