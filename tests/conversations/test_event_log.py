"""The append script, against a model of what a log may hold, with every way to misuse it."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.redis_client import redis_client
from conversations.stream import APPEND_SCRIPT, FENCED, GAP, head_key, log_key

MINE, OTHER = "mine", "other"

_operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([MINE, OTHER]), st.integers(-3, 3), st.integers(1, 4)),
        st.tuples(st.just("retry")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("fence")),
    ),
    max_size=25,
)


def _append(run_id: str, token: str, first: int, count: int, *, restart: bool = False) -> list[int]:
    payloads = [str(first + index) for index in range(count)]
    flag = "1" if restart else "0"
    return redis_client().eval(
        APPEND_SCRIPT, 2, log_key(run_id), head_key(run_id), token, str(first), flag, "60", *payloads
    )


@settings(max_examples=300, deadline=None)
@given(operations=_operations)
def test_p4_p9_a_log_is_dense_unrepeated_and_written_by_its_owner_only(operations):
    run_id, owner = str(uuid4()), None
    expected: list[int] = []
    last_append = None

    for operation in operations:
        last = expected[-1] if expected else 0
        if operation[0] == "append":
            _, token, offset, count = operation
            first = max(1, last + 1 + offset)
            code, head = _append(run_id, token, first, count)
            if owner is not None and token != owner:
                assert code == FENCED
            elif first > last + 1:
                assert (code, head) == (GAP, last)
            else:
                owner, last_append = token, (token, first, count)
                expected += [seq for seq in range(first, first + count) if seq > last]
                assert (code, head) == (0, expected[-1])
        elif operation[0] == "retry" and last_append is not None and owner == last_append[0] and expected:
            assert _append(run_id, *last_append)[0] == 0
        elif operation[0] == "fence" and owner is not None:
            owner = OTHER if owner == MINE else MINE
            redis_client().hset(head_key(run_id), "token", owner)
        elif operation[0] == "flush":
            redis_client().delete(log_key(run_id), head_key(run_id))
            expected, owner, last_append = [], None, None

    entries = redis_client().xrange(log_key(run_id))
    assert [int(entry_id.split(b"-")[0]) for entry_id, _ in entries] == expected
    assert [int(fields[b"e"]) for _, fields in entries] == expected


def test_p11_a_lost_log_goes_on_where_its_owner_says():
    run_id = str(uuid4())
    _append(run_id, MINE, 1, 5)
    redis_client().delete(log_key(run_id), head_key(run_id))

    assert _append(run_id, MINE, 6, 2) == [GAP, 0]
    assert _append(run_id, MINE, 6, 2, restart=True) == [0, 7]
    assert [entry_id for entry_id, _ in redis_client().xrange(log_key(run_id))] == [b"6-0", b"7-0"]
