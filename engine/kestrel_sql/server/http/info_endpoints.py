"""The small endpoints: what the server is, and how it is."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from kestrel_sql.server.errors import SERVER_ERROR, ApiError
from kestrel_sql.server.http.answers import json_answer
from kestrel_sql.server.http.context import context_of
from kestrel_sql.server.service import State
from kestrel_sql.server.serving.service import Service

VERSION = "0.29.0"
"""The release of ksqlDB whose API this is; clients refuse to talk to one that is too old."""


async def root(http: HttpRequest) -> Response:
    """Send a browser to the page, everybody else to `/info`."""
    wants_html = "text/html" in http.headers.get("accept", "")
    return RedirectResponse("/ui" if wants_html else "/info", 307)


async def info(http: HttpRequest) -> Response:
    """Answer `GET /info`."""
    service = context_of(http).service
    state = State.RUNNING if service.state is State.STARTING else service.state
    content = {
        "version": VERSION,
        "kafkaClusterId": service.cluster_id,
        "ksqlServiceId": service.service_id,
        "serverStatus": state.value,
    }
    return json_answer({"KsqlServerInfo": content})


async def healthcheck(http: HttpRequest) -> Response:
    """Answer `GET /healthcheck`."""
    service = context_of(http).service
    well = service.state in (State.STARTING, State.RUNNING)
    parts = {name: {"isHealthy": well} for name in ("metastore", "kafka", "commandRunner")}
    return json_answer({"isHealthy": well, "details": parts, "serverState": _server_state(service)})


def _server_state(service: Service) -> str:
    state = service.state
    return "READY" if state in (State.STARTING, State.RUNNING) else str(state.value)


async def metadata(http: HttpRequest) -> Response:
    """Answer `GET /v1/metadata`."""
    return json_answer({"version": VERSION, "clusterId": _cluster_id(context_of(http).service)})


async def metadata_id(http: HttpRequest) -> Response:
    """Answer `GET /v1/metadata/id`."""
    return json_answer(_cluster_id(context_of(http).service))


def _cluster_id(service: Service) -> dict[str, object]:
    clusters = {"kafka-cluster": service.cluster_id, "ksql-cluster": service.service_id}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def cluster_status(http: HttpRequest) -> Response:
    """Answer `GET /clusterStatus` as a server without heartbeats does."""
    raise ApiError(40400, "Heartbeats between servers are not enabled: this is the only server")


async def refuse_internal(http: HttpRequest) -> Response:
    """Answer `/heartbeat` and `/lag`, which servers send each other."""
    raise ApiError(SERVER_ERROR, "This endpoint is for other servers of a cluster; there is none", status=400)


async def is_valid_property(http: HttpRequest) -> Response:
    """Answer `GET /is_valid_property/{name}`."""
    context_of(http).service.check_property(http.path_params["name"])
    return json_answer(True)


async def alive(http: HttpRequest) -> Response:
    """Answer `/chc/live` and `/chc/ready`."""
    return json_answer({})
