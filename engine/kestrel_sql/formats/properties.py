"""The properties that formats have."""

from __future__ import annotations

DELIMITER = "delimiter"
FULL_NAME = "fullSchemaName"
SCHEMA_ID = "schemaId"
SUBJECT_NAME = "subjectName"
UNWRAP_PRIMITIVES = "unwrapPrimitives"
NULLABLE = "nullableRepresentation"
