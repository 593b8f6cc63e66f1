"""The manifest for KubeRay and the container file: fields and their types by the API of Kubernetes
and of KubeRay, names that refer to each other, the command of the job."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from typing import Any, Optional

import pytest
from conftest import ROOT

from vitempo.cluster import _commands

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = ROOT / "python/deploy"


def documents() -> tuple[dict[str, Any], dict[str, Any]]:
    job, claim = yaml.safe_load_all((DEPLOY / "rayjob.yaml").read_text())
    return job, claim


def kuberay() -> Any:
    """`RayJob` of ray.io/v1 with the fields that KubeRay's types have
    (`ray-operator/apis/ray/v1/*_types.go`), without those of a status."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    client = pytest.importorskip("kubernetes.client", reason="kubernetes is not installed")

    def model(name: str, needed: dict[str, Any], optional: dict[str, Any]) -> Any:
        fields = {key: (kind, ...) for key, kind in needed.items()}
        fields |= {key: (Optional[kind], None) for key, kind in optional.items()}
        config = pydantic.ConfigDict(extra="forbid", strict=True)
        return pydantic.create_model(name, __config__=config, **fields)

    strings, pod = dict[str, str], client.V1PodTemplateSpec
    head = model(
        "HeadGroupSpec",
        {"rayStartParams": strings, "template": pod},
        {"enableIngress": bool, "headService": client.V1Service, "serviceType": str},
    )
    workers = model(
        "WorkerGroupSpec",
        {
            "groupName": str,
            "maxReplicas": int,
            "minReplicas": int,
            "rayStartParams": strings,
            "template": pod,
        },
        {"numOfHosts": int, "replicas": int},
    )
    nodes = model(
        "RayClusterSpec",
        {"headGroupSpec": head},
        {
            "enableInTreeAutoscaling": bool,
            "headServiceAnnotations": strings,
            "rayVersion": str,
            "suspend": bool,
            "workerGroupSpecs": list[workers],
        },
    )
    spec = model(
        "RayJobSpec",
        {},
        {
            "activeDeadlineSeconds": int,
            "backoffLimit": int,
            "clusterSelector": strings,
            "entrypoint": str,
            "entrypointNumCpus": float,
            "entrypointNumGpus": float,
            "entrypointResources": str,
            "jobId": str,
            "managedBy": str,
            "metadata": strings,
            "rayClusterSpec": nodes,
            "runtimeEnvYAML": str,
            "shutdownAfterJobFinishes": bool,
            "submissionMode": str,
            "submitterPodTemplate": pod,
            "suspend": bool,
            "ttlSecondsAfterFinished": int,
        },
    )
    meta = client.V1ObjectMeta
    return model("RayJob", {"apiVersion": str, "kind": str, "metadata": meta, "spec": spec}, {})


def written_again(document: dict[str, Any], model: Any) -> dict[str, Any]:
    """What the API keeps of a document: fields that it does not have are not in it."""
    read = model.model_validate(document)
    return read.model_dump(by_alias=True, exclude_none=True)


def test_fields_are_those_of_the_api() -> None:
    job, claim = documents()
    assert written_again(job, kuberay()) == job
    client = pytest.importorskip("kubernetes.client", reason="kubernetes is not installed")
    assert written_again(claim, client.V1PersistentVolumeClaim) == claim


def break_a_number(spec: dict[str, Any]) -> None:
    spec["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0


def break_a_name(spec: dict[str, Any]) -> None:
    del spec["workerGroupSpecs"][0]["groupName"]


def break_a_container(spec: dict[str, Any]) -> None:
    del spec["headGroupSpec"]["template"]["spec"]["containers"][0]["name"]


def break_a_word(spec: dict[str, Any]) -> None:
    container = spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    container["volumesMounts"] = []


@pytest.mark.parametrize(
    "change", [break_a_number, break_a_name, break_a_container, break_a_word]
)
def test_a_wrong_field_is_found(change: Any) -> None:
    job, _ = documents()
    change(job["spec"]["rayClusterSpec"])
    model = kuberay()
    try:
        again = written_again(job, model)
    except ValueError:  # of pydantic: a value that is missing or wrong
        return
    assert again != job


def test_names_refer_to_each_other_and_the_command_is_one() -> None:
    job, claim = documents()
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:3] == ["python", "-m", "vitempo.cluster"]
    given = _commands._parser().parse_args(words[3:])
    nodes = job["spec"]["rayClusterSpec"]
    head = nodes["headGroupSpec"]["template"]["spec"]
    mounts = {m["name"]: m["mountPath"] for m in head["containers"][0]["volumeMounts"]}
    volumes = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in head["volumes"]}
    assert volumes == {"job": claim["metadata"]["name"]} and claim["kind"].endswith("VolumeClaim")
    assert given.out.startswith(mounts["job"] + "/") and given.address == "auto"
    assert nodes["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0", "the driver has its cores"
    for group in nodes["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        container = group["template"]["spec"]["containers"][0]
        assert container["image"] == head["containers"][0]["image"]
        assert container["resources"]["limits"] == container["resources"]["requests"]
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    base = next(line for line in lines if line.startswith("FROM "))
    assert nodes["rayVersion"] in base


def test_the_container_file_is_valid() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    command = [hadolint, "--no-color", str(DEPLOY / "Containerfile")]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
