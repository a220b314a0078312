"""REST-QTT cases: statements answered by responses (rules Q13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from kestrel_qtt.cases.decode import (
    DecodeError,
    Members,
    below,
    each,
    input_of,
    optional,
    outputs_of,
    rules_of,
    topic_of,
)
from kestrel_qtt.cases.discovery import CaseFile
from kestrel_qtt.cases.expand import Variant, expand
from kestrel_qtt.cases.model import Actual, Case, CaseFileError, ExpectedException, Json, Produced
from kestrel_qtt.cases.raw import RawItem

_REST_ONLY = frozenset({"responses", "expectedError", "inputConditions", "outputConditions", "testPullWithProtoFormat"})
_MEMBERS = frozenset(
    {
        *("name", "rules", "statements", "format", "config", "properties", "enabled"),
        *("inputs", "outputs", "topics"),
        *_REST_ONLY,
    }
)


class RestCase(Case, frozen=True, kw_only=True):
    """A case whose statements are answered. Each object of `responses` has one member: admin, query or queryProto.

    With `late_inputs`, inputs are produced after the push query has started. A `ksqldb` case is one of ksqlDB's.
    """

    has_records: ClassVar[bool] = False

    responses: tuple[dict[str, Json], ...] = ()
    late_inputs: bool = False
    in_order: bool = False
    with_proto: bool = False
    ksqldb: bool = False

    @property
    def prints(self) -> bool:
        """Whether it expects lines of PRINT, for which the HTTP API has an endpoint of its own."""
        return any(isinstance(told := each.get("admin"), dict) and "lines" in told for each in self.responses)


class Answer(msgspec.Struct, frozen=True):
    """One answer: the `kind` of the response, and its elements in the same form."""

    kind: str
    elements: tuple[Actual, ...]


class Answered(Produced, frozen=True, kw_only=True):
    """The case ran to its end, and each statement was answered."""

    answers: tuple[Answer, ...] = ()


def is_rest(item: RawItem) -> bool:
    """Say whether a case has members that only REST cases have."""
    return isinstance(item.data, dict) and not _REST_ONLY.isdisjoint(item.data)


def rest_cases(file: CaseFile, item: RawItem) -> Iterator[RestCase]:
    """Return the cases of one element of a file; raise CaseFileError."""
    path, members = file.path, item.data
    if not isinstance(members, dict):
        raise CaseFileError(path, item.line, "a case is an object")
    if members.get("enabled") is False:
        return
    unknown = sorted(set(members) - _MEMBERS)
    if unknown and not file.ksqldb:
        raise CaseFileError(path, item.line, f"unknown member {unknown[0]!r}: known are {', '.join(sorted(_MEMBERS))}")
    try:
        for variant in expand(members, path.stem):
            yield _case(file, members, variant, item)
    except DecodeError as error:
        raise CaseFileError(path, item.locate(error.path) if error.path else item.line, str(error)) from error


def _case(file: CaseFile, members: Members, variant: Variant, item: RawItem) -> RestCase:
    inputs = each(members, "inputs", input_of)
    error = below(members, "expectedError", _expected_error)
    if error is not None and inputs:
        raise DecodeError("`inputs` and `expectedError` exclude each other")
    return RestCase(
        id=f"{file.name}::{variant.slug}",
        file=file.path,
        line=item.line,
        name=variant.name,
        statements=variant.statements,
        format=variant.format,
        config=variant.config,
        inputs=inputs,
        outputs=outputs_of(members, item.lines_of("outputs")),
        topics=each(members, "topics", topic_of),
        properties=variant.properties,
        expected_exception=error,
        rules=() if file.ksqldb else rules_of(members),
        tolerant=True,
        responses=each(members, "responses", _response),
        late_inputs=_flag(members, "inputConditions", "waitForActivePushQuery"),
        in_order=_flag(members, "outputConditions", "verifyOrder"),
        ksqldb=file.ksqldb,
        with_proto=bool(members.get("testPullWithProtoFormat")),
    )


def _response(members: Members) -> dict[str, Json]:
    kinds: Mapping[str, type] = {"admin": dict, "query": list, "queryProto": list}
    if len(members) != 1 or not members.keys() <= kinds.keys():
        raise DecodeError(f"a response has one member, of {', '.join(kinds)}")
    for name, kind in kinds.items():
        optional(members, name, kind)
    return dict(members)


def _flag(members: Members, group: str, name: str) -> bool:
    return bool((optional(members, group, dict) or {}).get(name))


def _expected_error(members: Members) -> ExpectedException:
    if not any(members.get(name) for name in ("type", "message", "status")):
        raise DecodeError("`expectedError` must be an object with a type, a message or a status")
    return ExpectedException(message=optional(members, "message", str), type=optional(members, "type", str))
