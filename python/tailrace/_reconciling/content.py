"""The equality of values: that of Spark's `<=>`, also for types that `<=>` doesn't take.

Two nulls are equal, and so are two NaN, and 0.0 and -0.0. Maps are equal if they have the same entries, in
any order; variants if they have the same JSON and the same types; calendar intervals if their text is the
same. A struct, an array or a map is equal if its parts are. Values of such types become values that Spark
compares:

    map('b', 2, 'a', 1)    ->  [('a', 1), ('b', 2)]
    parse_json('{"a":1}')  ->  ('OBJECT<a: BIGINT>', '{"a":1}')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import ArrayType, CalendarIntervalType, MapType, StructType, VariantType

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def comparable(value: Column, kind: DataType) -> Column:
    """A value that Spark compares, groups and sorts, equal where the given one is.

    Args:
        value: of any type.
        kind: its type.
    """
    if is_comparable(kind):
        return value
    match kind:
        case StructType():
            parts = [comparable(value.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
            made = F.struct(*parts)
        case ArrayType(elementType=element):
            return F.transform(value, lambda one: comparable(one, element))
        case MapType(keyType=key, valueType=item):
            # Spark has no order of structs whose parts have none: parts are comparable before they are
            # sorted.
            return F.array_sort(
                F.transform(
                    F.map_entries(value),
                    lambda entry: F.struct(
                        comparable(entry.getField("key"), key).alias("key"),
                        comparable(entry.getField("value"), item).alias("value"),
                    ),
                )
            )
        case VariantType():
            made = F.struct(F.schema_of_variant(value).alias("type"), F.to_json(value).alias("json"))
        case _:
            return value.cast("string")
    return F.when(value.isNotNull(), made)


def is_comparable(kind: DataType) -> bool:
    """True for a type that Spark compares and groups by as it is."""
    match kind:
        case StructType():
            return all(is_comparable(field.dataType) for field in kind.fields)
        case ArrayType():
            return is_comparable(kind.elementType)
        case _:
            return not isinstance(kind, MapType | VariantType | CalendarIntervalType)
