"""Jobs on a Ray cluster: `pip install "vitempo[ray]"`.

from vitempo import cluster

found = cluster.score("hybrid-vit", "pixel4-tflite-cpu-f32", "job/", count=10**9, address="auto")

A job is divided into parts, each of them a task of Ray whose work is done by the library; its
folder keeps the result of each part, so that the same call goes on where one ended. The result has
the same bytes on any cluster, and in this process (`address="here"`, which needs no Ray).
`python -m vitempo.cluster` has the same jobs as commands.
"""

from __future__ import annotations

from ._adapt import AdaptedDevice, AdaptResult, adapt
from ._campaign import CampaignResult, Device, campaign
from ._run import Failure
from ._score import Ranked, Rejected, ScoreResult, score
from ._search import PopulationsResult, search
from ._shared import Evaluators
from ._train import TrainResult, train
from ._tune import Trial, TuneResult, tune

__all__ = [
    "AdaptResult",
    "AdaptedDevice",
    "CampaignResult",
    "Device",
    "Evaluators",
    "Failure",
    "PopulationsResult",
    "Ranked",
    "Rejected",
    "ScoreResult",
    "TrainResult",
    "Trial",
    "TuneResult",
    "adapt",
    "campaign",
    "score",
    "search",
    "train",
    "tune",
]
