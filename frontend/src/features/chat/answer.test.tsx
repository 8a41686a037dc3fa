import { act, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Answer } from "./Answer";
import { answerFacts, formatDollars, formatDuration } from "./facts";
import { freshRun } from "./live";
import type { AnswerRow } from "./rows";
import { ChatSession } from "./session";
import { tickClock } from "./state";
import type { MessageBody } from "./types";

const LIVE_ROW: AnswerRow = {
  kind: "answer",
  key: "a1",
  number: 2,
  message: null,
  live: true,
  failure: null,
  thought: null,
  steps: [],
  question: "why?",
};

const MESSAGE: MessageBody = {
  id: 2,
  seq: 2,
  turn: 1,
  role: "assistant",
  content: "Because.",
  status: "complete",
  tool_calls: [],
  tool_call_id: "",
  run_id: "r",
  metadata: { model: "m-1", usage: { output_tokens: 1_234 }, timings: { total_ms: 12_300 } },
  created_at: "2026-01-01T00:00:00Z",
};

let session: ChatSession;

beforeEach(() => {
  vi.useFakeTimers();
  session = new ChatSession(null, { onCreated: () => {}, onActivity: () => {}, onLoaded: () => {} });
});

afterEach(() => {
  session.dispose();
  vi.useRealTimers();
});

function pass(ms: number): void {
  act(() => {
    vi.advanceTimersByTime(ms);
  });
}

test("C11: the seconds since sending are shown from the start", () => {
  session.begin(freshRun("r"));
  render(<Answer row={LIVE_ROW} session={session} isLast />);
  expect(screen.getByText("Waiting for the answer, 0 s")).toBeInTheDocument();

  pass(3_000);

  expect(screen.getByText("Waiting for the answer, 3 s")).toBeInTheDocument();
});

test("fifteen seconds without output are said, and waiting on is one of two ways out", () => {
  session.begin(freshRun("r"));
  render(<Answer row={LIVE_ROW} session={session} isLast />);
  pass(14_500);
  expect(screen.queryByText(/No output/)).toBeNull();

  pass(1_000);
  expect(screen.getByText("No output for 15 s")).toBeInTheDocument();
  act(() => screen.getByRole("button", { name: "Keep waiting" }).click());
  pass(250);
  expect(screen.queryByText(/No output/)).toBeNull();
  pass(15_000);
  act(() => screen.getByRole("button", { name: "Stop" }).click());

  expect(session.state.stopping).toBe(true);
});

test("thinking is one line with its seconds, and its end is the same line", () => {
  const before = freshRun("r");
  session.begin(before);
  const { rerender } = render(<Answer row={LIVE_ROW} session={session} isLast />);
  const thinking = { ...before, seq: 1, thinking: "Let me see." };
  act(() =>
    session.patch({ live: thinking, clock: tickClock(session.state.clock, before, thinking, Date.now()) }),
  );
  pass(12_000);
  expect(screen.getByRole("button", { name: "Thinking, 12 s", expanded: false })).toBeInTheDocument();

  const writing = { ...thinking, seq: 2, text: "Because" };
  act(() =>
    session.patch({ live: writing, clock: tickClock(session.state.clock, thinking, writing, Date.now()) }),
  );
  rerender(<Answer row={LIVE_ROW} session={session} isLast />);

  expect(screen.getByRole("button", { name: "Thought for 12 s" })).toBeInTheDocument();
});

test("the footer names only what the server stored", () => {
  render(<Answer row={{ ...LIVE_ROW, live: false, message: MESSAGE }} session={session} isLast />);

  expect(screen.getByText("m-1 · 1,234 tokens · 12 s")).toBeInTheDocument();
  expect(answerFacts({})).toEqual([]);
  expect(answerFacts({ model: "m", usage: null, timings: { total_ms: null } })).toEqual(["m"]);
});

test("RUN-11: the cost is the provider's, or marked as an estimate, or not there", () => {
  expect(answerFacts({ usage: { cost: 0.0042, cost_source: "provider" } })).toEqual(["$0.0042"]);
  expect(answerFacts({ usage: { cost: 0.0042, cost_source: "estimate" } })).toEqual(["≈ $0.0042"]);
  expect(answerFacts({ usage: { cost: 0, cost_source: "provider" } })).toEqual(["$0.00"]);
  expect(answerFacts({ usage: { cost: null, cost_source: null, known: { cost: 0.5 } } })).toEqual([]);
});

test("a small cost is not shown as nothing", () => {
  expect([12.345, 1, 0.5, 0.0123, 0.000_045, 0.000_001].map(formatDollars)).toEqual([
    "$12.35",
    "$1.00",
    "$0.50",
    "$0.012",
    "$0.000045",
    "< $0.00001",
  ]);
});

test("an answer by a substitute names both models", () => {
  expect(answerFacts({ model: "m-2", requested_model: "m-1" })).toEqual(["m-2 instead of m-1"]);
});

test("durations are short", () => {
  expect([900, 9_940, 9_960, 59_400, 61_000].map(formatDuration)).toEqual([
    "0.9 s",
    "9.9 s",
    "10 s",
    "59 s",
    "1 min 1 s",
  ]);
});

test("C12: a failure that happens now is an alert; one from before is not read out again", () => {
  const error = {
    code: "x",
    message: "The key was rejected",
    retryable: false,
    stalled: false,
    details: null,
  };
  const failure = { runId: "r", status: "failed" as const, error, seen: true };
  const row = { ...LIVE_ROW, live: false, failure };

  const { rerender } = render(<Answer row={row} session={session} isLast />);
  expect(screen.getByRole("alert")).toHaveTextContent("The key was rejected.");
  expect(screen.getByRole("button", { name: "Retry" })).toBeInTheDocument();
  rerender(
    <Answer row={{ ...row, failure: { ...failure, seen: false } }} session={session} isLast={false} />,
  );

  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("The key was rejected.")).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: "Retry" })).toBeNull();
});
