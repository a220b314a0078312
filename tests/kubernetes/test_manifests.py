"""The manifests of docs/kubernetes hold against the published schemas, and their command against our options."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kestrel_sql.cli.main import build_parser
from kestrel_sql.plan.codec.plan_file import engine_version
from tests.kubernetes.api_server import ApiServer, api_server

FOLDER = Path(__file__).parents[2] / "docs" / "kubernetes"
VERSIONS = ("1.29", "1.37")
"""The oldest and the newest version of Kubernetes that we check."""

DRIVER = """
import sys
from pathlib import Path
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.broker_session import open_for_brokers
from kestrel_sql.kafka.run.run import RunSettings

master, *words = sys.argv[1:]
spark = dict(word.split("=", 1) for word in words)
config = KafkaConfig(servers="localhost:1")
open_for_brokers(RunSettings(config=config, checkpoint=Path("unused"), master=master, spark=spark), print)
"""


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def patched(deployment: dict[str, Any]) -> dict[str, Any]:
    """The deployment with the patches of `executors`, which only replace members and add to lists."""
    for patch in yaml.safe_load((FOLDER / "executors" / "driver.yaml").read_text(encoding="utf-8")):
        *parents, last = patch["path"].strip("/").split("/")
        target: Any = deployment
        for name in parents:
            target = target[int(name) if isinstance(target, list) else name]
        if patch["op"] == "add":
            assert last == "-"
            target.append(patch["value"])
        else:
            assert (patch["op"], last in target) == ("replace", True)
            target[last] = patch["value"]
    return deployment


def deployment(*, executors: bool) -> dict[str, Any]:
    (found,) = (each for each in documents(FOLDER / "base" / "run.yaml") if each["kind"] == "Deployment")
    return patched(found) if executors else found


def objects() -> Iterator[dict[str, Any]]:
    for file in ("base/run.yaml", "executors/rights.yaml", "executors/executor.yaml"):
        yield from documents(FOLDER / file)
    yield deployment(executors=True)


def arguments(*, executors: bool) -> list[str]:
    (container,) = deployment(executors=executors)["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def spark_settings() -> dict[str, str]:
    """The Spark settings that the driver of `executors` is given."""
    prefix = "--spark-conf="
    words = (word.removeprefix(prefix) for word in arguments(executors=True) if word.startswith(prefix))
    return dict(word.split("=", 1) for word in words)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(version: str) -> None:
    found = list(objects())
    assert len(found) == 7
    for each in found:
        if each["kind"] == "Pod":
            each["spec"]["containers"][0].setdefault("image", "set by Spark")
        kubernetes_validate.validate(each, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    wrong = deployment(executors=False)
    wrong["spec"]["replica"] = wrong["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("folder", ["base", "executors"])
def test_the_files_of_a_kustomization_are_there(folder: str) -> None:
    (kustomization,) = documents(FOLDER / folder / "kustomization.yaml")
    generated = [*kustomization.get("configMapGenerator", []), *kustomization.get("secretGenerator", [])]
    patches = [patch["path"] for patch in kustomization.get("patches", [])]
    files = [*kustomization["resources"], *patches, *(file for each in generated for file in each["files"])]
    assert [file for file in files if not (FOLDER / folder / file).exists()] == []


@pytest.mark.parametrize("executors", [False, True])
def test_kustomize_makes_the_objects_that_are_checked_here(executors: bool) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kustomize is not run: there is no kubectl")
    folder = FOLDER / ("executors" if executors else "base")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    for version, each in product(VERSIONS, objects):
        kubernetes_validate.validate(each, version, strict=True)
    made = {each["kind"]: each for each in objects}
    expected = deployment(executors=executors)
    spec = expected["spec"]["template"]["spec"]
    app, kafka, _ = spec["volumes"]
    spec["containers"][0]["image"] = f"registry.example.com/kestrel:{engine_version()}"
    app["configMap"]["name"] = made["ConfigMap"]["metadata"]["name"]
    kafka["secret"]["secretName"] = made["Secret"]["metadata"]["name"]
    assert made["Deployment"] == expected
    assert set(made["ConfigMap"]["data"]) == ({"app.sql", "executor.yaml"} if executors else {"app.sql"})
    assert set(made["Secret"]["data"]) == {"kafka.properties"}


@pytest.mark.parametrize("executors", [False, True])
def test_the_command_takes_all_its_options(executors: bool) -> None:
    program, *words = arguments(executors=executors)
    assert program == "kestrel"
    parsed = build_parser("run", "serve").parse_args(words)
    assert (parsed.grace, parsed.log_format) == (25, "json")
    assert parsed.grace < deployment(executors=executors)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("executors", [False, True])
def test_no_container_may_do_more_than_it_must(executors: bool) -> None:
    spec = deployment(executors=executors)["spec"]["template"]["spec"]
    pods = [spec, documents(FOLDER / "executors" / "executor.yaml")[0]["spec"]]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@pytest.mark.spark
@pytest.mark.nightly
def test_the_driver_asks_for_executors_that_kubernetes_can_start(tmp_path: Path) -> None:
    settings = spark_settings()
    settings["spark.kubernetes.executor.podTemplateFile"] = str(FOLDER / "executors" / "executor.yaml")
    # Here is neither the service by whose name executors find the driver, nor a need for fixed ports.
    settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.port": "0", "spark.driver.blockManager.port": "0"}
    with api_server() as api:
        words = [f"{name}={value}" for name, value in settings.items()]
        with subprocess.Popen([sys.executable, "-c", DRIVER, f"k8s://{api.url}", *words], cwd=tmp_path) as driver:
            try:
                pods = _pods(api, driver, int(settings["spark.executor.instances"]))
            finally:
                driver.kill()
    for pod in pods:
        kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
        (container,) = pod["spec"]["containers"]
        assert container["image"] == settings["spark.kubernetes.container.image"]
        assert container["args"] == ["executor"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        given = {each["name"] for each in container["env"]}
        used = set(_variables((FOLDER / "entrypoint.sh").read_text(encoding="utf-8"))) - {"JAVA_HOME", "SPARK_HOME"}
        assert used - given == set(), "the entry point needs variables that Spark does not set"
        assert any(name.startswith("SPARK_JAVA_OPT_") for name in given)
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/tmp", "/opt/spark/conf"} <= mounts


def _pods(api: ApiServer, driver: subprocess.Popen[bytes], wanted: int) -> list[dict[str, Any]]:
    until = time.monotonic() + 300
    while len(api.created.get("Pod", ())) < wanted:
        assert driver.poll() is None, "the driver ended before it asked for executors"
        assert time.monotonic() < until, f"the driver asked only for {api.created}"
        time.sleep(0.2)
    return api.created["Pod"]


def _variables(script: str) -> Iterator[str]:
    """The variables of a shell script that Spark or the image sets."""
    for part in script.split("$")[1:]:
        name = part.lstrip("{").split("}")[0].split(":")[0].split('"')[0].split("/")[0].split(" ")[0]
        if name.isupper():
            yield name
