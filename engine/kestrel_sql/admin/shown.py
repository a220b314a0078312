"""Shows the entity of a statement as a table or a sentence, whether this engine made it or a server sent it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kestrel_sql.admin.answer import Answer, Entity, message_answer, moment, table
from kestrel_sql.formats.json.text import write_compact
from kestrel_sql.types.sql_types import BOOLEAN, INTEGER, SqlType, quote

_Cell = str | Callable[[Entity], object]
"""The value in a cell: a member of an entry, or what a function makes of the entry."""

_TYPES: Mapping[str, SqlType] = {"Windowed": BOOLEAN, "Partitions": INTEGER, "Consumers": INTEGER}
"""The types of the columns that are no text."""


def shown(entity: Entity) -> Answer:
    """Return what a terminal shows of an entity; one that only another server knows is shown by its members."""
    try:
        found = _shown(entity)
    except (KeyError, TypeError):
        found = None
    if found is not None:
        return found
    hidden = ("@type", "statementText", "warnings")
    return table(("Property", "Value"), ((name, _plain(entity[name])) for name in entity if name not in hidden))


def _shown(entity: Entity) -> Answer | None:
    status = entity.get("commandStatus")
    message = status.get("message") if isinstance(status, dict) else entity.get("message")
    if message is not None:
        return message_answer(str(message))
    build = _KINDS.get(str(entity.get("@type")))
    return None if build is None else build(entity)


def _rows(entries: Sequence[Entity], columns: Mapping[str, _Cell]) -> Answer:
    rows = [[each.get(cell) if isinstance(cell, str) else cell(each) for cell in columns.values()] for each in entries]
    return table([(name, _TYPES[name]) if name in _TYPES else name for name in columns], rows)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else write_compact(value)


def _joined(member: str) -> _Cell:
    return lambda entry: ", ".join(dict.fromkeys(map(str, entry.get(member) or ())))


def _status(query: Entity, hosts: Iterable[str]) -> str:
    """The state of a query, or the status on its host that says more than RUNNING."""
    return next((each for each in hosts if each != "RUNNING"), query["state"] or "")


_SOURCES: Mapping[str, _Cell] = {
    "Kafka Topic": "topic",
    "Key Format": "keyFormat",
    "Value Format": "valueFormat",
    "Windowed": "isWindowed",
}
_TOPICS: Mapping[str, _Cell] = {
    "Kafka Topic": "name",
    "Partitions": lambda entry: len(entry["replicaInfo"]),
    "Partition Replicas": _joined("replicaInfo"),
}
_RUNNING: Mapping[str, _Cell] = {
    "Query ID": "id",
    "Query Type": "queryType",
    "Status": lambda entry: _status(entry, entry["statusCount"]),
    "Sink Name": _joined("sinks"),
    "Sink Kafka Topic": _joined("sinkKafkaTopics"),
    "Query String": "queryString",
}


def _signature(variation: Entity) -> str:
    arguments = (f"{each['name']} {each['type']}{'...' * each['isVariadic']}" for each in variation["arguments"])
    return f"{variation['name']}({', '.join(arguments)})"


_VARIATION: Mapping[str, _Cell] = {
    "Name": "name",
    "Type": "type",
    "Variation": _signature,
    "Returns": "returnType",
    "Description": "description",
}


def _list(member: str, columns: Mapping[str, _Cell]) -> Callable[[Entity], Answer]:
    return lambda entity: _rows(entity[member], columns)


def _properties(entity: Entity) -> Answer:
    changed = entity["overwrittenProperties"]
    columns: Mapping[str, _Cell] = {
        "Property": "name",
        "Scope": "scope",
        "Override": lambda entry: "SESSION" if entry["name"] in changed else "",
        "Value": "value",
    }
    return _rows(entity["properties"], columns)


def _assertion(entity: Entity) -> Answer:
    parts = (("Topic", "topicName"), ("Schema with subject name", "subject"), ("Schema with id", "id"))
    named = " and ".join(f"{part} {entity[name]}" for part, name in parts if entity.get(name) is not None)
    said = "exists" if entity["exists"] else "does not exist"
    return message_answer(f"{named.replace(' and Schema with', ' and')} {said}.")


def _types(entity: Entity) -> Answer:
    return table(("Type Name", "Schema"), ((name, _type(schema)) for name, schema in entity["types"].items()))


def _type(schema: Entity) -> str:
    """A `SchemaInfo` as SQL; it says nothing of the keys of a MAP."""
    match schema:
        case {"type": "ARRAY", "memberSchema": item}:
            return f"ARRAY<{_type(item)}>"
        case {"type": "MAP", "memberSchema": value}:
            return f"MAP<STRING, {_type(value)}>"
        case {"type": "STRUCT", "fields": fields}:
            return f"STRUCT<{', '.join(quote(each['name']) + ' ' + _type(each['schema']) for each in fields)}>"
        case {"type": name, "parameters": parameters}:
            return f"{name}({', '.join(map(str, parameters.values()))})"
        case _:
            return str(schema["type"])


def _columns(source: Entity) -> Answer:
    rows = [(field["name"], _type(field["schema"]), _role(field, source)) for field in source["fields"]]
    return table(("Field", "Type", "Role"), rows)


def _role(field: Entity, described: Entity) -> str:
    match field.get("type"):
        case "KEY":
            window = f" (Window type: {described['windowType']})" if described.get("windowType") else ""
            return ("(primary key)" if described.get("type") == "TABLE" else "(key)") + window
        case "HEADER":
            return f"(header('{field['headerKey']}'))" if field.get("headerKey") else "(headers)"
        case _:
            return ""


def _sources(described: Sequence[Entity]) -> Answer:
    rows = [(each["name"], *fact) for each in described for fact in _source_facts(each) if fact[1]]
    return table(("Source", "Property", "Value"), rows)


def _source_facts(source: Entity) -> Iterator[tuple[str, str]]:
    yield "Type", source["type"]
    yield "Timestamp field", source["timestamp"]
    yield "Key format", source["keyFormat"]
    yield "Value format", source["valueFormat"]
    yield "Kafka topic", f"{source['topic']} (partitions: {source['partitions']}, replication: {source['replication']})"
    yield "Statement", source["statement"]
    yield from _fields(source)
    yield "Sources that have a DROP constraint on it", ", ".join(source.get("sourceConstraints") or ())
    for verb in ("read", "write"):
        for query in source[f"{verb}Queries"]:
            yield (
                f"Query that {verb}s it",
                f"{query['id']} ({_status(query, query['statusCount'])}): {query['queryString']}",
            )
    yield "Statistics", source["statistics"]
    yield "Errors", source["errorStats"]
    for summary in source["queryOffsetSummaries"]:
        for topic in summary["topicSummaries"]:
            for each in topic["offsets"]:
                read, start, end = each["consumerOffset"], each["logStartOffset"], each["logEndOffset"]
                yield (
                    f"Offsets of {summary['groupId']}",
                    _offset(topic["kafkaTopic"], each, f"{read} of {start} to {end}"),
                )


def _fields(described: Entity) -> Iterator[tuple[str, str]]:
    for each in described["fields"]:
        yield f"Field {each['name']}", f"{_type(each['schema'])} {_role(each, described)}".rstrip()


def _offset(topic: str, place: Entity, read: str) -> str:
    return f"{topic}, partition {place['partition']}: {read}"


def _queries(described: Sequence[Entity]) -> Answer:
    rows = [(each["id"], *fact) for each in described for fact in _query_facts(each) if fact[1]]
    return table(("Query", "Property", "Value"), rows)


def _query_facts(query: Entity) -> Iterator[tuple[str, str]]:
    yield "Statement", query["statementText"]
    yield "Status", _status(query, query["ksqlHostQueryStatus"].values())
    yield from _fields(query)
    yield "Sources", ", ".join(query["sources"])
    yield "Sinks", ", ".join(query["sinks"])
    for error in query["queryErrors"]:
        yield "Error", f"{moment(error['timestamp'])}: {error['errorMessage']} ({error['type']})"
    for name, value in query["overriddenProperties"].items():
        yield f"Property {name}", _plain(value)
    for task in query["tasksMetadata"]:
        for each in task["topicOffsets"]:
            place = each["topicPartitionEntity"]
            yield "Offsets", _offset(place["topic"], place, f"{each['committedOffset']} of {each['endOffset']}")


def _explained(query: Entity) -> Answer:
    """A query with its plan and its steps from the sink to the sources."""
    facts = _queries([query])
    plans = (("Execution plan", query["executionPlan"]), ("Processing topology", query["topology"]))
    message = "\n".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in plans)
    return Answer(columns=facts.columns, rows=facts.rows, message=message)


def _described(entity: Entity) -> Answer:
    source = entity["sourceDescription"]
    return _sources([source]) if source["extended"] else _columns(source)


def _connector(entity: Entity) -> Answer:
    status = entity["status"]
    rows = [
        ("Name", status["name"]),
        ("Class", entity["connectorClass"]),
        ("Type", status["type"]),
        ("State", status["connector"]["state"]),
        *((f"Task {task['id']}", task["state"]) for task in status["tasks"]),
    ]
    return table(("Property", "Value"), rows)


_KINDS: Mapping[str, Callable[[Entity], Answer]] = {
    "streams": _list("streams", {"Stream Name": "name", **_SOURCES}),
    "tables": _list("tables", {"Table Name": "name", **_SOURCES}),
    "kafka_topics": _list("topics", _TOPICS),
    "kafka_topics_extended": _list(
        "topics", {**_TOPICS, "Consumers": "consumerCount", "Consumer Groups": "consumerGroupCount"}
    ),
    "queries": _list("queries", _RUNNING),
    "query_descriptions": lambda entity: _queries(entity["queryDescriptions"]),
    "queryDescription": lambda entity: _explained(entity["queryDescription"]),
    "sourceDescription": _described,
    "source_descriptions": lambda entity: _sources(entity["sourceDescriptions"]),
    "properties": _properties,
    "function_names": _list("functions", {"Function Name": "name", "Type": "type", "Category": "category"}),
    "describe_function": lambda entity: _rows([{**entity, **each} for each in entity["functions"]], _VARIATION),
    "type_list": _types,
    "variables": _list("variables", {"Variable Name": "name", "Value": "value"}),
    "connector_list": _list(
        "connectors", {"Connector Name": "name", "Type": "type", "Class": "className", "Status": "state"}
    ),
    "connector_plugins_list": _list("connectorsPlugins", {"Class": "className", "Type": "type", "Version": "version"}),
    "connector_info": lambda entity: message_answer(f"Created connector {entity['info']['name']}"),
    "connector_description": _connector,
    "drop_connector": lambda entity: message_answer(f'Dropped connector "{entity["connectorName"]}"'),
    "assert_topic": _assertion,
    "assert_schema": _assertion,
}
