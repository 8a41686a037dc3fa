import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";

import { applyEvent, applyReset, freshRun, type LiveRun } from "./live";
import { assembleRows } from "./rows";
import { needsRuns } from "./state";
import { aboutOf, endStep, startStep, type Step } from "./steps";
import { Steps } from "./Steps";
import type { MessageBody, RunEvent } from "./types";

const RUN = "11111111-1111-4111-8111-111111111111";

function message(seq: number, fields: Partial<MessageBody>): MessageBody {
  return {
    id: seq,
    seq,
    turn: 1,
    role: "assistant",
    content: "",
    status: "complete",
    tool_calls: [],
    tool_call_id: "",
    run_id: RUN,
    metadata: {},
    created_at: "2026-01-01T00:00:00Z",
    ...fields,
  };
}

const CALL = {
  id: "call_0",
  name: "conversation_search",
  label: "Searching the conversation",
  arguments: '{"query": "turbine"}',
};

const STORED = [
  message(1, { role: "user", content: "What did it cost?" }),
  message(2, { content: "Let me look.", tool_calls: [CALL] }),
  message(3, {
    role: "tool",
    tool_call_id: "call_0",
    content: "…",
    metadata: { ok: true, summary: "1 message", duration_ms: 1_200 },
  }),
  message(4, { content: "48,213 euros." }),
];

const DONE: Step = { ...CALL, said: "Let me look.", state: "ok", summary: "1 message", seconds: 1.2 };

function play(...events: [type: string, data: object][]): LiveRun {
  return events.reduce(
    (run, [type, data], index) =>
      applyEvent(run, { seq: index + 1, type, run_id: RUN, data } as unknown as RunEvent),
    freshRun(RUN, "e1"),
  );
}

test("what was said before a call belongs to its step, and the answer begins anew", () => {
  const run = play(
    ["delta", { text: "Let me look." }],
    ["tool_call", CALL],
    ["tool_result", { id: "call_0", name: CALL.name, ok: true, summary: "1 message", duration_ms: 1_200 }],
    ["delta", { text: "48,213 " }],
    ["delta", { text: "euros." }],
  );

  expect(run.steps).toEqual([DONE]);
  expect(run.text).toBe("48,213 euros.");
});

test("live steps and stored ones are the same", () => {
  const rows = assembleRows({ messages: STORED, failures: {}, thoughts: {}, pending: null, live: null });

  expect(rows.map((row) => [row.kind, row.key])).toEqual([
    ["question", "q1"],
    ["answer", "a1"],
  ]);
  expect(rows[1]).toMatchObject({ steps: [DONE], message: { content: "48,213 euros." } });
});

test("a turn that failed after a step shows the step", () => {
  const failure = { runId: RUN, status: "failed" as const, error: null, seen: false };

  const rows = assembleRows({
    messages: STORED.slice(0, 3),
    failures: { 1: failure },
    thoughts: {},
    pending: null,
    live: null,
  });

  expect(rows[1]).toMatchObject({ message: null, failure, steps: [DONE] });
});

test("a question with steps and no answer has to be explained, one with an answer has not", () => {
  expect(needsRuns(STORED)).toBe(false);
  expect(needsRuns(STORED.slice(0, 3))).toBe(true);
});

test("of two calls with one id the running one ends", () => {
  const first = endStep([startStep(CALL, "")], { id: "call_0", ok: true, summary: "a", duration_ms: 5 });
  const both = endStep([...first, startStep(CALL, "")], {
    id: "call_0",
    ok: false,
    summary: "b",
    duration_ms: 5,
  });

  expect(both.map((step) => [step.state, step.summary])).toEqual([
    ["ok", "a"],
    ["failed", "b"],
  ]);
});

test.each([
  ['{"query": "two  words"}', "two words"],
  ['{"deep": {}, "turn": 3}', "3"],
  ["{broken", ""],
  ["null", ""],
  ["", ""],
])("what a call %s is about", (written, about) => {
  expect(aboutOf({ ...DONE, arguments: written })).toBe(about);
});

test("a step opens to what was asked and what came back", async () => {
  render(<Steps steps={[DONE]} />);
  const line = screen.getByRole("button", { name: /Searching the conversation.*turbine.*1\.2 s/ });
  expect(line).toHaveAttribute("aria-expanded", "false");
  expect(screen.getByText("1 message")).not.toBeVisible();

  await userEvent.click(line);

  expect(screen.getByText("1 message")).toBeVisible();
  expect(screen.getByText(CALL.arguments)).toBeVisible();
});

test("many finished steps fold into one line that counts the failed ones; running ones stay in sight", () => {
  const many: Step[] = Array.from({ length: 6 }, (_, index) => ({ ...DONE, said: "", summary: `r${index}` }));
  const { rerender } = render(<Steps steps={many.with(2, { ...DONE, state: "failed" })} />);
  expect(screen.getByRole("button", { name: "6 steps, 1 failed" })).toHaveAttribute("aria-expanded", "false");
  expect(screen.queryByRole("list")).toBeNull();

  rerender(<Steps steps={many.with(5, { ...DONE, state: "running", seconds: null })} />);

  expect(screen.getByRole("list", { name: "Steps" })).toBeVisible();
});

test("after lost events a running step is not known to run, and a result that still comes ends it", () => {
  const reset = (seq: number) =>
    ({ type: "reset", run_id: RUN, epoch: "e1", run_status: "running", partial: { text: "", seq } }) as const;
  const run = play(["tool_call", CALL]);

  const later = applyReset(run, reset(9));
  expect(later.steps.map((step) => step.state)).toEqual(["unknown"]);
  const data = { id: "call_0", name: CALL.name, ok: true, summary: "1 message", duration_ms: 5 };
  const ended = applyEvent(later, { seq: 10, type: "tool_result", run_id: RUN, data });
  expect(ended.steps.map((step) => step.state)).toEqual(["ok"]);

  expect(applyReset(run, reset(0)).steps).toEqual([]);
});
