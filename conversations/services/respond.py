"""Hop 6: ask the model, carry out the tools it calls, show it the results, until it has answered.

Every request extends the one before it: what the turn adds stands behind the question, and the view is not read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import structlog
from django.conf import settings

from agentx import metrics
from agentx.errors import ContextOverflow, EmptyAnswer, ModelError
from agentx.llm.messages import ToolCall
from agentx.llm.routes import ModelRoute
from agentx.llm.tokens import default_counter
from agentx.model_routes import route_health
from conversations.context.budget import derive_budget
from conversations.context.nudges import (
    CONTINUE,
    ECHO,
    EMPTY,
    LAST_ROUND,
    clean_echo,
    make_draft,
    make_nudge,
)
from conversations.context.types import DoesNotFitError, TranscriptMessage
from conversations.contracts import Exchange, RunClaim
from conversations.events import Status, Steered, ToolCalled, ToolReturned
from conversations.models.model_record import LEAST_WINDOW
from conversations.selectors.snapshot import Substitute
from conversations.services.call import Answer, Draft, RespondLimits, model_call
from conversations.services.candidates import Candidate, Candidates
from conversations.services.control import TurnControl
from conversations.services.exchanges import (
    clip_arguments_text,
    exchange_store,
    summarize_result,
    transcript_rows,
)
from conversations.services.models import window_learn
from conversations.services.patience import db_patiently
from conversations.services.report import context_report, log_budgets
from conversations.services.steering import TakenSteer, steer_rows, steers_release, steers_take
from conversations.services.view import Prepared, view_prepare, without_tools
from conversations.stream import RunLog
from tools.contracts import Executed, Tool, ToolContext, ToolResult
from tools.routing import ToolOffer
from tools.services.execute import calls_execute

log = structlog.get_logger(__name__)

# A request that the provider calls too long is made smaller and sent again at most so often.
OVERFLOW_RUNGS = 3
# What is left of the window after an overflow that named none.
_NARROWER = 0.75
# Calls of one answer beyond this many are refused: no question needs them, and each is a message in the transcript.
MOST_CALLS = 64
# Rounds that only write down the state of work before further ones are refused.
STATE_ROUNDS = 3
_SPINNING = (
    "The state has been written down often enough in this turn; nothing was changed. Answer the person now."
)
_TOO_MANY = (
    f"Not carried out: one reply may make at most {MOST_CALLS} calls. Ask again for what is still needed."
)


@dataclass(frozen=True, slots=True)
class TurnTools:
    """What a turn needs from its runner. ``candidates``: the model that is asked and those that stand in for it.

    ``tools``: those that may be called, in the order in which they are offered.
    """

    candidates: tuple[Candidate, ...]
    tools: tuple[Tool, ...] = ()


@dataclass(slots=True)
class Turn:
    """The moving parts of one turn. ``prepared``: the view of its newest call."""

    claim: RunClaim
    run_log: RunLog
    control: TurnControl
    draft: Draft
    started: float
    prepared: Prepared | None = None


async def turn_respond(*, turn: Turn, tools: TurnTools, limits: RespondLimits) -> None:
    """Answer the question of a turn; the answer is in ``turn.draft``, and every finished step is stored.

    Raises ``ModelError``, ``EmptyAnswer``, ``DoesNotFitError`` and ``ViewUnstable``; what came before them stays in the
    draft.
    """
    candidates = Candidates(tools.candidates, health=route_health)
    await _Rounds(turn=turn, tools=tools, limits=limits, candidates=candidates).run()


@dataclass(slots=True)
class _Rounds:
    """The rounds of one turn. ``added``: what followed the question, as the next request has it. ``steers``: messages that are
    being taken in and not stored yet. ``announced``: the newest status says that another model answers.
    """

    turn: Turn
    tools: TurnTools
    limits: RespondLimits
    candidates: Candidates
    added: list[TranscriptMessage] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    steers: tuple[TakenSteer, ...] = ()
    answering: Candidate | None = None
    announced: bool = False
    rounds: int = 0
    state_rounds: int = 0
    nudged: bool = False
    continued: bool = False
    asked_to_end: bool = False
    text_only: bool = False

    async def run(self) -> None:
        if self.candidates.substituted:
            self._announce(self.candidates.asked.route)
        while True:
            answer = await self._ask()
            if answer.calls and self.asked_to_end and not self.text_only:
                # Told to answer and calling all the same: once more, without anything to call.
                self.text_only = True
                self.turn.draft.pieces.clear()
            elif answer.calls and not self.text_only:
                await self._carry_out(answer)
            elif self._is_final(answer):
                return

    async def _ask(self) -> Answer:
        """One call, asked of the next candidate where one does not serve and nothing has come of it."""
        await self._take_steers()
        while True:
            try:
                answer = await self._ask_candidate()
            except (ModelError, DoesNotFitError) as error:
                if self.turn.draft.answering:
                    raise
                failed = self.candidates.current.route
                if not self.candidates.move_on(error):
                    raise self.candidates.final_error(error) from None
                self._announce(failed)
            else:
                self.candidates.note_success()
                return answer

    def _announce(self, failed: ModelRoute) -> None:
        """Say which model does not answer and which one does instead."""
        current = self.candidates.current.route
        if self.candidates.substituted:
            failed = self.candidates.asked.route
        log.warning("model_substituted", asked=failed.model, model=current.model, host=current.host)
        name = current.model if current.model != failed.model else f"{current.model} at {current.host}"
        label = f"{failed.model} cannot be reached; {name} answers instead"
        self.turn.run_log.emit(Status(phase="model_fallback", label=label))
        self.announced = True

    async def _ask_candidate(self) -> Answer:
        """One call, with the request made smaller when the provider says that it is too long."""
        cap: int | None = None
        refused: ContextOverflow | None = None
        for rung in range(1, OVERFLOW_RUNGS + 1):
            try:
                prepared = await self._prepare_with_steers(cap)
            except DoesNotFitError:
                if refused is None or refused.details.get("window") == cap:
                    raise
                raise refused from None  # the limit was our guess; what the provider said is what is known
            if refused is not None and self.turn.prepared is not None:
                _require_smaller(prepared, self.turn.prepared, refused)
            self.turn.prepared = prepared
            await self._store_step(prepared)
            self.turn.run_log.emit(context_report(prepared))
            log_budgets(prepared)
            try:
                return await self._call(prepared)
            except ContextOverflow as overflow:
                if self.turn.draft.answering or rung == OVERFLOW_RUNGS:
                    raise
                model = self.candidates.current.route.model
                refused, cap = overflow, await _narrow(model, overflow, prepared)
        raise AssertionError("the last rung returns or raises")

    async def _take_steers(self) -> None:
        """At a safe boundary: before results are shown, or before anything is."""
        if self.turn.draft.unstored is None and not (self.turn.prepared is None and self.turn.claim.steered):
            return
        self.steers = await db_patiently(partial(steers_take, claim=self.turn.claim))

    async def _prepare_with_steers(self, cap: int | None) -> Prepared:
        """The next view. Messages that would make the turn too large are left for the next one."""
        try:
            return await self._prepare(cap)
        except DoesNotFitError:
            if not self.steers:
                raise
        log.info("steers_do_not_fit", messages=len(self.steers))
        self.steers = ()
        await db_patiently(partial(steers_release, claim=self.turn.claim))
        return await self._prepare(cap)

    async def _prepare(self, cap: int | None) -> Prepared:
        turn, tools, candidate = self.turn, self.tools, self.candidates.current
        substitute = None
        # The same name at another endpoint has limits of its own; and settings may have changed since the run was queued.
        if self.candidates.substituted or candidate.route.model != turn.claim.model:
            substitute = Substitute(candidate.route.model, candidate.reported_window)
        same = turn.prepared is not None and self.answering is candidate
        self.answering = candidate
        prepared = await view_prepare(
            run_id=turn.claim.run_id,
            conversation_id=turn.claim.conversation_id,
            reported_window=self.candidates.asked.reported_window,
            request_counter=candidate.request_counter,
            window_cap=cap,
            offer=ToolOffer(mode=settings.TOOL_ROUTING_MODE, tools=tools.tools, role=turn.claim.role),
            substitute=substitute,
            base=turn.prepared.snapshot if same and turn.prepared is not None else None,
            added=(*self.added, *self._unstored_rows()),
        )
        return without_tools(prepared) if self.text_only else prepared

    async def _call(self, prepared: Prepared) -> Answer:
        turn = self.turn
        if not self.announced:  # people see the newest status: who answers is news for longer than a moment
            turn.run_log.emit(Status(phase="composing", label="Composing the answer"))
        self.announced = False
        return await model_call(
            model=self.candidates.current.model,
            route=self.candidates.current.route,
            view=prepared.view,
            draft=turn.draft,
            run_log=turn.run_log,
            limits=self.limits,
            started=turn.started,
        )

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def _carry_out(self, answer: Answer) -> None:
        """Run the calls of an answer; the step is stored with the request that shows its results."""
        draft, run_log = self.turn.draft, self.turn.run_log
        by_name = {tool.name: tool for tool in self._offered()}
        refusal = self._refusal(answer.calls, by_name)
        wanted = () if refusal else answer.calls[:MOST_CALLS]
        label = "Running tools" if len(wanted) != 1 else _label(wanted[0], by_name)
        run_log.emit(Status(phase="running_tool", label=label))
        for call in answer.calls:
            arguments = clip_arguments_text(call.arguments)
            run_log.emit(
                ToolCalled(id=call.id, name=call.name, label=_label(call, by_name), arguments=arguments)
            )
        executed = list(
            await calls_execute(
                calls=wanted, tools=by_name, context=await self._context(), on_end=self._on_end
            )
        )
        for call in answer.calls[len(wanted) :]:
            result = ToolResult(content=refusal or _TOO_MANY, ok=False)
            executed.append(Executed(call=call, result=result, seconds=0.0, label=_label(call, by_name)))
            self._on_end(executed[-1])
        # From here to the end without an await: a stop finds the step either in the text or among what is to be stored.
        draft.unstored = Exchange(text=draft.text, executed=tuple(executed))
        draft.pieces.clear()
        self.called.update(call.name for call in answer.calls)
        self.rounds += 1

    def _refusal(self, calls: tuple[ToolCall, ...], by_name: Mapping[str, Tool]) -> str | None:
        """Why no call of this answer is carried out, where none is."""
        only_state = all(call.name in by_name and by_name[call.name].group == "state" for call in calls)
        self.state_rounds = self.state_rounds + 1 if only_state else 0
        return _SPINNING if self.state_rounds > STATE_ROUNDS else None

    def _on_end(self, executed: Executed) -> None:
        self.turn.run_log.emit(
            ToolReturned(
                id=executed.call.id,
                name=executed.call.name,
                ok=executed.result.ok,
                summary=summarize_result(executed),
                duration_ms=round(executed.seconds * 1000),
            )
        )

    async def _context(self) -> ToolContext:
        claim, prepared = self.turn.claim, self.turn.prepared
        assert prepared is not None, "calls come in answers, and answers to views"
        question = prepared.snapshot.question
        return ToolContext(
            user_id=claim.user_id,
            conversation_id=claim.conversation_id,
            run_id=claim.run_id,
            turn=question.turn,
            question=question.content,
            role=claim.role,
        )

    def _unstored_rows(self) -> tuple[TranscriptMessage, ...]:
        """The step that is not stored yet and what was taken in behind it, at the seqs they will have: nobody else writes
        while the run is active."""
        exchange, claim = self.turn.draft.unstored, self.turn.claim
        first = 1 + max([claim.user_message_seq, *(message.seq for message in self.added)])
        rows: tuple[TranscriptMessage, ...] = ()
        if exchange is not None:
            rows = transcript_rows(exchange=exchange, turn=claim.turn, first_seq=first)
        rows += steer_rows(steers=self.steers, turn=claim.turn, first_seq=first + len(rows))
        if exchange is None or self.rounds < settings.TOOL_MAX_ROUNDS:
            return rows
        return (*rows, make_nudge(text=LAST_ROUND, turn=claim.turn, counter=default_counter()))

    async def _store_step(self, prepared: Prepared) -> None:
        """Before the results are shown to the model, with the length to which they are shown."""
        draft, exchange, steers = self.turn.draft, self.turn.draft.unstored, self.steers
        if exchange is None and not steers:
            return
        rows = self._unstored_rows()
        seq = self.turn.run_log.assign()
        store = partial(
            exchange_store,
            claim=self.turn.claim,
            exchange=exchange,
            steers=steers,
            excerpt=prepared.view.excerpt,
            seq=seq,
        )
        storing = asyncio.ensure_future(db_patiently(store))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            # A stop in the middle of it: whether the step is stored has to be known before the turn is.
            await asyncio.wait({storing})
            if storing.exception() is None:
                draft.unstored = None
            raise
        draft.unstored, self.steers = None, ()
        for steer, message in zip(steers, storing.result(), strict=True):
            self.turn.run_log.emit(Steered(steer_id=steer.id, message=message))
        draft.steps += exchange is not None
        self.added.extend(replace(row, excerpt=prepared.view.excerpt) if row.seq else row for row in rows)
        self.asked_to_end = self.rounds >= settings.TOOL_MAX_ROUNDS
        draft.answering = False

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _is_final(self, answer: Answer) -> bool:
        """Whether the draft is an answer; if not, what the model is told is added. Raises ``EmptyAnswer``."""
        draft, turn = self.turn.draft, self._turn_number()
        text = draft.text
        if answer.finish_reason == "length" and text.strip() and not self.continued:
            self.continued = True
            self.added.append(make_draft(text=text, turn=turn, counter=default_counter()))
            self.added.append(make_nudge(text=CONTINUE, turn=turn, counter=default_counter()))
            return False
        known = {tool.name for tool in self._offered()} | self.called
        cleaned = clean_echo(text=text, called=self.called, known=known)
        if cleaned.strip():
            draft.pieces[:] = [cleaned]
            return True
        if self.nudged:
            draft.pieces.clear()
            raise EmptyAnswer
        self.nudged = True
        draft.pieces.clear()
        words = ECHO if text.strip() else EMPTY
        self.added.append(make_nudge(text=words, turn=turn, counter=default_counter()))
        return False

    def _offered(self) -> tuple[Tool, ...]:
        """The tools that the newest request named: none where the model cannot call any."""
        prepared = self.turn.prepared
        named = {schema.name for schema in prepared.snapshot.tools} if prepared is not None else set[str]()
        return tuple(tool for tool in self.tools.tools if tool.name in named)

    def _turn_number(self) -> int:
        prepared = self.turn.prepared
        return 0 if prepared is None else prepared.snapshot.question.turn


def _label(call: ToolCall, by_name: Mapping[str, Tool]) -> str:
    tool = by_name.get(call.name)
    return call.name if tool is None else tool.label


def _require_smaller(prepared: Prepared, before: Prepared, refused: ContextOverflow) -> None:
    """Nothing is sent again that is not smaller than what was just refused as too long."""
    if prepared.view.allocation.used >= before.view.allocation.used:
        raise refused


async def _narrow(model: str, overflow: ContextOverflow, prepared: Prepared) -> int:
    """A window for the next attempt: what the provider named, which is remembered, or three quarters of this one.

    Where the refused request would still fit by our own count, the count is what is wrong: then three quarters of the
    request are the limit.
    """
    window = prepared.view.allocation.window
    named = overflow.details.get("window")
    log.warning("context_overflow_retry", window=window, named=named)
    metrics.overflow_retry_count(model=model)
    if isinstance(named, int) and LEAST_WINDOW <= named < window:
        await db_patiently(partial(window_learn, model=model, window=named))
        narrow = named
    else:
        narrow = int(window * _NARROWER)
    rules, used = prepared.snapshot.rules, prepared.view.allocation.used
    if derive_budget(window=narrow, rules=rules).tokens >= used:
        narrow = int(used * _NARROWER / rules.verbatim_ratio)
    return narrow
