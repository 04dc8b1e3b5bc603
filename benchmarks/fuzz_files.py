"""Fuzz the readers of models, estimators, corpora, indexes and caches with mutated files.

python -m benchmarks.fuzz_files [--cases 400] [--kinds scene topics ...] [--seed 0]

Small files of every kind are made first. A case changes one of them: bits, lengths and headers of
the raw bytes, or a value, a type or the structure of its JSON or its arrays, after which all
digests are made again, as an attacker would. Then it is loaded and used. A case must end with a
`SupDocNADEError` or without an error, within `MAX_SECONDS` of CPU time (three times that if it
is loaded and used), and with at most twice the
memory of the honest file. Each kind has a process of its own, so that a crash is a result, too.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import write_results
from supdocnade.errors import SupDocNADEError

MAX_SECONDS = 1.0
SLACK_BYTES = 2**20
"""Memory that is allowed beyond twice that of the honest file: messages, for example."""
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 10**400, 0.5, -1e308, "", "x", "\udc80",
    "/tmp/x", "../../x", [], {}, [[]], [None], {"": None}, [1, "a"],
)  # fmt: skip

SIZE, CLASSES = (96, 128), ("coast", "forest", "skyline")
Use = Callable[[Path], object]


class Kind:
    """Files of one kind: honest ones, and what is done with mutated ones."""

    def __init__(self, make: Callable[[Path], None], use: Use):
        self.make, self.use = make, use


def _counts(n_documents: int = 30, n_words: int = 12) -> Any:
    return np.random.default_rng(0).poisson(1.0, (n_documents, n_words))


@cache
def small_scenes() -> list[Any]:
    """Return small drawn scenes of three classes."""
    from supdocnade.demo import drawn_scenes

    return list(drawn_scenes(6, 0, size=SIZE, classes=CLASSES))


@cache
def small_model() -> Any:
    """Return a small scene model."""
    from supdocnade import SceneModel

    model = SceneModel(n_topics=8, n_words=20, max_epochs=4, max_side=128, random_state=0)
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


def _make_scene(folder: Path) -> None:
    small_model().save(folder / "model")


def _use_scene(folder: Path) -> None:
    from supdocnade import SceneModel
    from supdocnade.cli.info import format_info, info_to_dict
    from supdocnade.report.html import render_report
    from supdocnade.scene.persistence import load_scene

    model = SceneModel.load(folder / "model")
    model.predict([small_scenes()[0].image]), model.annotate([small_scenes()[0].image])
    fitted, params = load_scene(folder / "model")
    json.dumps(info_to_dict(folder / "model", fitted, params["random_state"]))
    format_info(fitted, params["random_state"])
    render_report(fitted, random_state=params["random_state"])


def _make_words(folder: Path) -> None:
    small_model().fitted_.bag.save(folder / "words")


def _use_words(folder: Path) -> None:
    from supdocnade import BagOfVisualWords

    BagOfVisualWords.load(folder / "words").transform([small_scenes()[0].image])


def _make_corpus(folder: Path) -> None:
    from supdocnade import Corpus

    corpus = Corpus.create(folder / "corpus", n_words=12)
    for X in (_counts(20), _counts(10) * 0.75):
        n = X.shape[0]
        tags = [["sea", "sky"], None] * (n // 2)
        corpus.append(
            X, labels=["a", None] * (n // 2), tags=tags, names=[f"{i}.jpg" for i in range(n)]
        )


def _use_corpus(folder: Path) -> None:
    from supdocnade import Corpus

    corpus = Corpus.open(folder / "corpus", verify=True)
    corpus.counts(), corpus.labels


def _make_index(folder: Path) -> None:
    from supdocnade.demo import write_scenes
    from supdocnade.gallery.build import build_gallery

    write_scenes(folder / "photos", 2, 0, size=SIZE, classes=CLASSES)
    build_gallery(small_model().fitted_, folder / "photos", folder / "index")
    shutil.rmtree(folder / "photos")


def _use_index(folder: Path) -> None:
    from supdocnade.gallery.photo_index import Gallery

    gallery = Gallery.load(folder / "index", small_model().fitted_)
    for number in range(min(len(gallery), 3)):
        gallery.picture(number), gallery.path(number), gallery.label(number), gallery.tags(number)
        gallery.nearest(gallery.topics(number), 3)


def _make_cache(folder: Path) -> None:
    from supdocnade.visual_words.cache import ImageWords, WordCache

    cache = WordCache(folder, "fingerprint", 100)
    cache.put(ImageWords(np.arange(90, dtype=np.int32), None, "ab" * 20, 5))


def _use_cache(folder: Path) -> None:
    from supdocnade.visual_words.cache import WordCache

    words = WordCache(folder, "fingerprint", 100).get("ab" * 20)
    assert words is None or (words.ids.min() >= 0 and words.ids.max() < 100)


KINDS = {
    "topics": Kind(_make_topics, _use_topics),
    "scene": Kind(_make_scene, _use_scene),
    "words": Kind(_make_words, _use_words),
    "corpus": Kind(_make_corpus, _use_corpus),
    "index": Kind(_make_index, _use_index),
    "cache": Kind(_make_cache, _use_cache),
}


def mutate(folder: Path, rng: np.random.Generator) -> str:
    """Change one file of a folder; return what was changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    path = files[int(rng.integers(len(files)))]
    content = path.read_bytes()
    is_arrays = content[8:9] == b"{" and b"supdocnade.digest" in content
    way = rng.integers(4)
    if is_arrays and way:
        return f"{path.name}: {_mutate_arrays(path, rng)}"
    if path.name == "manifest.jsonl" and way:
        return f"{path.name}: {_mutate_manifest(path, rng)}"
    if path.suffix == ".json" and way:
        return f"{path.name}: {_mutate_json_file(path, rng)}"
    return f"{path.name}: {_mutate_bytes(path, content, rng)}"


def _mutate_bytes(path: Path, content: bytes, rng: np.random.Generator) -> str:
    data, way = bytearray(content), int(rng.integers(6))
    at = int(rng.integers(len(data))) if data else 0
    if way == 0 and data:
        data[at] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del data[at:]
    elif way == 2:
        data[:8] = int(rng.choice([0, 1, len(data), 2**31, 2**62])).to_bytes(8, "little")
    elif way == 3:
        data[at : at + 8] = b"\xff" * 8
    elif way == 4:
        data += data[: at + 1]
    else:  # Deeply nested JSON.
        data[:] = b"[" * 100_000 if rng.integers(2) else b'{"a":' * 100_000
    path.write_bytes(data)
    return f"bytes {way} at {at}"


def _mutate_json_file(path: Path, rng: np.random.Generator) -> str:
    from supdocnade.scene.persistence import seal_description

    description = json.loads(path.read_bytes())
    what = mutate_json(description, rng)
    is_sealed = isinstance(description, dict) and "digest" in description
    try:
        text = seal_description(description) if is_sealed else json.dumps(description).encode()
    except ValueError:
        text = json.dumps(description).encode()
    path.write_bytes(text)
    return what


def _mutate_manifest(path: Path, rng: np.random.Generator) -> str:
    """Change the manifest of a corpus; its lines have checksums that depend on each other."""
    from supdocnade.corpus.manifest import checksum

    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    content, previous = [], ""
    for line in lines:
        del line["checksum"]
    what = mutate_json(lines, rng)
    for line in lines:
        text = json.dumps(line, sort_keys=True)
        previous = checksum((previous + text).encode())
        content.append(f'{text[:-1]}, "checksum": "{previous}"}}\n')
    path.write_text("".join(content))
    return what


def _mutate_arrays(path: Path, rng: np.random.Generator) -> str:
    from supdocnade.storage import load_arrays, save_arrays

    arrays, description = load_arrays(path)
    if rng.integers(3) and description:
        what = mutate_json(description, rng)
    elif arrays:
        name = sorted(arrays)[int(rng.integers(len(arrays)))]
        what = f"{name} {_mutate_array(arrays, name, rng)}"
    else:
        arrays["x"], what = np.zeros(3), "array added"
    save_arrays(path, arrays, description)
    return what


def _mutate_array(arrays: dict[str, Any], name: str, rng: np.random.Generator) -> str:
    array, way = arrays[name].copy(), int(rng.integers(6))
    if way == 0:
        del arrays[name]
        return "removed"
    if way == 1:
        kinds = ("int8", "uint8", "int32", "int64", "float32", "float64", "bool")
        with np.errstate(all="ignore"):
            array = array.astype(kinds[int(rng.integers(len(kinds)))])
    elif way == 2:
        array = array.reshape(-1)[: max(array.size - 1, 0)]
    elif way == 3:
        array = array[None] if rng.integers(2) else array.reshape(-1)
    elif way == 4:
        arrays[f"{name}x"] = array
        return "copied"
    elif array.size:
        limits = np.finfo if array.dtype.kind == "f" else np.iinfo
        values: list[Any] = [0, 1] if array.dtype.kind == "b" else [
            limits(array.dtype).min, limits(array.dtype).max, 0,
        ]  # fmt: skip
        values += [np.nan, np.inf] if array.dtype.kind == "f" else []
        array.reshape(-1)[int(rng.integers(array.size))] = values[int(rng.integers(len(values)))]
    arrays[name] = np.ascontiguousarray(array)
    return f"way {way}"


def mutate_json(value: Any, rng: np.random.Generator) -> str:
    """Change a value somewhere in a JSON object or list; return where."""
    where = []
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[int(rng.integers(len(keys)))]
        where.append(str(key)[:40])
        below = value[key]
        if isinstance(below, dict | list) and below and rng.integers(5):
            value = below
            continue
        way = rng.integers(8)
        if way == 0:
            del value[key]
            return f"{'.'.join(where)} removed"
        if way == 1 and isinstance(value, dict):
            value[f"{key}x"] = value.pop(key)
            return f"{'.'.join(where)} renamed"
        if way == 2:
            for _ in range(400):
                below = [below]
            value[key] = below
            return f"{'.'.join(where)} nested"
        value[key] = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
        return f"{'.'.join(where)} = {str(value[key])[:30]!r}"


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


def run_kind(name: str, n_cases: int, seed: int) -> dict[str, Any]:
    """Run the cases of one kind; return the counts of results and the faults."""
    warnings.simplefilter("ignore")
    kind, found, faults = KINDS[name], Counter[str](), {}
    with tempfile.TemporaryDirectory() as temporary:
        honest, mutated = Path(temporary, "honest"), Path(temporary, "mutated")
        honest.mkdir()
        kind.make(honest)
        kind.use(honest)  # Compiles kernels.
        tracemalloc.start()
        kind.use(honest)
        honest_bytes = tracemalloc.get_traced_memory()[1]
        for number in range(n_cases):
            shutil.rmtree(mutated, ignore_errors=True)
            shutil.copytree(honest, mutated)
            what = mutate(mutated, np.random.default_rng([seed, number]))
            print(f"{name} {number} {what}", file=sys.stderr, flush=True)
            result = run_case(kind, mutated, honest_bytes)
            found[result.partition(":")[0]] += 1
            if result.startswith("fault"):
                faults[f"{number} {what}"] = result
                print(f"  {result}", file=sys.stderr, flush=True)
        tracemalloc.stop()
    return {"cases": n_cases, **found, "faults": faults}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=400, help="cases of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(KINDS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(run_kind(arguments.only, arguments.cases, arguments.seed)))
        return
    results = {}
    for name in arguments.kinds:
        command = [sys.executable, "-m", "benchmarks.fuzz_files", "--only", name]
        command += ["--cases", str(arguments.cases), "--seed", str(arguments.seed)]
        done = subprocess.run(command, capture_output=True, text=True)
        crashed = {"crashed": done.stderr.splitlines()[-3:], "faults": {"crash": done.returncode}}
        results[name] = json.loads(done.stdout) if done.returncode == 0 else crashed
        print(name, json.dumps(results[name], indent=1), flush=True)
    write_results("fuzz_files", {"seed": arguments.seed, "kinds": results})
    if any(each["faults"] for each in results.values()):
        raise SystemExit("Some cases are faults; see benchmarks/results/fuzz_files.json.")


if __name__ == "__main__":
    main()
