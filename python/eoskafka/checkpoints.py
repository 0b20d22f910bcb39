"""What a query's checkpoint says of one of its sources, read without Spark.

Spark's own files are `offsets/<batch>` (the end offsets of a batch, written before it runs, or
after it in real-time mode) and `commits/<batch>` (written after it). The connector's files are in
`sources/<source>` (see `io.eoskafka.source.CheckpointFiles`); once a query was in epoch scope,
there is also `eoskafka-sink.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import TopicPartition

from eoskafka import _by_partition, _json, stamps
from eoskafka.errors import CheckpointError, ConfigurationError
from eoskafka.properties import PASSWORD_IN_URL

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_IDENTITY = "eoskafka-identity.json"
_TOPIC_IDS = "eoskafka-topic-ids.json"
_RESTARTED = "eoskafka-restarted.json"
_CUT = "eoskafka-cut.json"
_TAKEN_OVER = "eoskafka-taken-over"
# A number, or a name as Spark takes it.
_SOURCE = re.compile("[A-Za-z0-9_]+")
# The file of a write in `foreachBatch` (`io.eoskafka.decision.EpochOwner`).
_WRITE = re.compile(r"eoskafka-write-.*\.json")
# A secret in the query part of a URL.
_SECRET = re.compile(r"[?&][^=&]*(?:key|secret|token|password|sig)[^=&]*=")
_BATCH = re.compile("[0-9]{1,18}")


@dataclass(frozen=True)
class Identity:
    """The owner of a group's offsets, as the checkpoint records it.

    Attributes:
        group: the query's `kafka.group.id`.
        instance_id: its driver's `group.instance.id`.
        checkpoint_id: made from the first checkpoint's path and the source.
        shared: whether the group has several drivers (`ownership=shared`).
    """

    group: str
    instance_id: str
    checkpoint_id: str
    shared: bool

    @property
    def id(self) -> str:
        """The identity in its stamps."""
        if self.shared:
            return stamps.shared_identity(self.group)
        return stamps.exclusive_identity(self.group, self.instance_id, self.checkpoint_id)


@dataclass(frozen=True)
class Batch:
    """A batch of Spark's log.

    Attributes:
        number: its number, from 0.
        start: where it begins, by partition; None for the first one, which begins where
            `startingOffsets` said.
        end: where it ends.
        committed: whether Spark has logged that it is done.
        is_ours: whether eoskafka planned it, with its own sink.
        log_is_ahead: whether Spark's log says where the query continues: it was written by the
            built-in connector, or without eoskafka's sink, and no eoskafka run has continued from
            it yet.
        until: the last batch before the one that comes next, -1 before the first.
        sources: the number of the query's sources, of all kinds.
    """

    number: int
    start: dict[TopicPartition, int] | None
    end: dict[TopicPartition, int]
    committed: bool
    is_ours: bool
    log_is_ahead: bool
    until: int
    sources: int


class Restart(NamedTuple):
    """A start offset that Spark's log lacks (`io.eoskafka.source.RestartedPartitions`).

    Attributes:
        id: the id of its topic.
        offset: the first offset to be read.
        batch: the last batch that Spark had planned when the start was found.
    """

    id: str
    offset: int
    batch: int


class Checkpoint:
    """One source of one checkpoint.

    Args:
        location: a folder, or a URI of a file system that pyarrow knows (`s3://`, `gs://`,
            `abfss://`, `hdfs://`), or `s3a://`, as Hadoop calls the first.
        source: the source's index in the query, from 0, or the name that the query gave it. None
            stands for the only source, or for the first one.

    Raises:
        ConfigurationError: pyarrow is not installed, or does not know the file system; or no
            source has such a name.
    """

    def __init__(self, location: str, source: int | str | None = None) -> None:
        self.location = location
        self._files: FileSystem | None = None
        self._root = location
        if "://" in location or location.startswith("file:"):
            self._files, self._root = _file_system(location)
        self.source = self._only_source() if source is None else f"{source}"
        if not _SOURCE.fullmatch(self.source):
            raise ConfigurationError(
                f"{self.source!r} does not identify a source of a query: give the number of the "
                "source, counted from 0, or its name"
            )

    @property
    def exists(self) -> bool:
        """Whether a query has used this checkpoint."""
        return bool(self._names("offsets") or self._names(f"sources/{self.source}"))

    @property
    def has_begun(self) -> bool:
        """Whether a query has used this checkpoint, and not only `eoskafka offsets adopt`."""
        there = set(self._names(f"sources/{self.source}"))
        of_adopt = {_IDENTITY, f".{_IDENTITY}.crc", f".{_IDENTITY}.new"}
        return bool(self._batches("offsets") or there - of_adopt)

    @property
    def was_in_epoch_scope(self) -> bool:
        """Whether the query has decided on epochs: then its log must agree with the group."""
        return self._read("eoskafka-sink.json") is not None

    @property
    def has_writes(self) -> bool:
        """Whether eoskafka has decided on writes in the query's `foreachBatch`."""
        return any(map(_WRITE.fullmatch, self._names("")))

    def identity(self) -> Identity | None:
        """The identity in this checkpoint; None if the connector has not written one yet.

        Raises:
            CheckpointError: the file is not one of this version.
        """
        name = f"sources/{self.source}/{_IDENTITY}"
        text = self._read(name)
        if text is None:
            return None
        try:
            found = _json.parse(text)
            if found["version"] != 1:
                raise ValueError(f"version {found['version']}")
            names = (found["group"], found["instanceId"], found["checkpointId"])
            if not all(isinstance(text, str) for text in names):
                raise ValueError("a name is not a string")
            # JSON may contain an unpaired surrogate, which has no bytes to digest.
            "".join(names).encode()
            if not isinstance(found["shared"], bool):
                raise ValueError("shared is neither true nor false")
            return Identity(*names, shared=found["shared"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(name, error) from error

    def write_identity(self, identity: Identity) -> None:
        """Let the checkpoint belong to a group from now on."""
        found = {
            "version": 1,
            "group": identity.group,
            "instanceId": identity.instance_id,
            "checkpointId": identity.checkpoint_id,
            "shared": identity.shared,
        }
        self._write(
            f"sources/{self.source}/{_IDENTITY}",
            json.dumps(found, separators=(",", ":")),
            "Nothing was changed in the group",
        )

    def new_identity(self, group: str = "") -> Identity:
        """The identity that the connector makes if there is none, for this group or its own.

        On another file system, the path that Spark sees is unknown, and so is the group that the
        connector derives from it.
        """
        place = self.location if self._files else f"file:{Path(self._root).absolute()}"
        checkpoint_id = stamps.digest(f"{place.rstrip('/')}/sources/{self.source}")
        instance = f"eoskafka-{checkpoint_id}"
        return Identity(group or instance, instance, checkpoint_id, False)

    def topic_ids(self) -> dict[TopicPartition, str]:
        """The id of each partition's topic when the query last found its start.

        Raises:
            CheckpointError: the file is not one that this version knows.
        """
        return self._of_each_partition(_TOPIC_IDS, lambda found: isinstance(found, str))

    def restarts(self, done: int) -> dict[TopicPartition, Restart]:
        """Where partitions continue whose topics were created again, or whose logs were cut.

        Args:
            done: the last batch that is done, or -1. A start that was found before that batch was
                planned is in Spark's log.

        Raises:
            CheckpointError: a file is not one that this version knows.
        """
        starts = self._of_each_partition(_RESTARTED, _is_restart)
        # Of a batch that is done: the next one begins there.
        ends = self._of_each_partition(_CUT, _is_restart)
        found = {p: Restart(**end) for p, end in ends.items() if end["batch"] == done}
        return found | {p: Restart(**at) for p, at in starts.items() if at["batch"] >= done}

    def starts(self) -> dict[TopicPartition, int] | None:
        """The query's first start offsets, without partitions found later; None before its start.

        Raises:
            CheckpointError: the file is not one that this version knows.
        """
        return self._initial()

    def last_batch(self) -> Batch | None:
        """The last batch that Spark has planned, or None.

        Raises:
            CheckpointError: a file is not one that this version knows.
        """
        planned = self._batches("offsets")
        if not planned:
            return None
        last = planned[-1]
        before = self._offsets(last - 1) if last - 1 in planned else None
        if before is None and last == 0:
            before = self._initial()
        is_done = last in self._batches("commits")
        until = last if is_done else last - 1
        taken_over = (self._read(f"sources/{self.source}/{_TAKEN_OVER}") or "").strip()
        is_ours = until < 0 or self._is_ours(until)
        # Or the open batch, which eoskafka ran before a crash kept Spark from logging it as done.
        is_ahead = not is_ours and taken_over not in {str(until), str(last)}
        return Batch(
            number=last,
            start=before,
            end=self._offsets(last),
            committed=is_done,
            is_ours=self._is_ours(last),
            log_is_ahead=is_ahead,
            until=until,
            sources=len(self._sources(last)),
        )

    def _is_ours(self, batch: int) -> bool:
        """Whether eoskafka has planned a batch with its own sink: its line ends with a space."""
        return self._line(batch).endswith(" ")

    def write_taken_over(self, batch: int) -> None:
        """Make the group's offsets authoritative from the batch after this one on."""
        self._write(
            f"sources/{self.source}/{_TAKEN_OVER}",
            str(batch),
            "The group's offsets were already changed. Do not start the query: correct the "
            "rights, and repeat the command",
        )

    def _only_source(self) -> str:
        names = [name for name in self._names("sources") if _SOURCE.fullmatch(name)]
        return names[0] if len(names) == 1 else "0"

    def _sources(self, batch: int) -> dict[str, str]:
        """The line of each source in the batch's file.

        The file has a version, the batch's settings and a line for each source. With version 1, the
        lines are in the order of the sources; with version 2, each begins with the source's index
        or name.
        """
        name = f"offsets/{batch}"
        version, *lines = (self._read(name) or "").split("\n")
        lines = [line for line in lines[1:] if line]
        if version == "v1":
            return {f"{index}": line for index, line in enumerate(lines)}
        if version == "v2":
            parts = (line.partition(":") for line in lines)
            return {source: offsets for source, _, offsets in parts}
        raise self._unreadable(name, ValueError(f"its version is {version!r}"))

    def _line(self, batch: int) -> str:
        """This source's."""
        found = self._sources(batch)
        try:
            return found[self.source]
        except KeyError:
            why = ValueError(f"it has the sources {', '.join(sorted(found)) or 'of no query'}")
            raise self._unreadable(f"offsets/{batch}", why) from None

    def _batches(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._names(folder) if _BATCH.fullmatch(name))

    def _offsets(self, batch: int) -> dict[TopicPartition, int]:
        line = self._line(batch)
        try:
            return _by_partition.parse(line)
        except ValueError as error:
            raise self._unreadable(f"offsets/{batch}", error) from error

    def _of_each_partition(
        self, file: str, is_value: Callable[[object], bool]
    ) -> dict[TopicPartition, Any]:
        name = f"sources/{self.source}/{file}"
        text = self._read(name)
        try:
            return {} if text is None else _by_partition.parse(text, is_value)
        except ValueError as error:
            raise self._unreadable(name, error) from error

    def _initial(self) -> dict[TopicPartition, int] | None:
        name = f"sources/{self.source}/0"
        text = self._read(name)
        if text is None:
            return None
        version, _, offsets = text.replace("\0", "").partition("\n")
        try:
            if version != "v1":
                raise ValueError(f"its version is {version!r}")
            return _by_partition.parse(offsets)
        except ValueError as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, why: Exception) -> CheckpointError:
        return CheckpointError(
            f"{self.location}/{name} cannot be read: {why}. Either this is not a file of a Kafka "
            f"source of Spark, or source {self.source} is of another kind: give the Kafka source "
            "with --source, by its number in the query or its name"
        )

    # ---- files

    def _names(self, folder: str) -> list[str]:
        if self._files is None:
            place = Path(self._root, folder)
            return [file.name for file in place.iterdir()] if place.is_dir() else []
        from pyarrow.fs import FileSelector

        chosen = FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        try:
            return [found.base_name for found in self._files.get_file_info(chosen)]
        except OSError as error:
            raise CheckpointError(
                f"{self.location}/{folder} cannot be read: {error}. Nothing was changed. The "
                "command needs the address and the credentials of an object store in its own "
                "environment: see docs/object-stores.md"
            ) from error

    def _read(self, name: str) -> str | None:
        try:
            if self._files is None:
                return Path(self._root, name).read_text(encoding="utf-8")
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read()).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise self._unreadable(name, error) from error
        except OSError as error:
            raise CheckpointError(
                f"{self.location}/{name} cannot be read: {error}. Nothing was changed"
            ) from error

    def _write(self, name: str, text: str, otherwise: str) -> None:
        try:
            if self._files is None:
                place = Path(self._root, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                new = place.with_name(f".{place.name}.new")
                new.write_text(text, encoding="utf-8")
                # Before the new text is in place: Hadoop would compare it with the old checksum.
                place.with_name(f".{place.name}.crc").unlink(missing_ok=True)
                new.replace(place)
                return
            self._files.create_dir(f"{self._root}/{name.rpartition('/')[0]}", recursive=True)
            with self._files.open_output_stream(f"{self._root}/{name}") as file:
                file.write(text.encode())
        except OSError as error:
            raise CheckpointError(
                f"{self.location}/{name} cannot be written: {error}. {otherwise}"
            ) from error


def _file_system(location: str) -> tuple[Any, str]:
    if PASSWORD_IN_URL.search(location) or _SECRET.search(location):
        raise ConfigurationError(
            "the address of the checkpoint has a password or a key in it, and is not shown here. "
            "Nothing was read or changed. Give the credentials in the environment: see "
            "docs/object-stores.md"
        )
    try:
        from pyarrow.fs import FileSystem
    except ImportError as error:
        raise ConfigurationError(
            f"{location} is read with pyarrow, which is not installed: pip install "
            "'eoskafka[verify]', or give a local folder"
        ) from error
    try:
        found, root = FileSystem.from_uri(re.sub("^s3a://", "s3://", location))
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"{location} is on no file system that pyarrow knows: {error}. Give a folder where it "
            "is mounted, such as /dbfs/... or /Volumes/..."
        ) from error
    return found, str(root).rstrip("/")


def _is_restart(found: object) -> bool:
    return (
        isinstance(found, dict)
        and found.keys() == {*Restart._fields}
        and isinstance(found["id"], str)
        and _by_partition.is_offset(found["offset"])
        and _by_partition.is_offset(found["batch"])
    )
