"""Errors of stores as sentences: what is wrong, and what to do."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.setting_errors import causes

_AWAY = "it does not answer"
_LOOK = "check the address (for S3 spark.hadoop.fs.s3a.endpoint) and the network; nothing is lost"
_RIGHTS = "the user needs to list, read, write and delete below this path"
_KNOWN: tuple[tuple[str, str, str], ...] = (
    ("UnknownStoreException", "there is no such bucket", "create the bucket, or check its name and endpoint"),
    (
        "NoAuthWithAWSException",
        "there are no credentials for it",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or fs.s3a.* in core-site.xml of HADOOP_CONF_DIR",
    ),
    ("AWSRedirectException", "the bucket is in another region", "set spark.hadoop.fs.s3a.endpoint.region"),
    ("AccessDeniedException", "it refuses these credentials", f"check them; {_RIGHTS}"),
    ("AccessControlException", "it refuses this user", f"set HADOOP_USER_NAME; {_RIGHTS}"),
    ("UnknownHostException", "its host is unknown", _LOOK),
    ("ConnectException", _AWAY, _LOOK),
    ("ConnectTimeoutException", _AWAY, _LOOK),
    ("SocketTimeoutException", _AWAY, _LOOK),
    ("ApiCallTimeoutException", _AWAY, _LOOK),
    ("ApiCallAttemptTimeoutException", _AWAY, _LOOK),
    (
        "UnsupportedFileSystemException",
        "Hadoop has no file system for it",
        "give its jars with --spark-conf spark.jars=…",
    ),
    ("ClassNotFoundException", "the jars of its file system are missing", "run kestrel prepare --s3"),
    ("SafeModeException", "its NameNode is in safe mode", "wait until it has left safe mode"),
)
"""Names of Java's exceptions, the most telling first, with what they mean and what to do."""

_RENEW = "run the same command again with new credentials to resume; nothing is lost"
_IN_TEXT: tuple[tuple[str, str, str], ...] = (
    (
        "No space left on device",
        "no space is left on its disk or on that of temporary files",
        "make space, and run the same command again to resume; nothing is lost",
    ),
    ("ExpiredToken", "its token has expired", _RENEW),
    # The answer to a request for the size of a file has no text.
    ("Bad Request (Service: S3, Status Code: 400", "S3 answers 400, as it does when a token has expired", _RENEW),
)
"""Words of messages, with what they mean and what to do."""


def error_of_text(uri: str, text: str) -> EngineError | None:
    """Return the error for the text of an exception of Spark, None if it is not about the store of a checkpoint."""
    for words, meaning, hint in _IN_TEXT:
        if words in text:
            return EngineError(f"the checkpoint {uri} cannot be used: {meaning}", hint=hint)
    return None


def store_error(uri: str, error: Py4JJavaError) -> EngineError:
    """Return the error for what a store threw."""
    thrown = [*causes(error.java_exception)]
    kinds = [cause.getClass().getSimpleName() for cause in thrown]
    for kind, meaning, hint in _KNOWN:
        if kind in kinds:
            return EngineError(f"the checkpoint {uri} cannot be used: {meaning}", hint=hint)
    messages = [str(cause.getMessage()) for cause in thrown if cause.getMessage()]
    known = error_of_text(uri, "\n".join(messages))
    message = messages[-1].splitlines()[0] if messages else kinds[0]
    return known or EngineError(f"the checkpoint {uri} cannot be used: {message}", hint=_LOOK)


def statuses(error: Py4JJavaError) -> list[int]:
    """Return the status of each answer of S3 among the causes of an exception."""
    thrown = causes(error.java_exception)
    return [int(cause.statusCode()) for cause in thrown if cause.getClass().getSimpleName() == "S3Exception"]
