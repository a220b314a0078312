from kestrel_sql.python_api import Engine as Engine
from kestrel_sql.python_api import Result as Result
from kestrel_sql.python_api import Row as Row
from kestrel_sql.python_api import Table as Table
from kestrel_sql.python_api import connect as connect
