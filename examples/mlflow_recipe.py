"""Record a training as a run of MLflow: python examples/mlflow_recipe.py PHOTOS ADDRESS."""

import sys
from typing import Any

import mlflow

from supdocnade import SceneModel


def train(photos: str, address: str, **settings: Any) -> SceneModel:
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("supdocnade")
    model = SceneModel(random_state=0, **settings)
    with mlflow.start_run():
        mlflow.log_params(model.get_params())
        model.fit(photos, on_epoch=lambda epoch, metrics: mlflow.log_metrics(metrics, step=epoch))
        mlflow.log_metrics({f"held out/{k}": v for k, v in model.fitted_.held_out.metrics.items()})
    return model


if __name__ == "__main__":
    train(*sys.argv[1:3]).save("scenes")
