"""Fuzz the readers of models, estimators, corpora, indexes and caches with mutated files.

python -m benchmarks.fuzz_files [--cases 2000] [--full] [--kinds scene topics ...] [--seed 0]
    [--jobs 2] [--bounds]

Small files of every kind are made first. A case changes one of them (`benchmarks.mutations`): bits,
lengths and headers of the raw bytes, or a value, a type or the structure of its JSON or its arrays,
after which all digests are made again, as an attacker would. Then it is loaded and used. A case
must end with a `SupDocNADEError` or without an error, within `MAX_SECONDS` of CPU time (three times
that if it is loaded and used), and with at most twice the memory of the honest file. Each kind has
a process of its own, so that a crash is a result, too. `--full` runs 100,000 cases; `--bounds` runs
with the bounds checks of Numba, which see all kernels but the vector code of the tree.
"""

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, load, metadata, write_results
from benchmarks.mutations import mutate_folder
from supdocnade.errors import SupDocNADEError
from supdocnade.schema import load as load_record
from supdocnade.schema import save
from supdocnade.visual_words.encoder import EncodedImages, encode_all
from supdocnade.visual_words.to_corpus import (
    FEATURES,
    FEATURES_KIND,
    PART,
    ShardFeatures,
    read_features,
)

MAX_SECONDS = 1.0
SLACK_BYTES = 2**20
"""Memory that is allowed beyond twice that of the honest file: messages, for example."""
MAX_SIDE, CLASSES = 128, ("coast", "forest", "skyline")
Use = Callable[[Path], object]


MAX_CRASHES = 20


class Kind:
    """Files of one kind: honest ones, and what is done with mutated ones.

    Parameters
    ----------
    weight : relative number of cases; less for slow ones.
    """

    def __init__(self, make: Callable[[Path], None], use: Use, weight: float = 1.0):
        self.make, self.use, self.weight = make, use, weight


def _counts(n_documents: int = 30, n_words: int = 12) -> Any:
    return np.random.default_rng(0).poisson(1.0, (n_documents, n_words))


@cache
def small_scenes() -> list[Any]:
    """Return small drawn scenes of three classes."""
    from supdocnade.cli.demo import drawn_scenes

    return list(drawn_scenes(6, classes=CLASSES, max_side=MAX_SIDE))


@cache
def small_model() -> Any:
    """Return a small scene model."""
    from supdocnade.scene.model import scene_model

    model = scene_model(n_topics=8, n_words=20, max_epochs=4, max_side=128, random_state=0)
    scenes = small_scenes()
    return model.fit(
        [each.image for each in scenes],
        [each.label for each in scenes],
        [each.tags for each in scenes],
    )


def _make_topics(folder: Path) -> None:
    from supdocnade import DocNADE, SupDocNADE

    X = _counts()
    fast: dict[str, Any] = {"n_topics": 4, "max_epochs": 2, "random_state": 0}
    SupDocNADE(**fast, class_weight={"a": 1.0, "b": 2.0}, early_stopping=True).fit(
        X, ["a", "b"] * 15, annotations=X[:, :3], annotation_names=["sea", "sky", "sun"]
    ).save(folder / "supervised")
    DocNADE(**fast, output="softmax").fit(X).save(folder / "topics")


def _use_topics(folder: Path) -> None:
    from supdocnade import DocNADE, SupDocNADE

    supervised = SupDocNADE.load(folder / "supervised")
    X = _counts(3, supervised.n_features_in_)
    supervised.predict(X), supervised.annotate(X), supervised.top_words()
    topics = DocNADE.load(folder / "topics")
    topics.perplexity(_counts(3, topics.n_features_in_))


def _make_lines(folder: Path) -> None:
    from supdocnade.images.feature_network import NetworkDescription
    from supdocnade.scene.corrections import Correction

    (folder / "corrections.jsonl").write_text(Correction("a.jpg", "ab", "sea", ("x",)).to_line())
    description = NetworkDescription(name="tiny", side=8, mean=0, scale=1, outputs=("a", "b"))
    description.write(folder / "tiny.onnx")


def _use_lines(folder: Path) -> None:
    from supdocnade.images.feature_network import NetworkDescription
    from supdocnade.scene.corrections import read_corrections

    NetworkDescription.read(folder / "tiny.onnx")
    read_corrections(folder / "corrections.jsonl")


def _make_texts(folder: Path) -> None:
    from supdocnade import DocNADE
    from supdocnade.estimators.text_model import TextModel, count_words

    texts = ["waves sand gull boat", "street tram window shop", "oak fern moss deer"] * 5
    words = {"lowercase": True, "stop_words": None, "ngram_range": (1, 1)}
    counts, vocabulary = count_words(texts, words)
    estimator = DocNADE(4, max_epochs=2, random_state=0).fit(counts)
    TextModel.of(estimator, counts, vocabulary, words, {}).save(folder / "texts")


def _use_texts(folder: Path) -> None:
    from supdocnade.estimators.text_model import TextModel

    TextModel.load(folder / "texts").topics(["waves in the street"])


def _make_scene(folder: Path) -> None:
    small_model().save(folder / "model")


def _use_scene(folder: Path) -> None:
    from supdocnade import SceneModel
    from supdocnade.cli.about_model import format_info, info_to_dict
    from supdocnade.scene.persistence import load_scene

    model = SceneModel.load(folder / "model")
    model.predict([small_scenes()[0].image]), model.annotate([small_scenes()[0].image])
    fitted = load_scene(folder / "model")
    json.dumps(info_to_dict(folder / "model", fitted))
    format_info(fitted)


def _use_report(folder: Path) -> None:
    from supdocnade.report.html import render_report
    from supdocnade.scene.persistence import load_scene

    fitted = load_scene(folder / "model")
    render_report(fitted)
    fitted.training_set.damp(2.0)


def _make_words(folder: Path) -> None:
    small_model().fitted_.words.save(folder / "words")


def _use_words(folder: Path) -> None:
    from supdocnade import BagOfVisualWords

    BagOfVisualWords.load(folder / "words").transform([small_scenes()[0].image])


def _make_network_words(folder: Path) -> None:
    from supdocnade import BagOfVisualWords
    from supdocnade.images.network_library import DEFAULT_NETWORK

    bag = BagOfVisualWords(20, (1, 1), features=DEFAULT_NETWORK, n_nearest=2, random_state=0)
    bag.fit([each.image for each in small_scenes()]).save(folder / "words")


def _make_corpus(folder: Path) -> None:
    from supdocnade import Corpus

    corpus = Corpus.create(folder / "corpus", n_words=12)
    for X in (_counts(20), _counts(10)):
        n = X.shape[0]
        tags = [["sea", "sky"], None] * (n // 2)
        corpus.append(
            X, labels=["a", None] * (n // 2), tags=tags, names=[f"{i}.jpg" for i in range(n)]
        )


def _use_corpus(folder: Path) -> None:
    from supdocnade import Corpus

    corpus = Corpus.open(folder / "corpus")
    corpus.verify()
    corpus.counts(), corpus.labels


def _make_index(folder: Path) -> None:
    from supdocnade.cli.demo import write_scenes
    from supdocnade.gallery.build import build_gallery

    write_scenes(folder / "photos", 2, classes=CLASSES, max_side=MAX_SIDE)
    build_gallery(small_model().fitted_, folder / "photos", folder / "index")
    shutil.rmtree(folder / "photos")


def _use_index(folder: Path) -> None:
    from supdocnade.gallery.photo_index import Gallery

    gallery = Gallery.load(folder / "index", small_model().fitted_)
    for number in range(min(len(gallery), 3)):
        gallery.picture(number), gallery.paths[number], gallery.label(number), gallery.tags(number)
        gallery.nearest(gallery.topics_NH[number], 3)


def _word_cache(folder: Path) -> Any:
    from supdocnade.visual_words.encoder import WordCache

    return WordCache(folder, small_model().fitted_.encoder)


def _make_cache(folder: Path) -> None:
    from supdocnade.visual_words.encoder import ImageWords

    _word_cache(folder).put(ImageWords(np.arange(80, dtype=np.int32), None, "ab" * 20))


def _use_cache(folder: Path) -> None:
    words = _word_cache(folder).get("ab" * 20)
    assert words is None or (words.ids.min(initial=0) >= 0 and words.ids.max(initial=0) < 80)


def _use_checkpoint(folder: Path) -> None:
    """Resume a finished training; the first call makes the checkpoint."""
    from supdocnade import SupDocNADE

    model = SupDocNADE(
        4, max_epochs=2, early_stopping=True, checkpoint=folder / "checkpoint",
        random_state=0,
    )  # fmt: skip
    model.fit(_counts(), ["a", "b"] * 15).predict(_counts(2))


def _make_parts(folder: Path) -> None:
    images = [each.image for each in small_scenes()[:3]]
    encoded = encode_all(small_model().fitted_.encoder, images)
    save(folder / "part-00000.safetensors", PART, encoded)
    features = np.ones((20, 4), np.float32)
    _make_corpus(folder)
    for number in range(2):
        path = folder / "corpus" / FEATURES.format(number)
        save(path, FEATURES_KIND, ShardFeatures(features[: 20 - 10 * number]))


def _use_parts(folder: Path) -> None:
    from supdocnade import Corpus

    found = load_record(folder / "part-00000.safetensors", PART, EncodedImages)
    rows = np.flatnonzero(found.read)
    with tempfile.TemporaryDirectory() as new:
        n_words = small_model().fitted_.encoder.n_features
        corpus = Corpus.create(Path(new) / "corpus", n_words=n_words)
        corpus.append(found.counts, keys=found.keys)
        corpus.counts(rows)
    for features in read_features(Corpus.open(folder / "corpus")):
        features.sum()


KINDS = {
    "topics": Kind(_make_topics, _use_topics),
    "descriptions": Kind(_make_lines, _use_lines, weight=0.3),
    "texts": Kind(_make_texts, _use_texts),
    "checkpoint": Kind(_use_checkpoint, _use_checkpoint),
    "scene": Kind(_make_scene, _use_scene, weight=0.3),
    "report": Kind(_make_scene, _use_report, weight=0.1),
    "words": Kind(_make_words, _use_words),
    "network words": Kind(_make_network_words, _use_words, weight=0.3),
    "corpus": Kind(_make_corpus, _use_corpus),
    "parts": Kind(_make_parts, _use_parts),
    "index": Kind(_make_index, _use_index),
    "cache": Kind(_make_cache, _use_cache, weight=0.4),
}


def run_case(kind: Kind, folder: Path, honest_bytes: int) -> str:
    """Load and use a mutated file; return the result in a word, and the error if it is a fault."""
    tracemalloc.reset_peak()
    base, start, result = tracemalloc.get_traced_memory()[0], time.process_time(), "loaded"
    try:
        kind.use(folder)
    except SupDocNADEError:
        result = "refused"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "supdocnade" in f.filename]
        place = ours[-1] if ours else last
        name = f"{Path(place.filename).name}:{place.lineno}"
        return f"fault: {type(error).__name__} in {name}: {str(error)[:100]}"
    if time.process_time() - start > MAX_SECONDS * (1 if result == "refused" else 3):
        return f"fault: {time.process_time() - start:.1f} s"
    peak = tracemalloc.get_traced_memory()[1] - base
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    most_bytes = 2 * max(honest_bytes, size) + SLACK_BYTES
    if peak > most_bytes:
        return f"fault: {peak} bytes, at most {most_bytes} allowed"
    return result


def run_kind(name: str, cases: range, seed: int) -> dict[str, Any]:
    """Run some cases of one kind; return the counts of results and the faults."""
    warnings.simplefilter("ignore")
    kind, found, faults = KINDS[name], Counter[str](), {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kind.make(folder)
        gc.collect()
        honest_names = sorted(folder.rglob("*"))
        kind.use(folder)  # Compiles kernels.
        tracemalloc.start()
        kind.use(folder)
        honest_bytes = tracemalloc.get_traced_memory()[1]
        remove_others(folder, honest_names)
        gc.freeze()  # The collections of every case need not look at what was imported.
        for number in cases:
            what, before = mutate_folder(folder, np.random.default_rng([seed, number]))
            print(f"{name} {number} {what}", file=sys.stderr, flush=True)
            result = run_case(kind, folder, honest_bytes)
            if " bytes, " in result:  # Python may have filled a cache of its own meanwhile.
                gc.collect()
                result = run_case(kind, folder, honest_bytes)
            found[result.partition(":")[0]] += 1
            if result.startswith("fault"):
                faults[f"{number} {what}"] = result
                print(f"  {result}", file=sys.stderr, flush=True)
            for path, content in before.items():
                path.write_bytes(content)
            remove_others(folder, honest_names)
        tracemalloc.stop()
        gc.unfreeze()
    return {"cases": len(cases), **found, "faults": faults}


def remove_others(folder: Path, names: Sequence[Path]) -> None:
    """Remove files that were made since, such as the log of a database that nobody reads now."""
    gc.collect()
    for path in folder.rglob("*"):
        if path not in names and path.is_file():
            path.unlink()


def run_process(name: str, n_cases: int, seed: int, environment: dict[str, str]) -> dict[str, Any]:
    """Run the cases of one kind in other processes; one that crashes is followed by another."""
    total, first = Counter[str](), 0
    faults: dict[str, str] = {}
    while first < n_cases and len(faults) < MAX_CRASHES:
        command = [sys.executable, "-m", "benchmarks.fuzz_files", "--only", name]
        command += ["--first", str(first), "--cases", str(n_cases), "--seed", str(seed)]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment
        )
        if done.returncode == 0:
            found = json.loads(done.stdout)
            faults |= found.pop("faults")
            total.update(found)
            break
        lines = [line for line in done.stderr.splitlines() if line.startswith(f"{name} ")]
        if not lines:
            sys.exit(done.stderr)
        number = int(lines[-1].split()[1])
        faults[lines[-1]] = f"crash: exit code {done.returncode}"
        total.update({"cases": number + 1 - first, "crashed": 1})
        first = number + 1
    return {**total, "faults": faults}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="cases of all kinds")
    parser.add_argument("--full", action="store_true", help="100,000 cases")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="kinds at the same time")
    parser.add_argument("--bounds", action="store_true", help="with bounds checks of Numba")
    parser.add_argument("--only", choices=list(KINDS), help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(run_kind(given.only, range(given.first, given.cases), given.seed)))
        return
    n_cases = 100_000 if given.full else given.cases
    total_weight = sum(KINDS[name].weight for name in given.kinds)
    results: dict[str, Any] = {}
    file_name = "fuzz_files_bounds" if given.bounds else "fuzz_files"
    is_known = (RESULTS / f"{file_name}.json").exists()
    earlier = load(file_name)["kinds"] if is_known else {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        environment = dict(os.environ)
        if given.bounds:  # Kernels in the usual cache were compiled without checks.
            environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": folder}
        running = {}
        for name in given.kinds:
            count = round(n_cases * KINDS[name].weight / total_weight)
            running[pool.submit(run_process, name, count, given.seed, environment)] = name
        for done in as_completed(running):
            results[running[done]] = {"commit": metadata()["commit"], **done.result()}
            print(running[done], json.dumps(done.result(), indent=1), flush=True)
            # Kinds that are not in this run keep the results of an earlier one.
            known = earlier | results
            ordered = {name: known[name] for name in KINDS if name in known}
            described = {"seed": given.seed, "bounds": given.bounds, "kinds": ordered}
            write_results(file_name, described)
    if any(each["faults"] for each in results.values()):
        raise SystemExit(f"Some cases are faults; see benchmarks/results/{file_name}.json.")


if __name__ == "__main__":
    main()
