"""Replays: records that an at-least-once pipeline has written more than once.

The producing query writes with each record where it comes from (`producer_id`, `stream_metadata`,
`source_partition`). The consuming query drops records that aren't above the high-water mark of their origin
(`filter_replays`). The functions of columns are native Spark expressions, not UDFs, and have the same names
in SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, MetadataFormat, OnReplay


def filter_replays(
    frame: DataFrame,
    *,
    key: ColumnOrName = "key",
    pid: ColumnOrName | None = None,
    partition: ColumnOrName | None = None,
    offset: ColumnOrName | None = None,
    order: ColumnOrName | Sequence[ColumnOrName] = ("topic", "partition", "offset"),
    disorder: int = 0,
    on_replay: OnReplay = "drop",
    forget_after: Duration | None = None,
    event_time: ColumnOrName | None = None,
    name: str = "replays",
) -> DataFrame:
    """Drops records that were written again: deduplicates an at-least-once topic.

        once = tailrace.filter_replays(spark.readStream.format("kafka")...load(), key="key")

    A record is a replay if its offset isn't above all previous offsets of its producer and source partition.
    The high-water marks, 40 bytes for each producer and source partition, are in the query's checkpoint, and
    are written before a micro-batch is complete. So each record passes once, over a failure at any moment, if
    the sink is idempotent or transactional and the producer writes the records of a source partition in their
    order. Missing or damaged marks stop the query at each start. With the session's
    `spark.tailrace.replay.beginAnew=true` it starts without them, and replays of earlier records pass.

    Records are judged in the order of the topic that they are read from, whatever tasks read them. Records of
    one producer and source partition that come from two partitions in one batch are an error. From batch to
    batch an origin may move to another partition, with a warning, as long as nothing below its high-water
    mark comes from there. A record without metadata, or with bytes that aren't metadata, passes and is
    counted. Text is never treated as metadata; 20 bytes without a tag, as SQE writes them, are, with a
    warning.

    Each batch's counts are in the query's progress, `observedMetrics["tailrace.replays"]` (with a `name` of
    its own: `"tailrace.replays.<name>"`), as a Row of bigints: `passed`, `replays`, `unprotected` (without
    valid metadata), `gaps` (newly missing offsets, minus missing ones that arrived late), `returned` (origins
    whose mark had been removed and that are back), `forgotten`; `mostGaps`, an array of (pid, partition,
    gaps): the 20 of the batch's origins that lack most offsets in all; and `doubtful` (those of `unprotected`
    that have the length of metadata, or an offset of 2^62 or more). Each record counts once, however many
    actions a function of foreachBatch runs.

    Args:
        frame: a stream, or a batch DataFrame, whose records are judged among themselves.
        key: the binary column with the bytes of `stream_metadata`.
        pid: with `partition` and `offset`, in place of `key`: the bigint column of producer ids.
        partition: the int column of source partitions.
        offset: the bigint column of source offsets.
        order: the columns of the topic and the partition that a record was read from, then of its offset
            there. All records of one producer and source partition have to be in one of these partitions.
        disorder: how far below the greatest offset, in offsets, a record may come and still be told from its
            replay: 0 for a source that is read in order. At most 4096; it costs one bit for each mark.
        on_replay: "drop": replays are left out, and counted. "mark": they are emitted, with "replay" in a
            column `_mark`.
        forget_after: a duration: an origin without a record for longer than this loses its mark, so that the
            table doesn't grow indefinitely. A warning names it (TAILRACE_REPLAY_FORGOTTEN) and `forgotten`
            counts it. When it comes back, `returned` counts it, and its first record passes. Choose it longer
            than any outage after which an old record may be written again. None: marks are kept.
        event_time: with `forget_after`: the timestamp column with the arrival time of a record. The clock is
            the greatest time of the previous batches, and never ahead of the batch's own. None: the time of
            the batch.
        name: the name of the filter in the checkpoint and in the query's progress. Never change it. Two
            filters of one query need two names.

    Returns:
        A DataFrame with the same columns, and `_mark` string with on_replay="mark", null on ordinary rows. It
        can be written in any output mode. The sink must take all rows of a batch (no `limit` in
        foreachBatch), and so must operators above: a broadcast join with an empty table doesn't where Spark
        generates no code for it, as with more than 100 columns. Otherwise, the next batch fails.

    Raises:
        TailraceReplayError: a column is unknown or of a wrong type, or an option is invalid.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type, or only some of `pid`, `partition` and `offset` are
            given.
    """
    arguments.frame(frame, "frame")
    columns = arguments.Columns("tailrace.filter_replays", frame)
    named = {"pid": pid, "partition": partition, "offset": offset}
    given = columns.named(**arguments.given(**named))
    missing = [f"`{argument}`" for argument in named if argument not in given]
    if given and missing:
        verb = "is" if len(missing) == 1 else "are"
        raise TypeError(
            f"`pid`, `partition` and `offset` go together: {' and '.join(missing)} {verb} missing."
        )
    metadata = list(given.values()) or [columns.name(key, "key")]
    options = (
        arguments.texts(on_replay=on_replay, name=name)
        | arguments.counts(disorder=disorder)
        | arguments.durations(**arguments.given(forget_after=forget_after))
        | columns.named(**arguments.given(event_time=event_time))
    )
    ordered = columns.names(order, "order")
    return calls.plan("filter_replays", frame, frame=frame, metadata=metadata, order=ordered, **options)


def producer_id(
    *, query: str, stream: str, brokers: str, path: str | Column, epoch: str | int = ""
) -> Column:
    """A stable number for a producer and its source, which tells their records apart downstream.

    It is the first eight bytes, big-endian, of the SHA-256 of the five parts. Each part is its length in
    bytes (4, big-endian) and its UTF-8 bytes. The brokers are sorted, without spaces and duplicates, so that
    their order in the list doesn't matter.

    Args:
        query: the query that writes.
        stream: its output, if it has several.
        brokers: where it reads from, as "host:port,host:port".
        path: what it reads there, for instance the topic. For a source of several topics, their column.
        epoch: a new one whenever the source was recreated under the same name. A topic that was deleted and
            created again counts its offsets from 0, and its new records would be treated as replays of old
            ones. A streaming query keeps the topic's id in its checkpoint, and is refused when the id has
            changed. With a new checkpoint there is only a warning of the reading query.

    Returns:
        A column of type bigint, a constant unless `path` is a column.

    Raises:
        TypeError: an argument isn't a string.
    """
    named = {"query": query, "stream": stream, "brokers": brokers}
    parts = [F.lit(arguments.text(value, name)) for name, value in named.items()]
    source = path if isinstance(path, Column) else F.lit(arguments.text(path, "path"))
    last = str(epoch) if isinstance(epoch, int) else arguments.text(epoch, "epoch")
    return F.call_function("producer_id", *parts, source, F.lit(last))


def stream_metadata(
    pid: ColumnOrName | int,
    partition: ColumnOrName,
    offset: ColumnOrName,
    *,
    format: MetadataFormat = "tagged",  # noqa: A002  Spark's writers call it so
) -> Column:
    """The 24 bytes of a record's producer, source partition and source offset: mostly a Kafka record's key.

    A streaming query that writes it is refused when it starts (`TAILRACE_METADATA_*`) if rows of a source
    partition would not be written in their order, to one partition, each with an offset of its own. With
    `spark.tailrace.replay.producerCheck=warn` it is logged only.

    Args:
        pid: bigint, from `producer_id`, or a number of your own.
        partition: int, not negative: the partition in the source.
        offset: bigint, not negative and below 2^62: the position there. Records of a partition have to be
            read and written in its order.
        format: "tagged": 24 bytes, a tag of 4 and the three numbers, which can't be confused with text, and
            hardly with any other key. "sqe": the 20 bytes that SQE's replay filter (JW Player's topologies on
            Storm) reads and writes as the key type `StreamMetadata`: producer id (8), partition (4) and
            offset (8), big-endian. `filter_replays` takes these too, with a partition below 2^24 and an
            offset below 2^61, and warns that they have no tag.

    Returns:
        A column of type binary; null where one of the three is null or out of range.

    Raises:
        TailraceReplayError: `format` is neither of the two.
        TypeError: `format` isn't a string.
    """
    number = F.lit(pid).cast("bigint") if isinstance(pid, int) else _column(pid, "pid")
    parts = [number, _column(partition, "partition"), _column(offset, "offset")]
    form = arguments.text(format, "format")
    return F.call_function("stream_metadata", *parts, *([] if form == "tagged" else [F.lit(form)]))


def parse_stream_metadata(metadata: ColumnOrName) -> Column:
    """The three parts of the bytes of `stream_metadata`.

    Args:
        metadata: binary.

    Returns:
        A column of type struct<pid: bigint, partition: int, offset: bigint>; null where the bytes aren't
        metadata: null, of another length than 24 with the tag or 20 without it, or with a negative partition
        or offset.
    """
    return F.call_function("parse_stream_metadata", _column(metadata, "metadata"))


def source_partition(partition: ColumnOrName, destination_partitions: int) -> Column:
    """The partition to write a record to, so that records of one source partition stay in their order.

    It is the source partition itself if the destination has at least as many partitions, otherwise the
    remainder.
    Spark's Kafka sink obeys a column called `partition`.

    Args:
        partition: int, not negative: the partition in the source.
        destination_partitions: how many partitions the destination has, at least 1.

    Returns:
        A column of type int.

    Raises:
        TypeError: `destination_partitions` isn't an int.
    """
    count = arguments.count(destination_partitions, "destination_partitions")
    return F.call_function("source_partition", _column(partition, "partition"), F.lit(count))


def merge_stream_metadata(metadata: ColumnOrName) -> Column:
    """An aggregate: the metadata of a record that is made of several, which is that of the greatest offset.

    Replays of such a record are recognized under three conditions. The records are grouped by producer and
    partition; two of them in one group are an error. They are merged within one micro-batch, which has all
    records up to the greatest offset. And a batch that runs again has the same records, which Spark's
    checkpoint ensures.

    Args:
        metadata: binary, of `stream_metadata`.

    Returns:
        A column of type binary; null where one of the group's records has no valid metadata, for such a
        record can't be filtered.
    """
    return F.call_function("merge_stream_metadata", _column(metadata, "metadata"))


def _column(value: ColumnOrName, argument: str) -> Column:
    return value if isinstance(value, Column) else F.col(arguments.text(value, argument))
