"""Requests are let in in order, a few side by side."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from agentx import admission
from agentx.admission import SIDE_BY_SIDE, Admission, leave
from agentx.errors import Unavailable


class Requests:
    """Requests that stay at work until they are told to go on. ``begun``: their names in the order of being let in."""

    def __init__(self, gate: Admission) -> None:
        self.gate = gate
        self.begun: list[str] = []
        self.go_on: dict[str, asyncio.Event] = {}

    def start(self, name: str, *, waits: bool = False) -> asyncio.Task[None]:
        self.go_on[name] = asyncio.Event()
        return asyncio.create_task(self._request(name, waits=waits))

    async def _request(self, name: str, *, waits: bool) -> None:
        async with self.gate.admitted():
            self.begun.append(name)
            if waits:  # as from the thread of a view
                context = contextvars.copy_context()
                await asyncio.get_running_loop().run_in_executor(None, context.run, leave)
            await self.go_on[name].wait()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def test_few_compute_side_by_side_and_the_others_follow_in_the_order_of_coming():
    async def scene() -> tuple[list[str], list[str]]:
        requests = Requests(Admission(at_most=8))
        names = [str(number) for number in range(SIDE_BY_SIDE + 2)]
        tasks = [requests.start(name) for name in names]
        await requests.settle()
        at_first = list(requests.begun)
        for name in names:
            requests.go_on[name].set()
        await asyncio.gather(*tasks)
        return at_first, requests.begun

    at_first, in_the_end = asyncio.run(scene())

    assert at_first == ["0", "1", "2"]
    assert in_the_end == ["0", "1", "2", "3", "4"]


def test_a_request_that_only_waits_makes_room_for_the_next_also_of_the_databases_connections():
    async def scene() -> list[str]:
        requests = Requests(Admission(at_most=2))
        tasks = [requests.start(str(number), waits=True) for number in range(5)]
        while len(requests.begun) < 5:  # without room the test would hang here and be ended by its timeout
            await asyncio.sleep(0.001)
        for event in requests.go_on.values():
            event.set()
        await asyncio.gather(*tasks)
        return requests.begun

    assert asyncio.run(scene()) == ["0", "1", "2", "3", "4"]


def test_a_request_that_takes_long_computes_no_more_but_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(admission, "COMPUTES_AT_MOST", 0.0)

    async def scene() -> list[str]:
        requests = Requests(Admission(at_most=SIDE_BY_SIDE + 1))
        tasks = [requests.start(str(number)) for number in range(SIDE_BY_SIDE + 2)]
        while len(requests.begun) < SIDE_BY_SIDE + 1:
            await asyncio.sleep(0.001)
        await requests.settle()
        begun = list(requests.begun)
        for event in requests.go_on.values():
            event.set()
        await asyncio.gather(*tasks)
        return begun

    assert asyncio.run(scene()) == ["0", "1", "2", "3"]


def test_who_is_not_let_in_in_time_is_told_to_come_back_and_takes_nobodys_place(monkeypatch):
    monkeypatch.setattr(admission, "PATIENCE", 0.0)

    async def scene() -> list[str]:
        requests = Requests(Admission(at_most=1))
        first = requests.start("first")
        await requests.settle()
        with pytest.raises(Unavailable):
            await requests.start("second")
        requests.go_on["first"].set()
        await first
        third = requests.start("third")
        requests.go_on["third"].set()
        await third
        return requests.begun

    assert asyncio.run(scene()) == ["first", "third"]


def test_a_request_that_fails_gives_its_place_back():
    async def scene() -> list[str]:
        gate = Admission(at_most=1)
        with pytest.raises(ZeroDivisionError):
            async with gate.admitted():
                raise ZeroDivisionError
        requests = Requests(gate)
        task = requests.start("next")
        requests.go_on["next"].set()
        await task
        return requests.begun

    assert asyncio.run(scene()) == ["next"]
