"""Builds nodes of CREATE SOURCE … FROM KAFKA; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.sql.nodes import kafka_source as k
from kestrel_sql.sql.parse.admin import AdminRules
from kestrel_sql.sql.parse.queries import integer_value
from kestrel_sql.sql.parse.spans import Children, Part, cover, kinds, names, nodes, parts
from kestrel_sql.sql.parse.tokens import Token


class KafkaRules(AdminRules):
    """The statement modelled on Materialize (docs/adr/0012)."""

    def create_kafka_source(self, c: Children) -> k.CreateKafkaSource:
        """`CREATE SOURCE s FROM KAFKA …`."""
        clauses = parts(c)
        key, value = clauses["message_formats"]
        return k.CreateKafkaSource(
            names(c)[0],
            clauses["kafka_topic"],
            value,
            key,
            clauses.get("new_names", ()),
            clauses.get("include", ()),
            next((node for node in nodes(c) if isinstance(node, k.EnvelopeClause)), None),
            if_not_exists="if_not_exists" in clauses,
            span=cover(c),
        )

    def create_generated_source(self, c: Children) -> k.CreateGeneratedSource:
        """`CREATE SOURCE s FROM LOAD GENERATOR …`."""
        clauses = parts(c)
        name, generator = names(c)
        return k.CreateGeneratedSource(
            name, generator, clauses.get("include", ()), "if_not_exists" in clauses, span=cover(c)
        )

    def new_name(self, c: Children) -> Token:
        """A name; the keywords of this statement are allowed as names too."""
        return self.ident(c)

    def new_names(self, c: Children) -> Part:
        """Names in parentheses."""
        return Part("new_names", names(c), cover(c))

    def kafka_connection(self, c: Children) -> Part:
        """`CONNECTION c (TOPIC 't', …)`, or only the part in parentheses."""
        clauses = parts(c)
        connection = names(c)[0] if names(c) else None
        topic = k.KafkaTopic(clauses["kafka_name"], connection, None, clauses.get("start_offset", ()), span=cover(c))
        return Part("kafka_topic", topic, cover(c))

    def kafka_broker(self, c: Children) -> Part:
        """`BROKER 'host' TOPIC 't'`."""
        clauses = parts(c)
        topic = k.KafkaTopic(
            clauses["kafka_name"], None, self.text_of(c[1]), clauses.get("start_offset", ()), span=cover(c)
        )
        return Part("kafka_topic", topic, cover(c))

    def kafka_name(self, c: Children) -> Part:
        """`TOPIC 't'`."""
        return Part("kafka_name", self.text_of(c[-1]), cover(c))

    def start_offset(self, c: Children) -> Part:
        """`START OFFSET (n, …)`."""
        offsets = tuple(integer_value(node) for node in nodes(c))
        return Part("start_offset", offsets, cover(c))

    def bare_format(self, c: Children) -> Part:
        """`FORMAT f`."""
        return Part("message_formats", (None, c[1]), cover(c))

    def key_value_formats(self, c: Children) -> Part:
        """`KEY FORMAT f VALUE FORMAT g`."""
        key, value = nodes(c)
        return Part("message_formats", (key, value), cover(c))

    def plain_format(self, c: Children) -> k.MessageFormat:
        """`TEXT`, `BYTES`, `JSON`."""
        return k.MessageFormat(c[0].type, span=cover(c))

    def csv_format(self, c: Children) -> k.MessageFormat:
        """`CSV WITH …`."""
        clauses = parts(c)
        counted = nodes(c)
        columns = integer_value(counted[0]) if counted else None
        return k.MessageFormat("CSV", columns, clauses.get("new_names", ()), clauses.get("delimited_by"), span=cover(c))

    def delimited_by(self, c: Children) -> Part:
        """`DELIMITED BY 'c'`."""
        return Part("delimited_by", self.text_of(c[-1]), cover(c))

    def regex_format(self, c: Children) -> k.MessageFormat:
        """`REGEX 'p'`."""
        return k.MessageFormat("REGEX", pattern=self.text_of(c[1]), span=cover(c))

    def schema_format(self, c: Children) -> k.MessageFormat:
        """`AVRO USING …`, `PROTOBUF MESSAGE 'm' USING …`."""
        clauses = parts(c)
        return k.MessageFormat(c[0].type, message=clauses.get("message"), schema=clauses["schema_place"], span=cover(c))

    def message(self, c: Children) -> Part:
        """`MESSAGE 'm'`."""
        return Part("message", self.text_of(c[1]), cover(c))

    def in_registry(self, c: Children) -> Part:
        """`USING CONFLUENT SCHEMA REGISTRY`; the engine's configuration says which registry."""
        return Part("schema_place", None, cover(c))

    def in_statement(self, c: Children) -> Part:
        """`USING SCHEMA '…'`."""
        return Part("schema_place", self.text_of(c[-1]), cover(c))

    def include(self, c: Children) -> Part:
        """`INCLUDE …`."""
        return Part("include", nodes(c), cover(c))

    def include_plain(self, c: Children) -> k.IncludeItem:
        """One item without parameters."""
        return k.IncludeItem(k.Included(c[0].type), next(iter(names(c)), None), span=cover(c))

    def include_header(self, c: Children) -> k.IncludeItem:
        """`HEADER 'k' AS n`, with `BYTES` before or after the name."""
        return k.IncludeItem(k.Included.HEADER, names(c)[0], self.text_of(c[1]), "BYTES" in kinds(c), span=cover(c))

    def envelope(self, c: Children) -> k.EnvelopeClause:
        """`ENVELOPE …`."""
        clause = next((node for node in nodes(c)), k.EnvelopeClause(""))
        return replace(clause, name=names(c)[0], span=cover(c))

    def inline_errors(self, c: Children) -> k.EnvelopeClause:
        """`(VALUE DECODING ERRORS = INLINE AS n)`."""
        return k.EnvelopeClause("", True, next(iter(names(c)), None), span=cover(c))
