"""Benchmark of words from a network, compared with the network's bare forward pass.

python -m benchmarks.bench_network [cuda]

The photographs of `bench_encoding`, one after the other on one core. The baseline decodes a file in
colour and runs the network in onnxruntime on an input that was prepared before; a second one also
resizes and scales the photograph, as every use of a network must. Ours also projects the features
of its patches, and finds their words. All photographs are then predicted by one worker and by two.
With `cuda`, which needs onnxruntime-gpu, the network also runs on a GPU.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks.bench_encoding import photographs
from benchmarks.common import alternate, print_table, write_results
from supdocnade import BagOfVisualWords, SceneModel
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.images.network_library import DEFAULT_NETWORK, find_network
from supdocnade.images.reading import SkippedImage
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import Prediction

N_WORDS, N_NEAREST = 1000, 4
SAMPLE = 20_000


def predict_all(model: SceneModel, paths: list[Path]) -> list[Prediction | SkippedImage]:
    return list(model.iter_predictions(paths))


def main() -> None:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    on_gpu = "cuda" in sys.argv[1:]
    torch.set_num_threads(1)
    network = find_network(DEFAULT_NETWORK)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network.path, options, ["CPUExecutionProvider"])
    side = network.description.side
    feed = {session.get_inputs()[0].name: np.zeros((1, 3, side, side), np.float32)}
    in_color = DecodeConfig(max_side=512, upscale=False, color=True)

    def prepare(path: Path) -> NDArray[np.float32]:
        image = Image.fromarray(decode(path, in_color)).resize(
            (side, side), Image.Resampling.BICUBIC
        )
        levels = np.asarray(image).transpose(2, 0, 1)[None].astype(np.float32)
        return (levels - np.float32(127)) / np.float32(128)

    (name,) = feed
    with TemporaryDirectory() as folder:
        kind, paths = photographs(Path(folder))
        bag = BagOfVisualWords(
            N_WORDS, (1, 1), features=DEFAULT_NETWORK, n_nearest=N_NEAREST, sample_size=SAMPLE,
            random_state=0,
        ).fit(paths)  # fmt: skip
        labels = [path.parent.name for path in paths]
        model = scene_model(DEFAULT_NETWORK, max_epochs=2, n_jobs=1, random_state=0)
        model.fit(paths, labels)
        rows = {
            "decode + forward pass": lambda: [
                (decode(path, in_color), session.run(None, feed)) for path in paths
            ],
            "decode + resize + forward pass": lambda: [
                session.run(None, {name: prepare(path)}) for path in paths
            ],
            "decode + network + words": lambda: [bag.encoder_.encode(path) for path in paths],
            "prediction": lambda: [
                predict_all(model.set_params(n_jobs=1), [path]) for path in paths
            ],
            "predictions, one worker": lambda: predict_all(model.set_params(n_jobs=1), paths),
            "predictions, two workers": lambda: predict_all(model.set_params(n_jobs=2), paths),
        }
        if on_gpu:
            rows["decode + network on the GPU + words"] = lambda: [
                bag.encoder_.encode(path, device="cuda") for path in paths
            ]
        timings = alternate(rows)
    ms = {name: 1e3 * timing.median / len(paths) for name, timing in timings.items()}
    words = ms["decode + network + words"]
    ratios = {
        "words_over_forward_pass": words / ms["decode + forward pass"],
        "words_over_resized_forward_pass": words / ms["decode + resize + forward pass"],
        "gain_of_two_workers": ms["predictions, one worker"] / ms["predictions, two workers"],
    }
    print_table(
        f"{len(paths)} × {kind}, {DEFAULT_NETWORK}, {N_WORDS} words, one core",
        ["what", "ms/image"],
        [[name, f"{value:.2f}"] for name, value in ms.items()],
    )
    for title, ratio in ratios.items():
        print(f"{title.replace('_', ' ')}: {ratio:.2f}")
    results = {"images": kind, "network": DEFAULT_NETWORK, "ms_per_image": ms}
    write_results("network_cuda" if on_gpu else "network", results | ratios)


if __name__ == "__main__":
    main()
