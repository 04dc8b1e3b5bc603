"""Record a training for TensorBoard: python examples/tensorboard_recipe.py PHOTOS runs/1."""

import sys
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from supdocnade import SceneModel


def train(photos: str, folder: str, **settings: Any) -> SceneModel:
    model = SceneModel(random_state=0, **settings)
    with SummaryWriter(folder) as writer:
        writer.add_text("settings", str(model.get_params()))

        def record(epoch: int, metrics: Any) -> None:
            for name, value in metrics.items():
                writer.add_scalar(name, value, epoch)

        model.fit(photos, on_epoch=record)
        for name, value in model.fitted_.held_out.metrics.items():
            writer.add_scalar(f"held out/{name}", value)
    return model


if __name__ == "__main__":
    train(*sys.argv[1:3]).save("scenes")
