"""A result backend of Celery: states, results, groups and chords, on a cluster.

1. States and results are values by key, in a table as all doors have it (`results.py`). `SUCCESS`
   is final, so it has a place of its own, which is looked at first: a task that runs once more does
   not overwrite it. They are found for `result_expires`, or until `forget`.
2. Who waits in `get` is woken when a result is stored, by a topic. What it may have missed is
   looked at again after five seconds.
3. A chord's parts are counted by their task ids, in one order that all workers see (`chords.py`).
   So a part that ran twice counts once, and exactly one finds that it was the last. It has what all
   have brought, and publishes the body. If it dies before, and runs again, it publishes it then.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from celery.backends.asynchronous import AsyncBackendMixin, BaseResultConsumer
from celery.backends.base import BaseKeyValueStoreBackend
from celery.canvas import maybe_signature
from celery.exceptions import ChordError
from celery.result import GroupResult, allow_join_result
from celery.utils.functional import _regen
from kombu.utils.encoding import bytes_to_str, ensure_bytes

import snowmelt
from celery import states
from snowmelt.client.connection.forking import watch
from snowmelt_doors.celery.chords import Chords
from snowmelt_doors.celery.listening import PASSING, POLL_SECONDS
from snowmelt_doors.results import DAY, RETENTION_MAX, ResultTable

TIMEOUT: Final = 10.0
NAME: Final = "celery.results"
LAST: Final = 1 << 62
"""The place of a part that has none of its own."""
LOOK_SECONDS: Final = 5.0
_FINAL: Final = " done"
_PAUSE: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class BackendCluster:
    """A cluster, and what a backend has there."""

    def __init__(self, url: Any, options: dict[str, Any], expires: float | None) -> None:
        token, user = options.get("token"), options.get("user")
        self.timeout = float(options.get("timeout", TIMEOUT))
        self.cluster = snowmelt.connect(url, token=token, user=user)
        name = options.get("name", NAME)
        self.ttl = RETENTION_MAX if expires is None else min(expires, RETENTION_MAX)
        # One table serves all who keep results for a day or less, so they need not agree.
        retention = max(DAY, math.ceil(self.ttl))
        self.results = ResultTable(self.cluster, name, retention, self.timeout)
        self.chords = Chords(self.cluster, f"{name}.chords", expires, self.timeout)
        self.topic = self.cluster.multicast(name)


class ResultConsumer(BaseResultConsumer):
    """Hears which results were stored, and has those look who wait for them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.forked()
        watch(self)

    def forked(self) -> None:
        """Nobody waits here yet; the threads of the parent are not here."""
        self._awaited: set[str] = set()
        self._came: set[str] = set()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._looked = 0.0
        self._over = False

    def start(self, initial_task_id: str, **options: Any) -> None:
        self.consume_from(initial_task_id)

    def stop(self) -> None:
        self._over = True
        self._thread = None

    def on_wait_for_pending(self, result: Any, **options: Any) -> None:
        """What is there already needs no waiting."""
        nodes = getattr(result, "results", None)
        asked = [one.id for one in ([result] if nodes is None else nodes)]
        with self._change:  # they are looked at now, and not once more when events are drained
            self._came.difference_update(asked)
        self._look(asked)

    def consume_from(self, task_id: str) -> None:
        """Somebody waits for this task."""
        with self._change:
            self._awaited.add(task_id)
            self._came.add(task_id)  # it may be stored already
            if self._thread is None:
                self._over = False
                heard = self.backend.connected.topic.subscribe(timeout=POLL_SECONDS)
                self._thread = threading.Thread(
                    target=self._hear, args=(heard,), name="snowmelt-results", daemon=True
                )
                self._thread.start()
            self._change.notify_all()

    def cancel_for(self, task_id: str) -> None:
        """Nobody waits for it any more; a destructor may say so, so it takes no lock."""
        self._awaited.discard(task_id)

    def drain_events(self, timeout: float | None = None) -> None:
        """Looks at what came, waiting for it."""
        with self._change:
            if not self._came:
                self._change.wait(timeout)
            came, self._came = self._came, set()
        if not came and time.monotonic() > self._looked + LOOK_SECONDS:
            came = set(self._awaited)
        self._look(came)
        with self._change:
            self._change.notify_all()  # others wait for the same

    def on_state_change(self, meta: Any, message: Any) -> None:
        super().on_state_change(meta, message)
        if meta["status"] in states.READY_STATES:
            self.cancel_for(meta["task_id"])

    def _look(self, task_ids: Iterable[str]) -> None:
        self._looked = time.monotonic()
        asked = list(task_ids)
        if not asked:
            return
        try:
            found = self.backend.metas(asked)
        except PASSING as error:
            _LOG.warning("results are looked at again: %s", error)
            time.sleep(_PAUSE)
            with self._change:
                self._came.update(asked)
            return
        for meta in found:
            self.on_state_change(meta, None)

    # --- in a thread ------------------------------------------------------------------------------

    def _hear(self, heard: Any) -> None:
        missed = heard.missed
        while not self._over:
            try:
                for message in heard:
                    self._told(message.body)
                    if heard.missed != missed:
                        missed = heard.missed
                        self._all()
            except snowmelt.Closed:
                return
            except PASSING:
                time.sleep(_PAUSE)

    def _told(self, key: bytes) -> None:
        task_id = self.backend.task_of(key)
        with self._change:
            if task_id in self._awaited:
                self._came.add(task_id)
                self._change.notify_all()

    def _all(self) -> None:
        with self._change:
            self._came.update(self._awaited)
            self._change.notify_all()


class SnowmeltBackend(AsyncBackendMixin, BaseKeyValueStoreBackend):
    """`result_backend = "snowmelt://HOST:PORT"`; Celery finds it by its entry point.

    Options are `result_backend_transport_options`: `token`, `user`, `timeout`, and `name`, with
    which the names of its queues begin.
    """

    ResultConsumer = ResultConsumer
    supports_native_join = True
    supports_autoexpire = True
    persistent = True

    def __init__(self, app: Any, url: str | None = None, **options: Any) -> None:
        super().__init__(app=app, url=url, **options)
        self._options = dict(app.conf.get("result_backend_transport_options") or {})
        self._connected: BackendCluster | None = None
        self.forked()
        watch(self)
        self.result_consumer = self.ResultConsumer(
            self, self.app, self.accept, self._pending_results, self._pending_messages
        )

    def forked(self) -> None:
        """A thread of the parent may have held it."""
        self._opening = threading.Lock()

    @property
    def connected(self) -> BackendCluster:
        """Its cluster, over a connection that is made with the first call."""
        with self._opening:
            if self._connected is None:
                expires = None if not self.expires else float(self.expires)
                self._connected = BackendCluster(self.url, self._options, expires)
            return self._connected

    def close(self) -> None:
        """Ends its connection; the next call makes another."""
        self.result_consumer.stop()
        with self._opening:
            before, self._connected = self._connected, None
        if before is not None:
            before.cluster.close()

    def as_uri(self, include_password: bool = False) -> str:
        return str(self.url)

    def get(self, key: Any) -> bytes | None:
        results, one = self.connected.results, str(bytes_to_str(key))
        final = results.find(one + _FINAL)
        return results.find(one) if final is None else final

    def mget(self, keys: Iterable[Any]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._set_with_state(key, value, None)

    def _set_with_state(self, key: Any, value: Any, state: str | None) -> None:
        connected, one = self.connected, str(bytes_to_str(key))
        place = one + _FINAL if state == states.SUCCESS else one
        connected.results.store(place, ensure_bytes(value), connected.ttl)
        if state in states.READY_STATES:
            try:
                connected.topic.publish(one.encode(), timeout=connected.timeout)
            except PASSING as error:  # it is stored; who waits looks again
                _LOG.warning("a result was stored, and not told at once: %s", error)

    def delete(self, key: Any) -> None:
        one = str(bytes_to_str(key))
        for place in (one, one + _FINAL):
            self.connected.results.forget(place)

    def apply_chord(self, header_result_args: Any, body: Any, **options: Any) -> None:
        """A header that has groups in it is saved, so that what comes of it keeps its shape."""
        if isinstance(header_result_args[1], _regen):
            return
        header = self.app.GroupResult(*header_result_args)
        if any(isinstance(one, GroupResult) for one in header.results):
            header.save(backend=self)

    def set_chord_size(self, group_id: str, chord_size: int) -> None:
        self.connected.chords.expect(self._chord_key(group_id), chord_size)

    def add_to_chord(self, chord_id: str, result: Any) -> None:
        self.connected.chords.expect_more(self._chord_key(chord_id), ensure_bytes(result.id))

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **options: Any) -> None:
        """A part of a chord is done; the last one publishes the body."""
        group_id, task_id = request.group, request.id
        if not group_id or not task_id:
            return
        key = self._chord_key(group_id)
        index = LAST if request.group_index is None else request.group_index
        told = self.encode([index, task_id, state, self.encode_result(result, state)])
        parts = self.connected.chords.join(key, ensure_bytes(task_id), ensure_bytes(told))
        if not parts:
            return
        callback = maybe_signature(request.chord, app=self.app)
        try:
            found = self._joined(group_id, parts)
            self.app.amqp._retry_publish(callback.delay, found)  # noqa: SLF001
        except ChordError as error:
            _LOG.exception("chord %r failed", group_id)
            self.chord_error_from_stack(callback, error)
        except Exception as error:
            _LOG.exception("chord %r failed", group_id)
            failed = ChordError(f"Callback error: {error!r}")
            self.chord_error_from_stack(callback, failed)
        finally:
            self.connected.chords.end(key)
            self.delete(self.get_key_for_group(group_id))

    def _joined(self, group_id: str, parts: list[bytes]) -> list[Any]:
        """What the body of a chord gets; raises `ChordError` when a part failed."""
        header = GroupResult.restore(group_id, backend=self, app=self.app)
        if header is not None:
            header.on_ready()
            with allow_join_result():
                timeout = self.app.conf.result_chord_join_timeout
                try:
                    return list(header.join_native(timeout=timeout, propagate=True))
                except Exception as error:
                    failed = next(header._failed_join_report(), None)  # noqa: SLF001
                    who = "" if failed is None else f"Dependency {failed.id} raised "
                    raise ChordError(f"{who}{error!r}") from error
        told = sorted((self.decode(one) for one in parts), key=lambda one: int(one[0]))
        return [self._part_of(*one) for one in told]

    def _part_of(self, index: int, task_id: str, state: str, result: Any) -> Any:
        del index
        found = self.exception_to_python(result) if state in states.EXCEPTION_STATES else result
        if state in states.PROPAGATE_STATES:
            raise ChordError(f"Dependency {task_id} raised {found!r}") from found
        return found

    def _chord_key(self, group_id: str) -> bytes:
        key: bytes = ensure_bytes(self.get_key_for_chord(group_id))
        return key

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str,
        traceback: Any = None,
        request: Any = None,
        **options: Any,
    ) -> Any:
        """Without a look at what is there, since `SUCCESS` is final in itself."""
        meta = self._get_result_meta(
            result=result, state=state, traceback=traceback, request=request
        )
        meta["task_id"] = bytes_to_str(task_id)
        self._set_with_state(self.get_key_for_task(task_id), self.encode(meta), state)
        return result

    def metas(self, task_ids: Iterable[str]) -> list[Any]:
        """What is known of those tasks of which something is."""
        found = self.mget([self.get_key_for_task(one) for one in task_ids])
        return [self.decode_result(one) for one in found if one]

    def task_of(self, key: bytes) -> str:
        return str(self._strip_prefix(key))

    def cleanup(self) -> None:
        """Removes what is expired, as stores do now and then."""
        self.connected.results.sweep()
        self.connected.chords.clean()
