"""`docs/deploy`: its files are valid, and their commands run as processes. No image is built."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pyarrow.dataset
import pytest
import yaml
from packaging.requirements import Requirement

from composed import COMPOSE, DEPLOY, Image, Service
from modes import environ_of_classic
from server_connections import certificate_for_localhost
from waiting import wait_for
from watermark_servers import missing

if TYPE_CHECKING:
    from tailrace.kafka import KafkaBroker

_SECRETS = {"token": "a token of some length", "read-token": "a token for reading"}
_KUBERNETES = ("server", "postgresql")


def _program(name: str) -> str:
    return shutil.which(name) or missing(f"{name} isn't there: .ci/run installs it")


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _manifests(name: str) -> dict[str, dict[str, Any]]:
    """The objects of a folder of Kubernetes, by their kinds."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        # No package of Debian is new enough for the patches, so .ci/run doesn't install it.
        pytest.skip("kubectl isn't there")
    text = _run(kubectl, "kustomize", f"kubernetes/{name}")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def test_the_compose_file_is_one_by_the_specification() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    _run(*check, "compose.yaml")


def test_a_linter_has_nothing_against_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    _run(str(hadolint), "Dockerfile")


def test_images_are_pinned_and_published_ports_are_on_loopback() -> None:
    stages = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert set(stages) == {"${PYTHON}"}
    (python,) = re.findall(r"^ARG PYTHON=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    others = [one["image"] for one in COMPOSE["services"].values() if "build" not in one]
    for image in (python, *others):
        assert re.search(r":v?\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?$", image), image
    ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_has_no_rights_of_root(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if "build" in service:
        assert Image.of(service["build"]["target"]).user == "10001"


def test_what_compose_mounts_and_uses_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).resolve().exists(), (name, source)
            else:
                assert source in COMPOSE["volumes"], (name, source)
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name


def _packages_of_the_server() -> list[list[str]]:
    """The words of both calls of pip for the server's image, without options and the wheel."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    (stage,) = re.findall(r"^FROM \S+ AS server-packages\n(.*?)(?=^FROM )", text, re.MULTILINE | re.DOTALL)
    calls = [shlex.split(call) for call in re.findall(r"pip install ([^&\n]*)", stage)]
    return [[word for word in call if word[0] not in "-/"] for call in calls]


def test_the_image_of_the_server_has_what_the_extras_require(repository: Path) -> None:
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    required = [Requirement(one) for one in (*extras["server"], *extras["postgres"])]
    pyspark, installed = _packages_of_the_server()
    assert [Requirement(one).name for one in pyspark] == ["pyspark-client"]
    assert {(Requirement(one).name, *Requirement(one).extras) for one in installed} == {
        (one.name, *one.extras) for one in required
    }


@pytest.mark.campaign
def test_the_packages_of_the_server_are_enough_for_it(repository: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    environ = {**os.environ, "PIP_CONSTRAINT": str(repository / ".ci/constraints.txt")}
    for options, packages in zip((["--no-deps"], []), _packages_of_the_server(), strict=True):
        line = [python, "-m", "pip", "install", "--quiet", *options, *packages]
        subprocess.run(line, env=environ, check=True)
    line = [python, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    store = {
        "TAILRACE_WATERMARK_STORE": f"sqlite:///{tmp_path}/w.db",
        "PYTHONPATH": str(repository / "python"),
    }
    with subprocess.Popen(line, env={**os.environ, **store}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            url = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{url}/readyz") as answer:  # noqa: S310
                assert answer.status == 200
            with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310
                assert b"tailrace_watermark_reports_total" in answer.read()
        finally:
            process.terminate()


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    grafana = COMPOSE["services"]["grafana"]
    mounted = dict(volume.split(":")[1::-1] for volume in grafana["volumes"])
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasources/prometheus.yml").read_text())["datasources"]
    assert (source["url"], source["isDefault"]) == ("http://prometheus:9090", True)
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards/tailrace.yml").read_text())["providers"]
    dashboard = mounted[f"{provider['options']['path']}/dashboard.json"]
    assert json.loads((DEPLOY / dashboard).read_text())["uid"] == "tailrace"
    assert mounted["/etc/grafana/provisioning"] == "./grafana"
    # The dashboard takes the default of this type.
    (variable, _) = json.loads((DEPLOY / dashboard).read_text())["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", source["type"])


@pytest.mark.parametrize("name", _KUBERNETES)
def test_manifests_are_valid(name: str) -> None:
    found = _manifests(name)
    for manifest in found.values():
        kubernetes_validate.validate(manifest, "1.32", strict=True)
    pods = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == pods
    policy = found["NetworkPolicy"]["spec"]
    # Labels that were added to selectors would leave nobody who may ask, or nothing that is guarded.
    assert policy["podSelector"]["matchLabels"] == pods
    (asking,) = policy["ingress"][0]["from"]
    assert asking == {"podSelector": {"matchLabels": {"tailrace/watermarks": "client"}}}


def test_only_a_server_with_sqlite_has_a_volume_and_is_alone() -> None:
    sqlite, postgresql = map(_manifests, _KUBERNETES)
    assert sqlite["Deployment"]["spec"]["replicas"] == 1
    assert sqlite["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert sqlite["NetworkPolicy"]["spec"]["egress"] == []
    assert set(sqlite) - set(postgresql) == {"PersistentVolumeClaim"}
    assert postgresql["Deployment"]["spec"]["replicas"] > 1
    assert postgresql["Deployment"]["spec"]["strategy"] == {"type": "RollingUpdate"}
    spec = postgresql["Deployment"]["spec"]["template"]["spec"]
    assert "store" not in {volume["name"] for volume in spec["volumes"]}
    (container,) = spec["containers"]
    assert [one["name"] for one in container["env"]] == ["TAILRACE_WATERMARK_STORE"]
    ports = {port["port"] for rule in postgresql["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53, 5432}


@pytest.mark.slow
def test_the_server_of_kubernetes_starts_with_its_arguments_and_passes_its_probes(tmp_path: Path) -> None:
    (container,) = _manifests("server")["Deployment"]["spec"]["template"]["spec"]["containers"]
    image = Image.of("server")
    certificate, key = certificate_for_localhost(tmp_path)
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    files = {
        f"{mounted['secrets']}/token": _SECRETS["token"],
        f"{mounted['secrets']}/read-token": _SECRETS["read-token"],
        f"{mounted['tls']}/tls.crt": certificate.read_text(),
        f"{mounted['tls']}/tls.key": key.read_text(),
    }
    for name, text in files.items():
        place = Path(f"{tmp_path}{name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    Path(f"{tmp_path}{mounted['store']}").mkdir(parents=True)
    port = _free_port()
    line = [*image.entrypoint, *container["args"]]
    line = [re.sub(r"(?<==)(?=/)", str(tmp_path), part) for part in line]
    line = [part.replace("0.0.0.0:7171", f"127.0.0.1:{port}") for part in line]
    store = image.variables["TAILRACE_WATERMARK_STORE"].replace(":///", f":///{tmp_path}")
    with subprocess.Popen(
        [sys.executable, "-m", *line],
        env={**os.environ, "TAILRACE_WATERMARK_STORE": store},
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout
            assert b"https://" in process.stdout.readline()
            assert (tmp_path / mounted["store"][1:] / "watermarks.db").is_file()
            unverified = ssl._create_unverified_context()  # noqa: S323  as the kubelet does
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                get = container[probe]["httpGet"]
                assert (get["port"], get["scheme"]) == ("https", "HTTPS")
                # The kubelet asks by the pod's address.
                request = urllib.request.Request(
                    f"https://127.0.0.1:{port}{get['path']}", headers={"Host": "192.0.2.7:7171"}
                )
                with urllib.request.urlopen(request, context=unverified) as answer:  # noqa: S310
                    assert answer.status == 200
        finally:
            process.terminate()
    assert container["ports"] == [{"name": "https", "containerPort": 7171}]


def _ask(url: str, token: str | None = None) -> Any:  # noqa: ANN401  JSON
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def _values(prometheus: str, expression: str) -> dict[str, float]:
    """The values of an expression by their jobs; none before Prometheus answers."""
    try:
        query = urllib.parse.urlencode({"query": expression})
        found = _ask(f"http://{prometheus}/api/v1/query?{query}")["data"]["result"]
    except OSError:
        return {}
    return {one["metric"].get("job", ""): float(one["value"][1]) for one in found}


def _low_watermark(watermarks: str) -> int | None:
    try:
        found: int | None = _ask(f"http://{watermarks}/v1/apps/demo", _SECRETS["token"])[
            "global_low_watermark"
        ]
    except OSError:  # nobody has reported yet
        return None
    return found


@pytest.mark.campaign
@pytest.mark.spark("<4.3", reason="Maven Central lacks Spark 4.3's connector for Kafka")
def test_the_services_of_the_compose_file_work_together_as_processes(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topics = " ".join(COMPOSE["services"]["topics"]["command"])
    (names,) = re.findall(r"for topic in (.*); do", topics)
    (partitions,) = re.findall(r"--partitions (\d+)", topics)
    for name in names.split():
        kafka_broker.create_topic(name, int(partitions))
    at = {name: f"127.0.0.1:{_free_port()}" for name in ("watermarks", "demo", "prometheus")}
    addresses = {
        "watermarks:7171": at["watermarks"],
        "0.0.0.0:7171": at["watermarks"],
        "127.0.0.1:7171": at["watermarks"],
        "demo:4040": at["demo"],
        "127.0.0.1:4040": at["demo"],
        "kafka:9092": kafka_broker.servers,
    }

    def service(name: str, *program: str, **environ: str) -> Service:
        folder = tmp_path / name
        folder.mkdir()
        return Service(name, folder, addresses, _SECRETS, program, environ)

    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.ui.port {at['demo'].split(':')[1]}\n")
    watermarks = service("watermarks")
    demo = service("demo", **environ_of_classic(SPARK_CONF_DIR=str(conf), SPARK_LOCAL_IP="127.0.0.1"))
    prometheus = service("prometheus", _program("prometheus"), f"--web.listen-address={at['prometheus']}")
    with ExitStack() as stack:
        stack.enter_context(watermarks.running())
        wait_for(watermarks.is_healthy, "the server's health check passes")
        process = stack.enter_context(demo.running())
        stack.enter_context(prometheus.running())
        out = demo.place("/data/examples")

        def complete() -> list[Path]:
            assert process.poll() is None, demo.log.read_text()[-6000:]
            return list(out.glob("window_start=*/_SUCCESS"))

        wait_for(demo.is_healthy, "the driver's health check passes", 120)
        wait_for(complete, f"a complete window: {demo.log}", 180)
        assert _low_watermark(at["watermarks"])
        assert watermarks.place("/var/lib/tailrace/watermarks.db").is_file()
        active = 'tailrace_query_active{query="examples"} == 1'
        wait_for(lambda: _values(at["prometheus"], active), "Prometheus has the numbers of the query")
        assert _values(at["prometheus"], "up") == {"tailrace": 1, "watermarks": 1}
        reported = _values(at["prometheus"], "sum by (job) (tailrace_watermark_reports_total)")
        assert reported["watermarks"] > 0
        groups = _ask(f"http://{at['prometheus']}/api/v1/rules")["data"]["groups"]
        assert {"TailraceNoBatch"} <= {rule["name"] for group in groups for rule in group["rules"]}
    first = min(complete_window.parent for complete_window in out.glob("window_start=*/_SUCCESS"))
    rows = pyarrow.dataset.dataset(first, format="parquet").to_table().to_pylist()
    users = [row["user"] for row in rows]
    assert len(users) == len(set(users)) > 100
    clicked = {row["user"] for row in rows if row["labels"]}
    # Two of ten: a click for the view of two seconds before.
    assert clicked == {user for user in users if user % 10 < 2}
