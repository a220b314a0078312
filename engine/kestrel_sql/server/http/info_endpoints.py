"""The small endpoints: what the server is, and how it is."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from kestrel_sql.server.errors import SERVER_ERROR, ApiError
from kestrel_sql.server.http.answers import json_answer
from kestrel_sql.server.http.context import context_of
from kestrel_sql.server.http.endpoint import endpoint
from kestrel_sql.server.service import State
from kestrel_sql.server.serving.service import Service

VERSION = "0.29.0"
"""The release of ksqlDB whose API this is; clients refuse to talk to one that is too old."""


@endpoint("GET", "/", rule="R3")
async def root(http: HttpRequest) -> Response:
    """Sends a browser to `/ui`, everybody else to `/info`.

    Example: GET / -> 307
    """
    wants_html = "text/html" in http.headers.get("accept", "")
    return RedirectResponse("/ui" if wants_html else "/info", 307)


@endpoint("GET", "/info", rule="R11", only_json=True)
async def info(http: HttpRequest) -> Response:
    """The release of the API, the ids of the cluster and of the service, and the status of the server.

    Example: GET /info -> 200
    """
    service = context_of(http).service
    state = State.RUNNING if service.state is State.STARTING else service.state
    content = {
        "version": VERSION,
        "kafkaClusterId": service.cluster_id,
        "ksqlServiceId": service.service_id,
        "serverStatus": state.value,
    }
    return json_answer({"KsqlServerInfo": content})


@endpoint("GET", "/healthcheck", rule="R11", needs_credentials=False, only_json=True)
async def healthcheck(http: HttpRequest) -> Response:
    """Whether the server is well.

    Example: GET /healthcheck -> 200
    """
    service = context_of(http).service
    well = service.state in (State.STARTING, State.RUNNING)
    parts = {name: {"isHealthy": well} for name in ("metastore", "kafka", "commandRunner")}
    return json_answer({"isHealthy": well, "details": parts, "serverState": _server_state(service)})


def _server_state(service: Service) -> str:
    state = service.state
    return "READY" if state in (State.STARTING, State.RUNNING) else str(state.value)


@endpoint("GET", "/v1/metadata", rule="R11", needs_credentials=False)
async def metadata(http: HttpRequest) -> Response:
    """The release of the API, and the ids of the cluster and of the service.

    Example: GET /v1/metadata -> 200
    """
    return json_answer({"version": VERSION, "clusterId": _cluster_id(context_of(http).service)})


@endpoint("GET", "/v1/metadata/id", rule="R11", needs_credentials=False)
async def metadata_id(http: HttpRequest) -> Response:
    """The ids of the cluster and of the service.

    Example: GET /v1/metadata/id -> 200
    """
    return json_answer(_cluster_id(context_of(http).service))


def _cluster_id(service: Service) -> dict[str, object]:
    clusters = {"kafka-cluster": service.cluster_id, "ksql-cluster": service.service_id}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


@endpoint("GET", "/clusterStatus", rule="R11", only_json=True)
async def cluster_status(http: HttpRequest) -> Response:
    """Not offered: there is one server.

    Example: GET /clusterStatus -> 404
    """
    raise ApiError(40400, "Heartbeats between servers are not enabled: this is the only server")


@endpoint("POST", "/heartbeat", "/lag", rule="R11")
async def refuse_internal(http: HttpRequest) -> Response:
    """Not offered: the servers of a cluster would send it each other.

    Example: POST /heartbeat {"hostInfo": "h:1", "timestamp": 1} -> 400
    Example: POST /lag {"ksqlHost": "h:1", "hostStoreLags": {}} -> 400
    """
    raise ApiError(SERVER_ERROR, "This endpoint is for other servers of a cluster; there is none", status=400)


@endpoint("GET", "/is_valid_property/{name}", rule="R8", only_json=True)
async def is_valid_property(http: HttpRequest) -> Response:
    """Whether a request may set a property.

    Example: GET /is_valid_property/auto.offset.reset -> 200
    Example: GET /is_valid_property/ksql.service.id -> 400
    """
    context_of(http).service.check_property(http.path_params["name"])
    return json_answer(True)


@endpoint("GET", "/chc/ready", "/chc/live", rule="R11", needs_credentials=False)
async def alive(http: HttpRequest) -> Response:
    """That the server answers.

    Example: GET /chc/ready -> 200
    Example: GET /chc/live -> 200
    """
    return json_answer({})
