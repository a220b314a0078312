"""Expression nodes; they compare by structure and ignore spans."""

from __future__ import annotations

import decimal
import sys
from abc import abstractmethod
from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Self, SupportsIndex

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import Span
from kestrel_sql.sql.nodes.chains import chain
from kestrel_sql.types.sql_types import SqlType

_SPAN = "span"


@cache
def _content_of(node: type[Node]) -> Callable[[object], object]:
    """What gives all fields of a node but its span."""
    names = [name for name in node.__struct_fields__ if name != _SPAN]
    return attrgetter(*names) if names else lambda _: ()


class Node(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Base class of all nodes, with the position in the statement text."""

    span: Span | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _content_of(type(self))(self) == _content_of(type(self))(other)

    def __ne__(self, other: object) -> bool:
        # `Struct` has one of its own, which Python would ask.
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), _content_of(type(self))(self)))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != _SPAN)
        return f"{type(self).__name__}({', '.join(shown)})"

    def continued(self) -> Any:
        """The link of a chain that this one continues, None for a node that is none (`Link`)."""


class ComparisonOp(Enum):
    """Comparison operators; the value is their text, the name is used in messages."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS_THAN = "<"
    LESS_THAN_OR_EQUAL = "<="
    GREATER_THAN = ">"
    GREATER_THAN_OR_EQUAL = ">="
    IS_DISTINCT_FROM = "IS DISTINCT FROM"
    IS_NOT_DISTINCT_FROM = "IS NOT DISTINCT FROM"

    @property
    def takes_null(self) -> bool:
        """Whether NULL is a value for the operator; the others are false for it, and do not look further."""
        return self in (ComparisonOp.IS_DISTINCT_FROM, ComparisonOp.IS_NOT_DISTINCT_FROM)


_FRAMES = 4_000
"""More frames than recursive functions take for the deepest expression (`kestrel_sql.sql.parse.nesting`)."""

# In Spark's workers, too: they import what they compute.
sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))


class ArithmeticOp(Enum):
    """Arithmetic operators; the value is their text."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULUS = "%"


class LogicalOp(Enum):
    """Binary logical operators."""

    AND = "AND"
    OR = "OR"


class NullLiteral(Node, frozen=True):
    """NULL, which has no type."""


class BooleanLiteral(Node, frozen=True):
    """TRUE or FALSE."""

    value: bool


class IntegerLiteral(Node, frozen=True):
    """An integer: INTEGER if it fits 32 bits, else BIGINT."""

    value: int


class LongLiteral(Node, frozen=True):
    """An integer that is BIGINT whatever its size; rewrites create it, for example from timestamp strings."""

    value: int


class DecimalLiteral(Node, frozen=True):
    """An exact number; its digits determine its type, so 1.0 and 1.00 differ."""

    value: decimal.Decimal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecimalLiteral) and self.value.as_tuple() == other.value.as_tuple()

    def __hash__(self) -> int:
        return hash(self.value.as_tuple())


class DoubleLiteral(Node, frozen=True):
    """A number written with an exponent; 0E0 and -0E0 differ."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DoubleLiteral) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


class StringLiteral(Node, frozen=True):
    """A string in single quotes."""

    value: str


class IntervalUnit(Node, frozen=True):
    """An interval unit as a function argument, in upper case and plural, such as DAYS."""

    unit: str


class ColumnRef(Node, frozen=True):
    """A column by exact name, with its source alias if the text has one."""

    name: str
    qualifier: str | None = None


class LambdaVariable(Node, frozen=True):
    """A reference to a parameter of an enclosing lambda."""

    name: str


class Not(Node, frozen=True):
    """Logical negation."""

    operand: Expression


class Link(Node, frozen=True):
    """A node that may add a term to a chain such as `a + b + c`, which nests to the left.

    A chain may have thousands of terms, so nothing recurses along it: it is compared, hashed and pickled link by link.
    """

    @property
    @abstractmethod
    def start(self) -> Expression | None:
        """The first operand."""

    @property
    @abstractmethod
    def rest(self) -> tuple[object, ...]:
        """What else the node consists of."""

    @abstractmethod
    def with_parts(self, start: object, rest: tuple[object, ...]) -> Self:
        """Return the node with another first operand and other parts."""

    def __eq__(self, other: object) -> bool:
        left: Link = self
        right = other
        while isinstance(right, Link) and left is not right:
            if type(left) is not type(right) or left.rest != right.rest:
                return False
            before, right_before = left.continued(), right.continued()
            if before is None or right_before is None:
                return left.start == right.start
            left, right = before, right_before
        return left is right

    def __hash__(self) -> int:
        first, *others = chain(self)
        found = hash((first.start, first.rest))
        for link in others:
            found = hash((found, link.rest))
        return found

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        first, *others = chain(self)
        if not others:
            return object.__reduce_ex__(self, protocol)
        return _linked, (first, *(link.with_parts(None, link.rest) for link in others))


def _linked(found: object, *links: Link) -> object:
    for link in links:
        found = link.with_parts(found, link.rest)
    return found


class _Operation(Link, frozen=True):
    op: Enum
    left: Expression
    right: Expression

    def continued(self) -> Self | None:
        """The operation on the left, if it is one of the same kind."""
        left: Any = self.left
        return left if type(left) is type(self) else None

    @property
    def start(self) -> Expression:
        """The left operand."""
        return self.left

    @property
    def rest(self) -> tuple[object, ...]:
        """The operator and the right operand."""
        return self.op, self.right

    def with_parts(self, start: object, rest: tuple[object, ...]) -> Self:
        """Return the operation with other operands."""
        operation: Any = self
        changed: Self = replace(operation, left=start, right=rest[1])
        return changed


class Logical(_Operation, frozen=True):
    """AND or OR; evaluation short-circuits."""

    op: LogicalOp
    left: Expression
    right: Expression


class Comparison(Node, frozen=True):
    """A comparison of two values."""

    op: ComparisonOp
    left: Expression
    right: Expression


class Arithmetic(_Operation, frozen=True):
    """A binary arithmetic operation; `||` is a call of CONCAT instead."""

    op: ArithmeticOp
    left: Expression
    right: Expression


class Negate(Node, frozen=True):
    """Unary minus."""

    operand: Expression


class UnaryPlus(Node, frozen=True):
    """Unary plus."""

    operand: Expression


class IsNull(Node, frozen=True):
    """IS NULL."""

    operand: Expression


class IsNotNull(Node, frozen=True):
    """IS NOT NULL."""

    operand: Expression


class Between(Node, frozen=True):
    """BETWEEN with inclusive bounds; NOT BETWEEN is a `Not` around it."""

    operand: Expression
    lower: Expression
    upper: Expression


class InList(Node, frozen=True):
    """IN; NOT IN is a `Not` around it."""

    operand: Expression
    items: tuple[Expression, ...]


class Like(Node, frozen=True):
    """LIKE; NOT LIKE is a `Not` around it."""

    operand: Expression
    pattern: Expression
    escape: str | None = None


class When(Node, frozen=True):
    """One branch of a CASE."""

    condition: Expression
    result: Expression


class Case(Node, frozen=True):
    """CASE WHEN … THEN … ELSE … END."""

    branches: tuple[When, ...]
    default: Expression | None = None


class SimpleCase(Node, frozen=True):
    """CASE x WHEN …; it parses, but analysis rejects it."""

    operand: Expression
    branches: tuple[When, ...]
    default: Expression | None = None


class Cast(Node, frozen=True):
    """CAST(x AS type)."""

    operand: Expression
    type: SqlType


class ArrayConstructor(Node, frozen=True):
    """ARRAY[…]."""

    items: tuple[Expression, ...]


class MapConstructor(Node, frozen=True):
    """MAP(k := v, …)."""

    entries: tuple[tuple[Expression, Expression], ...]


class StructConstructor(Node, frozen=True):
    """STRUCT(name := value, …)."""

    fields: tuple[tuple[str, Expression], ...]


class Subscript(Node, frozen=True):
    """base[index]: an array item (from 1; negative counts from the end) or a map value."""

    base: Expression
    index: Expression


class Dereference(Node, frozen=True):
    """base->field."""

    base: Expression
    field: str


class Lambda(Node, frozen=True):
    """(x, y) => body."""

    parameters: tuple[str, ...]
    body: Expression


class FunctionCall(Link, frozen=True):
    """NAME(arguments); the name is upper case. `||` is a call of CONCAT, and makes chains of them."""

    name: str
    arguments: tuple[Expression, ...]

    @property
    def start(self) -> Expression | None:
        """The first argument."""
        return self.arguments[0] if self.arguments else None

    @property
    def rest(self) -> tuple[object, ...]:
        """The name and the other arguments."""
        return self.name, self.arguments[1:]

    def with_parts(self, start: Any, rest: tuple[Any, ...]) -> FunctionCall:
        """Return the call with other arguments."""
        return replace(self, arguments=(start, *rest[1]))

    def continued(self) -> FunctionCall | None:
        """The call of CONCAT that this one of two arguments adds to."""
        if self.name != "CONCAT" or len(self.arguments) != 2:
            return None
        first = self.arguments[0]
        return first if isinstance(first, FunctionCall) and first.name == "CONCAT" else None


class AtTimeZone(Node, frozen=True):
    """x AT TIME ZONE 'z'; it parses, but analysis rejects it."""

    operand: Expression
    zone: str


Literal = NullLiteral | BooleanLiteral | IntegerLiteral | LongLiteral | DecimalLiteral | DoubleLiteral | StringLiteral

Expression = (
    Literal
    | IntervalUnit
    | ColumnRef
    | LambdaVariable
    | Not
    | Logical
    | Comparison
    | Arithmetic
    | Negate
    | UnaryPlus
    | IsNull
    | IsNotNull
    | Between
    | InList
    | Like
    | Case
    | SimpleCase
    | Cast
    | ArrayConstructor
    | MapConstructor
    | StructConstructor
    | Subscript
    | Dereference
    | Lambda
    | FunctionCall
    | AtTimeZone
)
